"""Bodies of requests and responses about new classes and about rows without a task."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from crwn.serve.schemas import RowsRequest


class LabelledRows(RowsRequest):
    """Rows of a task with their labels."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rows": [[0.0, 0.5, 1.0, 0.2]], "labels": ["heron"]}]})

    labels: Annotated[list[Any], Field(min_length=1, description="one for each row")]


class ExtendedTask(BaseModel):
    """How the answers of a task for its old rows changed when rows were added."""

    rows: Annotated[int, Field(description="rows that were added")]
    classes: Annotated[list[Any], Field(description="all classes of the task, the new ones last")]
    new_classes: list[Any]
    mean_change: Annotated[float, Field(description="root mean squared change of the old rows' scores")]
    largest_change: Annotated[float, Field(description="no old row's scores changed by more")]


class SharedClasses(BaseModel):
    """What the head over the classes of all tasks has now."""

    tasks: list[str]
    classes: int


class RowAnswer(BaseModel):
    """The likeliest class of a row among those of all tasks."""

    task: str
    label: Any
    probability: float


class RowAnswers(BaseModel):
    """One answer for each row."""

    answers: list[RowAnswer]
