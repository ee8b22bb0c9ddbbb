"""Scenarios from a TOML file: rotated, permuted or split over any data, or tasks listed one by one.

A file has a kind, the data, and what the kind takes. Data is the name of a set (`crwn data list`) or a file or folder
that `crwn data import` could read, relative to the TOML file::

    # crwn run flowers.toml neuromodnet
    kind = "split"             # rotated | permuted | split | own
    name = "flowers"           # the file's name when left out
    data = "flowers"           # or "photos.zip", "table.csv", "arrays.npz", "folder/"
    classes_per_task = 4       # split: 5 when left out; rotated takes `step`, in degrees
    tasks = 3                  # as many as there are when left out (permuted: 100)
    augment = true             # split: crop and mirror at random; colour images only when left out
    epochs = 30                # or `batches = 1000`

Tasks of one's own are listed in order; all must have rows of one shape, classes may differ::

    # crwn run sites.toml neuromodnet
    kind = "own"
    batches = 500

    [[task]]
    name = "north"
    data = "north.csv"         # a fifth of every class is held out for tests, unless the data has a test split
    factors = { latitude = 61.5 }

    [[task]]
    name = "south"
    data = "south.csv"
    test = "south-later.csv"   # test rows of their own
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from crwn.data import ImageSet, Progress, load, read_image_set
from crwn.errors import ConfigError, DataError
from crwn.rows import Rows
from crwn.scenarios.permuted import permuted
from crwn.scenarios.pixel_map import PixelMap
from crwn.scenarios.rotated import rotated
from crwn.scenarios.scenario import Scenario, Task, count_tasks
from crwn.scenarios.split import split


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Common(_Entry):
    name: str | None = None
    tasks: int | None = Field(default=None, ge=1)
    batches: int | None = Field(default=None, ge=1)
    epochs: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_budget(self) -> _Common:
        if self.batches is not None and self.epochs is not None:
            raise ValueError("give batches or epochs, not both")
        return self

    def budget(self, usual: dict[str, int]) -> dict[str, int]:
        if self.batches is not None:
            return {"batches": self.batches}
        return usual if self.epochs is None else {"epochs": self.epochs}


class _Rotated(_Common):
    kind: Literal["rotated"]
    data: str
    step: float = Field(default=10.0, gt=0, lt=360)


class _Permuted(_Common):
    kind: Literal["permuted"]
    data: str


class _Split(_Common):
    kind: Literal["split"]
    data: str
    classes_per_task: int = Field(default=5, ge=2)
    augment: bool | None = None


class _OwnTask(_Entry):
    name: str = Field(min_length=1)
    data: str
    test: str | None = None
    factors: dict[str, float | int | str] = Field(default_factory=dict)


class _Own(_Common):
    kind: Literal["own"]
    task: list[_OwnTask] = Field(min_length=1)


_CONFIG: TypeAdapter[_Rotated | _Permuted | _Split | _Own] = TypeAdapter(
    Annotated[_Rotated | _Permuted | _Split | _Own, Field(discriminator="kind")]
)


def scenario_from_toml(path: Path, *, seed: int, tasks: int | None, progress: Progress) -> Scenario:
    """The scenario a TOML file describes."""
    try:
        config = _CONFIG.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"scenario file {path} cannot be read ({error})") from None
    except ValidationError as error:
        raise ConfigError(f"scenario file {path}: {_first_problem(error)}") from None
    name = config.name or path.stem
    wanted = config.tasks if tasks is None else tasks
    if isinstance(config, _Own):
        return _own(config, path, name, seed=seed, tasks=wanted, progress=progress)
    image_set = _data(config.data, path, progress)
    if isinstance(config, _Rotated):
        budget = config.budget({"batches": 1000})
        return rotated(image_set, seed=seed, tasks=wanted, step=config.step, budget=budget, name=name)
    if isinstance(config, _Permuted):
        return permuted(image_set, seed=seed, tasks=wanted, budget=config.budget({"batches": 1000}), name=name)
    budget = config.budget({"epochs": 250})
    return split(
        image_set, config.classes_per_task, seed=seed, tasks=wanted, augment=config.augment, budget=budget, name=name
    )


def _own(config: _Own, path: Path, name: str, *, seed: int, tasks: int | None, progress: Progress) -> Scenario:
    count = count_tasks(tasks, usual=len(config.task), most=len(config.task), scenario=name)
    made: list[Task] = []
    shape: tuple[int, ...] | None = None
    for entry in config.task[:count]:
        data = _data(entry.data, path, progress, test=entry.test)
        shape = shape or data.shape
        if data.shape != shape:
            raise DataError(
                f"task {entry.name!r} in {path} has rows of shape {data.shape}, task {made[0].name!r} of {shape}: "
                "all must have one shape"
            )
        prepare = PixelMap(data, shape=_input_shape(shape))
        made.append(
            Task(
                entry.name,
                Rows(data.x_train, data.y_train, prepare=prepare),
                Rows(data.x_test, data.y_test, prepare=prepare),
                data.classes,
                entry.factors,
            )
        )
    assert shape is not None
    return Scenario(name, made, seed=seed, input_shape=_input_shape(shape), budget=config.budget({"batches": 1000}))


def _input_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Colour images stay images, everything else becomes flat rows."""
    return shape if len(shape) == 3 else (math.prod(shape),)


def _data(data: str, toml: Path, progress: Progress, *, test: str | None = None) -> ImageSet:
    """The data an entry names: a file or folder beside the TOML file, or a set from the cache."""
    beside = toml.parent / Path(data).expanduser()
    if beside.exists():
        return read_image_set(
            beside, test=None if test is None else toml.parent / Path(test).expanduser(), progress=progress
        )
    if "/" in data or Path(data).suffix:
        raise DataError(f"{beside}, named in {toml}, is not there")
    if test is not None:
        raise ConfigError(f"{toml}: the set {data!r} has test rows already: leave out test = {test!r}")
    return load(data, progress=progress)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    # The first place is the kind, which pydantic adds to tell the members of the union apart.
    place = ".".join(str(part) for part in problem["loc"][1:])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "union_tag_not_found":
        return 'it has no kind: give kind = "rotated", "permuted", "split" or "own"'
    if problem["type"] == "union_tag_invalid":
        return f"kind {problem['ctx']['tag']!r} is none of rotated, permuted, split, own"
    if problem["type"] == "extra_forbidden":
        return f"{place!r} is not known for this kind"
    return f"{place}: {message} (it is {problem['input']!r})" if place else message
