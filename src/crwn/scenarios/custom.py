"""Scenarios from a TOML file: rotated, permuted or split over any data, or a list of custom tasks.

A file has a kind, the data, and the options of the kind. `data` is the name of a dataset (`crwn data list`), or a file
or folder that `crwn data import` can read, relative to the TOML file::

    # crwn run flowers.toml neuromodnet
    kind = "split"             # rotated | permuted | split | custom
    name = "flowers"           # default: the file's name
    data = "flowers"           # or "photos.zip", "table.csv", "arrays.npz", "folder/"
    classes_per_task = 4       # split only, default 5; rotated has `step`, in degrees
    tasks = 3                  # default: all (permuted: 100)
    augment = true             # split only: crop and mirror at random; default: colour images only
    epochs = 30                # or `batches = 1000`

Custom tasks are listed in order; all must have rows of one shape, classes may differ::

    # crwn run sites.toml neuromodnet
    kind = "custom"            # "own" is accepted too
    batches = 500

    [[task]]
    name = "north"
    data = "north.csv"         # a fifth of every class is held out for testing, unless the data has a test split
    factors = { latitude = 61.5 }

    [[task]]
    name = "south"
    data = "south.csv"
    test = "south-later.csv"   # separate test rows
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from crwn.data import ImageSet, Progress, load, read_image_set
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, DataError
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


class _CustomTask(_Entry):
    name: str = Field(min_length=1)
    data: str
    test: str | None = None
    factors: dict[str, float | int | str] = Field(default_factory=dict)


class _Custom(_Common):
    kind: Literal["custom", "own"]  # "own" is the name of earlier versions
    task: list[_CustomTask] = Field(min_length=1)


_CONFIG: TypeAdapter[_Rotated | _Permuted | _Split | _Custom] = TypeAdapter(
    Annotated[_Rotated | _Permuted | _Split | _Custom, Field(discriminator="kind")]
)


def scenario_from_toml(path: Path, *, seed: int, tasks: int | None, progress: Progress) -> Scenario:
    """Make the scenario that a TOML file describes."""
    try:
        config = _CONFIG.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"scenario file {path} cannot be read ({error})") from None
    except ValidationError as error:
        raise ConfigError(f"scenario file {path}: {_first_problem(error)}") from None
    name = config.name or path.stem
    wanted = config.tasks if tasks is None else tasks
    if isinstance(config, _Custom):
        return _custom(config, path, name, seed=seed, tasks=wanted, progress=progress)
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


def _custom(config: _Custom, path: Path, name: str, *, seed: int, tasks: int | None, progress: Progress) -> Scenario:
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
                Rows(data.x_train, data.y_train, prepare=prepare, standardized=True),
                Rows(data.x_test, data.y_test, prepare=prepare, standardized=True),
                data.classes,
                entry.factors,
                prepare.scaling,
            )
        )
    assert shape is not None
    return Scenario(name, made, seed=seed, input_shape=_input_shape(shape), budget=config.budget({"batches": 1000}))


def _input_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Colour images keep their shape, everything else becomes flat rows."""
    return shape if len(shape) == 3 else (math.prod(shape),)


def _data(data: str, toml: Path, progress: Progress, *, test: str | None = None) -> ImageSet:
    """Load the data of an entry: a file or folder relative to the TOML file, or a dataset from the cache."""
    beside = toml.parent / Path(data).expanduser()
    if beside.exists():
        return read_image_set(
            beside, test=None if test is None else toml.parent / Path(test).expanduser(), progress=progress
        )
    if "/" in data or Path(data).suffix:
        raise DataError(f"{beside}, named in {toml}, does not exist")
    if test is not None:
        raise ConfigError(f"{toml}: the dataset {data!r} has test rows already: leave out test = {test!r}")
    return load(data, progress=progress)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    # The first part of the location is the kind, which pydantic adds for the members of a union.
    place = ".".join(str(part) for part in problem["loc"][1:])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "union_tag_not_found":
        return 'it has no kind: give kind = "rotated", "permuted", "split" or "custom"'
    if problem["type"] == "union_tag_invalid":
        return f"kind {problem['ctx']['tag']!r} is none of rotated, permuted, split, custom"
    if problem["type"] == "extra_forbidden":
        return f"{place!r} is not known for this kind"
    return f"{place}: {message} (it is {problem['input']!r})" if place else message
