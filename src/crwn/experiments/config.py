"""What a run is, as plain data: one method on one scenario with one seed, and the name of its folder."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crwn._utils import validated
from crwn.errors import ConfigError

# What the named scenarios have by default. Repeated here (a test compares) because the names of
# folders must be known without loading any data.
USUAL_TASKS = {
    "rotated-mnist": 36,
    "permuted-mnist": 100,
    "rotated-digits": 36,
    "permuted-digits": 100,
    "split-cifar100": 20,
    "split-mini-imagenet": 20,
}
USUAL_BUDGET = {
    "rotated-mnist": {"batches": 1000},
    "permuted-mnist": {"batches": 1000},
    "rotated-digits": {"batches": 300},
    "permuted-digits": {"batches": 300},
    "split-cifar100": {"epochs": 250},
    "split-mini-imagenet": {"epochs": 250},
}


Protocol = Literal["task", "class", "domain"]  # what is known of a test row: its task; nothing; nothing
EngineName = Literal["local", "processes", "ray"]
ENGINES = get_args(EngineName)


class RunConfig(BaseModel):
    """One run.

    >>> RunConfig(scenario="rotated-mnist", method="neuromodnet", size="4096", settings={"weights": "hadamard"}).label
    'neuromodnet-4096-weights=hadamard'
    >>> RunConfig(scenario="rotated-mnist", method="stl", size="256", tasks=2, batches=50).label
    'stl-256-tasks=2-batches=50'

    Args:
        size: what the paper calls the size; None until the method's default is filled in.
        tasks: how many tasks of the scenario; None for all it usually has.
        settings: the `--set` options of method and recipe, as strings.
        matrix: evaluate every task so far after each task, not only the one just learned.
        class_incremental: also infer the task from groups of this many test rows at the end.
        protocol: "class" or "domain" also evaluates without the task (`crwn.experiments.protocols`).
        engine: where independent tasks are learned: here, by processes of this machine, or on Ray's workers.
        address: of a running Ray cluster, None for one started here.
        threads: how many threads torch may use; None for what the machine offers, written down when the run begins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    scenario: str
    method: str
    size: str | None = None
    seed: int = Field(0, ge=0)
    tasks: int | None = Field(None, ge=1)
    batches: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)
    settings: dict[str, str] = Field(default_factory=dict)
    matrix: bool = False
    class_incremental: int | None = Field(None, ge=1)
    protocol: Protocol = "task"
    engine: EngineName = "local"
    address: str | None = None
    threads: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_length(self) -> RunConfig:
        if self.batches is not None and self.epochs is not None:
            raise ValueError(f"both batches ({self.batches}) and epochs ({self.epochs}) are given: give one of them")
        if self.address is not None and self.engine != "ray":
            raise ValueError(f"address {self.address} is that of a Ray cluster, but the engine is {self.engine}")
        return self

    @property
    def scenario_name(self) -> str:
        """The scenario's name, or that of its TOML file."""
        return Path(self.scenario).stem if self.scenario.endswith(".toml") else self.scenario

    @property
    def method_name(self) -> str:
        """The method's name; of a method in a file (`path/to/mine.py:Mine`), the file's and the class's."""
        file, sign, kind = self.method.rpartition(":")
        return f"{Path(file).stem}.{kind}" if sign and file.endswith(".py") else self.method

    @property
    def label(self) -> str:
        """The folder's name: method, size, and everything that is not the default."""
        parts = [self.method_name] + ([self.size] if self.size else [])
        if self.tasks is not None and self.tasks != USUAL_TASKS.get(self.scenario):
            parts.append(f"tasks={self.tasks}")
        usual = USUAL_BUDGET.get(self.scenario, {})
        for name, value in (("batches", self.batches), ("epochs", self.epochs)):
            if value is not None and value != usual.get(name):
                parts.append(f"{name}={value}")
        parts += [f"{key}={value}" for key, value in sorted(self.settings.items())]
        if self.matrix:
            parts.append("matrix")
        if self.class_incremental:
            parts.append(f"groups={self.class_incremental}")
        if self.protocol != "task":
            parts.append(f"protocol={self.protocol}")
        return re.sub(r"[^A-Za-z0-9=._-]", "_", "-".join(parts))

    def folder(self, base: Path) -> Path:
        """The path of this run under a folder of many runs."""
        return base / self.scenario_name / self.label / f"seed-{self.seed}"

    @property
    def command(self) -> str:
        """The command that does this run."""
        words = ["crwn", "run", self.scenario, self.method]
        for flag in ("size", "tasks", "batches", "epochs", "threads"):
            if (value := getattr(self, flag)) is not None:
                words += [f"--{flag}", str(value)]
        words += ["--seeds", str(self.seed)]
        for key, value in sorted(self.settings.items()):
            words += ["--set", f"{key}={value}"]
        words += ["--matrix"] * self.matrix
        if self.class_incremental:
            words += ["--class-incremental", str(self.class_incremental)]
        if self.protocol != "task":
            words += ["--protocol", self.protocol]
        if self.engine != "local":
            words += ["--engine", self.engine] + (["--address", self.address] if self.address else [])
        return shlex.join(words)

    def identity(self) -> dict[str, Any]:
        """Everything that determines the results; where the work is done (engine, threads) is not part of it."""
        usual = USUAL_BUDGET.get(self.scenario, {})
        identity = self.model_dump(exclude={"engine", "address", "threads"})
        if self.protocol == "task":  # as in records of versions that had no other
            del identity["protocol"]
        identity["tasks"] = self.tasks or USUAL_TASKS.get(self.scenario)
        if self.batches is None and self.epochs is None:
            identity["batches"], identity["epochs"] = usual.get("batches"), usual.get("epochs")
        if self.scenario.endswith(".toml"):
            identity["scenario"] = self.scenario_name
            identity["scenario_sha256"] = _digest(Path(self.scenario), "scenario")
        if self.method_name != self.method:
            identity["method"] = self.method_name
            identity["method_sha256"] = _digest(Path(self.method.rpartition(":")[0]), "method")
        return identity


def make_config(**fields: Any) -> RunConfig:
    """A run's config from keyword fields, with one clear line for a wrong one."""
    return validated(RunConfig, fields)


def parse_seeds(text: str) -> list[int]:
    """Seeds from the command line.

    >>> parse_seeds("0,1,2")
    [0, 1, 2]
    """
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text!r}: give distinct whole numbers from 0, separated by commas, like 0,1,2")
    return seeds


def parse_settings(items: Sequence[str]) -> dict[str, str]:
    """`--set key=value` options.

    >>> parse_settings(["weights=hadamard", "rate=0.02"])
    {'weights': 'hadamard', 'rate': '0.02'}
    """
    settings: dict[str, str] = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise ConfigError(f"--set {item!r}: write it as key=value, like weights=hadamard")
        if key.strip() in settings:
            raise ConfigError(f"--set {key.strip()} is given twice: {settings[key.strip()]!r} and {value.strip()!r}")
        settings[key.strip()] = value.strip()
    return settings


def _digest(path: Path, what: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise ConfigError(f"the {what} file {path} cannot be read: give the path of a file that is there") from None
