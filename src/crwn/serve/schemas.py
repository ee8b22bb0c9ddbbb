"""What goes in and out as JSON, with examples; the OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Row = Any  # a list of numbers, nested like the model's input


class Given(BaseModel):
    """A request: strict about kinds and names."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PredictRequest(Given):
    """Rows, and whose they are: one task for all, one per row, or none: then the task is inferred for the group."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "task": "left", "probabilities": True}]},
    )

    rows: Annotated[list[Row], Field(min_length=1, description="each row a list of numbers")]
    task: Annotated[str | list[str] | None, Field(description="a name, one name per row, or null to infer it")] = None
    probabilities: Annotated[bool, Field(description="also give each row's probabilities over its classes")] = False


class InferRequest(Given):
    """Rows of one unknown task."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "top": 3}]}
    )

    rows: Annotated[list[Row], Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=1000, description="how many of the best tasks to give")] = 10


class LearnRequest(Given):
    """Rows and labels of one task, and how long to learn."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"x": [[0.0, 1.0], [1.0, 0.0]], "y": ["cat", "dog"], "batches": 300, "replace": False}]
        },
    )

    x: Annotated[list[Row], Field(min_length=1)]
    y: Annotated[list[Any], Field(min_length=1, description="one label per row: text, number, true, false, null")]
    batches: Annotated[int | None, Field(ge=1)] = None
    epochs: Annotated[int | None, Field(ge=1)] = None
    validation: Annotated[float | None, Field(gt=0, lt=1, description="share held out to stop early by")] = None
    replace: bool = False
    resume: bool = False


class Answers(BaseModel):
    """Labels in the order of the rows."""

    labels: list[Any] = Field(examples=[[3]])
    task: str | None = Field(None, description="whose labels these are, when it is one task", examples=["left"])
    tasks: list[str] | None = Field(None, description="one task per row, when they were given so")
    inferred: bool = Field(False, description="whether the task was inferred")
    none_of_these: bool | None = Field(None, description="when inferred: whether no task fits these rows")
    probabilities: list[list[float]] | None = Field(None, description="each row over its task's classes")
    classes: list[Any] | None = Field(None, description="with probabilities of one task: its classes in their order")


class RankedTask(BaseModel):
    task: str
    score: float = Field(description="one minus the normalised output entropy, 0..1")
    fit: float | None = Field(description="how usual such rows are for the task, 0..1; null when not known")


class Ranking(BaseModel):
    """Tasks that fit the rows, best first."""

    ranking: list[RankedTask]
    none_of_these: bool | None = Field(description="whether even the best one does not fit; null when not known")
    tasks: int = Field(description="how many there are in all")


class TaskFacts(BaseModel):
    """What is known of one task."""

    name: str = Field(examples=["left"])
    classes: list[Any] = Field(examples=[["cat", "dog"]])
    created: str = Field(examples=["2026-01-02T03:04:05+00:00"])
    version: int
    numbers: int = Field(description="how many numbers it learned")
    bytes: int = Field(description="what it takes in the bank")
    accuracy: float | None = Field(None, description="percent, on rows held out from learning, when known")
    info: dict[str, Any] = Field(default_factory=dict, description="rows, batches, seconds and other facts")


class TaskPage(BaseModel):
    """Some tasks in order of their names."""

    tasks: list[TaskFacts]
    next: str | None = Field(description="pass as `after` for the next page; null on the last one")
    total: int = Field(description="how many tasks there are in all, whatever the prefix")


class JobFacts(BaseModel):
    """A task being learned."""

    id: str
    task: str
    state: Literal["waiting", "learning", "done", "failed", "cancelled"]
    step: int
    steps: int
    loss: float | None
    message: str | None = Field(None, description="why it failed or was cancelled")
    events: str = Field(description="address of its progress as server-sent events")


class Stored(BaseModel):
    """A context was stored."""

    name: str
    version: int


class ModelFacts(BaseModel):
    """The model that all tasks share, and what this service allows."""

    kind: str
    fingerprint: str
    input_shape: list[int] | None
    outputs: int
    numbers_per_task: int
    tasks: int
    read_only: bool
    token_needed: bool = Field(description="whether writing needs a token")
    version: str


class Health(BaseModel):
    status: Literal["ok"]
    tasks: int
    model: str = Field(description="fingerprint of the model")
    uptime_seconds: float
    learning: int = Field(description="tasks being learned or waiting to be")


class AtlasPoint(BaseModel):
    task: str
    x: float = Field(description="-1..1")
    y: float = Field(description="-1..1")
    nearest: str | None = Field(description="the task whose context is most alike")
    similarity: float | None


class Atlas(BaseModel):
    """Contexts on a map: alike contexts lie together."""

    points: list[AtlasPoint]
    explained: float = Field(description="share of the differences that two dimensions show, 0..1")
    total: int


def body_of(examples: dict[str, Any], **kinds: Any) -> dict[str, Any]:
    """A request body for the OpenAPI description: content types with their schemas."""
    content: dict[str, Any] = {}
    for kind, schema in kinds.items():
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            content[kind] = {"schema": schema.model_json_schema(), "examples": examples}
        else:
            content[kind] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}


BINARY = {"type": "string", "format": "binary"}
