"""One run of benchmarks as a record: figures, what they were made from, versions, machine, seed, command."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from crwn.bench.measure import Figure, Message
from crwn.errors import ConfigError
from crwn.experiments.environment import commit, machine, usual_threads, versions

BENCHMARKS = (
    *("training", "convolution", "mixed", "scaling", "memory", "serve", "images", "exact"),
    *("adapters", "adapter_speeds"),
)


def measure_all(
    names: Sequence[str], *, quick: bool = False, seed: int = 0, progress: Message = lambda line: None
) -> dict[str, Any]:
    """Run the named benchmarks (all by default), one after another, and return the record.

    Args:
        quick: use small sizes, which only check that everything runs.
        progress: receives a line of progress before each part.

    Raises:
        ConfigError: a name is unknown.
    """
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        raise ConfigError(f'unknown benchmark "{unknown[0]}": choose from {", ".join(BENCHMARKS)}')
    import torch

    threads = usual_threads()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    record = heading(quick=quick, seed=seed)
    details: dict[str, Any] = {}
    notes: list[str] = []
    try:
        for name in names or BENCHMARKS:
            benchmark = import_module(f"crwn.bench.{name}")
            figures: list[Figure] = benchmark.measure(quick=quick, seed=seed, progress=progress, note=notes.append)
            record[name] = {figure.name.removeprefix(f"{name}."): figure.value for figure in figures}
            details |= {figure.name: figure.as_json() for figure in figures}
    finally:
        torch.set_num_threads(before)
    return record | {"details": details, "notes": notes}


def heading(*, quick: bool, seed: int) -> dict[str, Any]:
    """Return what every record begins with: how, when and on what it was made."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": commit(),
        "machine": machine(usual_threads()) | {"load": _load()},
        "seed": seed,
        "quick": quick,
    }


def recorded(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the records of a benchmark in a folder, one per machine: `NAME.json` and `NAME-MACHINE.json`."""
    found = []
    for path in sorted(folder.glob(f"{name}*.json"), key=lambda path: path.stem):
        record = json.loads(path.read_text(encoding="utf-8"))
        if path.stem.split("-")[0] == name and isinstance(record.get("details"), dict) and not record.get("quick"):
            found.append(record)
    return found


def place(record: dict[str, Any]) -> str:
    """Return what a record was measured on, in words; records of earlier versions lack the instruction set."""
    machine = record["machine"]
    known = [machine["processor"], machine.get("instruction_set"), f"{machine['cores']} cores"]
    load = [f"load {machine['load'][0]} before"] if machine.get("load") else []
    return ", ".join([*filter(None, known), f"{machine['threads']} threads", *load])


def _load() -> list[float]:
    """Return the machine's load before measuring, which shows what else runs."""
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except (AttributeError, OSError):
        return []
