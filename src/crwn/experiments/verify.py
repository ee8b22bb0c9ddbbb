"""Repeat a recorded run and compare: equal, within the noise of rounding, or different."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crwn.errors import ConfigError, CRWNError
from crwn.experiments.config import RunConfig, make_config
from crwn.experiments.environment import instruction_set
from crwn.experiments.folder import RunFolder
from crwn.experiments.metrics import average
from crwn.experiments.progress import RunProgress
from crwn.experiments.run import run

Outcome = Literal["equal", "within noise", "different"]
MOST_SIGMAS = 3.0


@dataclass(frozen=True)
class Verification:
    """How a repeated run compares with its record.

    Args:
        outcome: "equal" to the last digit; "within noise" where the mean difference over the tasks is at most three
            standard errors of the difference that rounding alone makes; else "different".
        tasks: how many tasks were repeated.
        recorded, repeated: average accuracies of those tasks, in percent.
        difference: repeated minus recorded.
        noise: standard error of a mean difference that comes from rounding alone, measured by repeating the run with
            narrower vector instructions, which sum in another order; None where it was not needed.
        environment: what differs between the machines and versions of the two, as "key: recorded -> here".
    """

    outcome: Outcome
    tasks: int
    recorded: float
    repeated: float
    difference: float
    noise: float | None
    environment: list[str]


def verify(record: Path, *, tasks: int | None = None, progress: RunProgress | None = None) -> Verification:
    """Repeat the run whose record is in this folder, or its first tasks, and compare accuracies.

    With fewer tasks than the record has, accuracies right after learning are compared: what later tasks do to earlier
    ones is not repeated.

    Raises:
        ConfigError: there is no finished run, or it cannot be repeated here.
    """
    files = RunFolder(record)
    found, result = files.record(), files.result()
    if found is None or result is None:
        raise ConfigError(f"{record} has no finished run to verify: give the folder of a seed, like .../seed-0")
    count = len(result.tasks) if tasks is None else tasks
    if not 1 <= count <= len(result.tasks):
        raise ConfigError(f"the run in {record} has {len(result.tasks)} tasks: verify 1 to {len(result.tasks)} of them")
    whole = count == len(result.tasks)
    config, threads = _config(found, count, whole=whole), int(found["chosen"]["threads"])
    expected = (result.accuracy if whole else result.accuracy_after)[:count]
    repeated, machine = _accuracies(config, threads, whole, progress)
    difference = average(repeated) - average(expected)
    outcome: Outcome = "equal"
    noise = None
    if repeated != expected:
        other = _accuracies_rounded_differently(config, threads, whole)
        noise = _standard_error([a - b for a, b in zip(repeated, other, strict=True)])
        outcome = "within noise" if abs(difference) <= MOST_SIGMAS * noise else "different"
    changed = _changes(found, machine)
    return Verification(outcome, count, average(expected), average(repeated), difference, noise, changed)


def _config(record: dict[str, Any], tasks: int, *, whole: bool) -> RunConfig:
    fields = {key: value for key, value in record["run"].items() if key != "scenario_sha256"}
    if "scenario_sha256" in record["run"]:
        raise ConfigError("a run of a TOML scenario is verified by running it again: its data are the user's files")
    if not whole:
        fields |= {"tasks": tasks, "class_incremental": None, "matrix": False}
    return make_config(**fields)


def _accuracies(
    config: RunConfig, threads: int, whole: bool, progress: RunProgress | None
) -> tuple[list[float], dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="crwn-verify-") as scratch:
        folder = Path(scratch) / "run"
        result = run(config.model_copy(update={"threads": threads}), folder, progress=progress)
        record = RunFolder(folder).record()
    assert record is not None
    return (result.accuracy if whole else result.accuracy_after), record


def _accuracies_rounded_differently(config: RunConfig, threads: int, whole: bool) -> list[float]:
    """The same run in a process whose libraries are limited to narrower instructions than the processor has."""
    narrow = "default" if instruction_set() == "AVX2" else "avx2"
    limits = {"ATEN_CPU_CAPABILITY": narrow, "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    if narrow == "default":
        limits |= {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    with tempfile.TemporaryDirectory(prefix="crwn-verify-") as scratch:
        words = [*shlex.split(config.command)[1:], "--threads", str(threads), "--out", scratch]
        done = subprocess.run(
            [sys.executable, "-m", "crwn", *words], env={**os.environ, **limits}, capture_output=True, text=True
        )
        if done.returncode:
            raise CRWNError(f"the run could not be repeated to measure its noise: {done.stderr.strip()[-200:]}")
        result = RunFolder(Path(scratch) / f"seed-{config.seed}").result()
    assert result is not None
    return result.accuracy if whole else result.accuracy_after


def _standard_error(differences: list[float]) -> float:
    """The standard error of the mean of differences whose true mean is zero."""
    return math.sqrt(sum(value**2 for value in differences) / len(differences)) / math.sqrt(len(differences))


def _changes(recorded: dict[str, Any], here: dict[str, Any]) -> list[str]:
    found = []
    for part in ("versions", "machine"):
        before, now = recorded.get(part, {}), here.get(part, {})
        found += [f"{key}: {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]]
    return found
