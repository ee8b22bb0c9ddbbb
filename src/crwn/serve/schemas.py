"""Request and response bodies as pydantic models with examples; the OpenAPI description is generated from them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from crwn.contexts.kinds import Kind
from crwn.serve.jobs import State

if TYPE_CHECKING:
    from crwn.contexts.bank import Entry
    from crwn.serve.jobs import Job

Row = Any  # a list of numbers, nested like the model's input
_DEPRECATED: dict[str, Any] = {"deprecated": True}


def json_label(label: Hashable) -> Any:
    """A label as JSON: tuples become lists.

    >>> json_label(("left", (1, None)))
    ['left', [1, None]]
    """
    return [json_label(part) for part in label] if isinstance(label, tuple) else label


class RowsRequest(BaseModel):
    """A request with rows; unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: Annotated[
        list[Row], Field(min_length=1, description="each row a list of numbers, or an object by column name")
    ]


_Candidates = Annotated[
    list[str] | None, Field(description="only these tasks are tried when the task is inferred; null for all")
]
_Top = Annotated[int, Field(ge=1, le=1000, description="how many tasks to return, best first")]


class RowsQuery(BaseModel):
    """What the URL says about rows that are sent as an array."""

    task: Annotated[list[str] | None, Field(max_length=10_000)] = None
    candidate: list[str] | None = None
    probabilities: bool = False
    top: _Top = 10


class PredictRequest(RowsRequest):
    """Rows and their task: one name for all rows, one name per row, or none to infer the task of the whole group."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "task": "left", "probabilities": True}]}
    )

    task: Annotated[str | list[str] | None, Field(description="a name, one name per row, or null to infer it")] = None
    probabilities: Annotated[bool, Field(description="also return the class probabilities of each row")] = False
    candidates: _Candidates = None


class InferRequest(RowsRequest):
    """Rows of one unknown task."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "top": 3}]})

    top: _Top = 10
    candidates: _Candidates = None


class ObserveRequest(RowsRequest):
    """Rows of a stream with their labels; the first ones of a new task name all its classes."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "labels": ["cat"], "classes": ["cat", "dog"]}]}
    )

    labels: Annotated[list[Any], Field(min_length=1, description="one for each row")]
    classes: Annotated[
        list[Any] | None, Field(min_length=2, max_length=10_000, description="all labels; for a new task only")
    ] = None


class ObservedRows(BaseModel):
    """What the stream predicted before it learned the rows, and how well it has done so far."""

    predictions: Annotated[list[Any], Field(description="the labels predicted before the rows were learned")]
    rows: Annotated[int, Field(description="rows of this stream so far")]
    accuracy: Annotated[float, Field(description="share of them that were predicted right before they were learned")]
    drifts: Annotated[list[int], Field(description="rows at which the running error showed drift")]
    refreshed: Annotated[bool, Field(description="whether the context was replaced")]


class LearnOptions(BaseModel):
    """How a task is trained, and what happens to a task of the same name."""

    batches: Annotated[int | None, Field(ge=1, description="training steps")] = None
    epochs: Annotated[int | None, Field(ge=1, description="passes over the rows, instead of `batches`")] = None
    validation: Annotated[
        float | None, Field(gt=0, lt=1, description="share of the rows that is held out for early stopping")
    ] = None
    kind: Annotated[
        Kind | None,
        Field(description="classification by default; multilabel takes lists of labels in `y`, regression numbers"),
    ] = None
    class_weight: Annotated[
        Literal["balanced"] | None, Field(description="balanced lets all classes count the same, however rare")
    ] = None
    replace: Annotated[bool, Field(description="train an existing task from scratch")] = False
    resume: Annotated[bool, Field(description="continue from the context of an existing task")] = False


class TableQuery(BaseModel):
    """Which columns of a CSV are what."""

    label: Annotated[str, Field(description="of a CSV: the column with the labels")] = "label"
    ignore: Annotated[list[str], Field(description="of a CSV: columns that are not used", max_length=1000)] = []
    text: Annotated[list[str], Field(description="of a CSV: numbers to read as text", max_length=1000)] = []


class CSVOptions(LearnOptions, TableQuery):
    """The parameters of the URL of a request to learn."""


class LearnRequest(LearnOptions):
    """Rows and labels of one task, and options, which take precedence over those of the query."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"x": [[0.0, 1.0], [1.0, 0.0]], "y": ["cat", "dog"], "batches": 300, "replace": False}]
        },
    )

    x: Annotated[list[Row], Field(min_length=1, description="each row a list of numbers, or an object by column name")]
    y: Annotated[list[Any], Field(min_length=1, description="one label per row: text, number, true, false, null")]


