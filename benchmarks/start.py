"""How long commands take that do little: a small table learned by command line, beside the start of Python with torch.

    python benchmarks/start.py --json results/bench/start.json

Seconds by the clock and of the processor, each the median of several runs; every run learns into a new model folder.
Python keeps what it compiled, as it does of installed packages: the first run, which compiles, is not measured.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from write_record import write_record

from crwn import Learner

CRWN = [sys.executable, "-c", "from crwn.cli import main; main()"]


def write_table(path: Path, rows: int, columns: int) -> None:
    """A table whose label depends on two of its columns."""
    x = np.random.default_rng(0).standard_normal((rows, columns))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"column {i}" for i in range(columns)), "label"])
        for row in x:
            writer.writerow([*(f"{value:.4f}" for value in row), "yes" if row[0] + row[1] > 0 else "no"])


def timed(command: list[str], compiled: Path) -> tuple[float, float]:
    """Seconds by the clock and of the processor that a process took, which keeps compiled modules in this folder."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, capture_output=True, env=kept | {"PYTHONPYCACHEPREFIX": str(compiled)})
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - began, used


def run(rows: int, columns: int, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        write_table(table, rows, columns)
        found: dict[str, list[tuple[float, float]]] = {"import_torch": [], "learn": []}
        trained, compiled = [], Path(folder) / "compiled"
        for turn in range(times + 1):  # in turns, so that other load affects both
            model = Path(folder) / f"{turn}.crwn"
            found["import_torch"].append(timed([sys.executable, "-c", "import torch"], compiled))
            found["learn"].append(timed([*CRWN, "learn", str(model), "a", str(table)], compiled))
            with Learner.load(model) as learner:
                trained.append(learner.context("a").info.seconds or 0.0)
    record: dict[str, Any] = {"rows": rows, "columns": columns, "runs": times}
    record["training_seconds"] = round(statistics.median(trained[1:]), 2)
    for name, pairs in ((name, pairs[1:]) for name, pairs in found.items()):
        record[f"{name}_seconds"] = round(statistics.median(clock for clock, _ in pairs), 2)
        record[f"{name}_cpu_seconds"] = round(statistics.median(used for _, used in pairs), 2)
    record["learn_beyond_torch_seconds"] = round(record["learn_seconds"] - record["import_torch_seconds"], 2)
    beyond = record["learn_cpu_seconds"] - record["import_torch_cpu_seconds"]
    record["learn_beyond_torch_cpu_seconds"] = round(beyond, 2)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    write_record(run(given.rows, given.columns, given.runs), given.json)


if __name__ == "__main__":
    main()