class Predictions(BaseModel):
    """Labels in the order of the rows."""

    labels: list[Any] = Field(
        examples=[[3]], description="a label per row; a list of labels for multilabel tasks, a number for regression"
    )
    task: str | None = Field(None, description="the task of all rows, when it is one", examples=["left"])
    tasks: list[str] | None = Field(None, description="the task of each row, when the request named one per row")
    inferred: bool = Field(False, description="whether the task was inferred")
    none_of_these: bool | None = Field(None, description="when inferred: whether no task fits these rows")
    probabilities: list[list[float]] | None = Field(None, description="of each row, over the classes of its task")
    classes: list[Any] | None = Field(None, description="with probabilities of one task: its classes in their order")


class RankedTask(BaseModel):
    task: str
    score: float = Field(description="what tasks are ranked by, 0..1; under 0.1 where the rows are strange to the task")
    fit: float | None = Field(description="how typical the rows are of the task's own, 0..1; null when unknown")


class Ranking(BaseModel):
    """Tasks that fit the rows, best first."""

    ranking: list[RankedTask]
    none_of_these: bool | None = Field(description="whether even the best one does not fit; null when unknown")
    tasks: int = Field(description="number of tasks in the bank")


class TaskFacts(BaseModel):
    """One task in the bank."""

    name: str = Field(examples=["left"])
    classes: list[Any] = Field(examples=[["cat", "dog"]])
    created: str = Field(examples=["2026-01-02T03:04:05+00:00"])
    version: int
    parameters: int = Field(description="number of parameters in its context")
    numbers: int = Field(description="old name of `parameters`", json_schema_extra=_DEPRECATED)
    bytes: int = Field(description="size in the bank")
    accuracy: float | None = Field(None, description="percent, on rows held out from training; null when unknown")
    info: dict[str, Any] = Field(default_factory=dict, description="rows, batches, seconds and other facts")

    @classmethod
    def of(cls, entry: Entry) -> TaskFacts:
        return cls(
            name=entry.name,
            classes=[json_label(label) for label in entry.classes],
            created=entry.created,
            version=entry.version,
            parameters=entry.params,
            numbers=entry.params,
            bytes=entry.bytes,
            accuracy=entry.info.accuracy,
            # A density is kilobytes that no reader of a list needs.
            info={"damage": entry.damage}
            if entry.damage
            else {key: value for key, value in entry.info.items() if key != "density"},
        )


class TaskPage(BaseModel):
    """A page of tasks in the order of their names."""

    tasks: list[TaskFacts]
    next: str | None = Field(description="value of `after` for the next page; null on the last one")
    total: int = Field(description="number of tasks in the bank, whatever the prefix")


class JobFacts(BaseModel):
    """A learning job."""

    id: str
    task: str
    state: State
    step: int
    steps: int
    loss: float | None
    message: str | None = Field(None, description="why it failed or was cancelled")
    events: str = Field(description="path of its progress as server-sent events")

    @classmethod
    def of(cls, job: Job) -> JobFacts:
        return cls(
            id=job.id,
            task=job.task,
            state=job.state,
            step=job.step,
            steps=job.steps,
            loss=job.loss if job.loss is not None and abs(job.loss) < float("inf") else None,
            message=job.message,
            events=f"/v1/jobs/{job.id}/events",
        )


class Stored(BaseModel):
    """A context that was stored."""

    name: str
    version: int


class ModelFacts(BaseModel):
    """The model that all tasks share, and what this service allows."""

    kind: str
    fingerprint: str
    input_shape: list[int] | None
    outputs: int
    params_per_task: int = Field(description="number of parameters in one context")
    numbers_per_task: int = Field(description="old name of `params_per_task`", json_schema_extra=_DEPRECATED)
    tasks: int
    read_only: bool
    token_needed: bool = Field(description="whether writing needs a token")
    version: str


class Health(BaseModel):
    status: Literal["ok"]
    tasks: int
    model: str = Field(description="fingerprint of the model")
    uptime_seconds: float
    learning: int = Field(description="learning jobs that run or wait")


class AtlasPoint(BaseModel):
    task: str
    x: float = Field(description="-1..1")
    y: float = Field(description="-1..1")
    nearest: str | None = Field(description="the task with the most similar context")
    similarity: float | None = Field(description="cosine similarity to it, with the mean context removed")


class Atlas(BaseModel):
    """Contexts on a map: similar contexts lie close together."""

    points: list[AtlasPoint]
    explained: float = Field(description="share of the variance that the two dimensions explain, 0..1")
    total: int


BINARY = {"type": "string", "format": "binary"}


def body_of(examples: dict[str, Any], **kinds: Any) -> dict[str, Any]:
    """The request body of an endpoint in OpenAPI: content types with their schemas."""
    content: dict[str, Any] = {}
    for kind, schema in kinds.items():
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            content[kind] = {"schema": schema.model_json_schema(), "examples": examples}
        else:
            content[kind] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}
