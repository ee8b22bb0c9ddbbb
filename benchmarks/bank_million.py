"""Fill a bank with synthetic contexts and measure it: writing, opening, reading, a mixed batch, and a service's start.

    python benchmarks/bank_million.py --tasks 1000000 --out results/bench/bank_million.json

    python benchmarks/bank_million.py --folder kept.crwn      # filled once, measured as often as wanted

Contexts have the shapes of NeuroModNet-FC256 on MNIST (1,299 parameters, about 6 KB). A folder that was filled before
is not filled again: writing is then measured with `AGAIN` contexts more. The file is read once before reads are
measured, so that the times are those of the bank and not of the disk.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from write_record import write_record

from crwn import Learner, NeuroModNet
from crwn.bench.bank import raw_put_seconds, raw_reads
from crwn.contexts import Context
from crwn.contexts.bank import Bank, ResidentStack, open_bank
from crwn.contexts.bank.stored import rows_of

WIDTHS = (784, 256, 256)
SHAPES: dict[str, tuple[int, ...]] = {f"layers.{i}.v": (width,) for i, width in enumerate(WIDTHS)}
SHAPES |= {f"layers.{i}.alpha": () for i in range(len(WIDTHS))}
BATCH = 256
AGAIN = 50_000  # contexts that are put into a folder which was filled before


def name_of(number: int) -> str:
    return f"customer {number:07}"


def make_model() -> NeuroModNet:
    return NeuroModNet(WIDTHS[0], WIDTHS[1:], 10, seed=0)


def contexts(model: str, start: int, stop: int, seed: int = 0) -> Iterator[Context]:
    """Return contexts of the model with this fingerprint and these indices, each with its own values."""
    for number in range(start, stop):
        values = torch.from_numpy(np.random.default_rng((seed, number)).standard_normal(sum(WIDTHS) + 3, np.float32))
        vectors = values[3:].split(WIDTHS)
        tensors = {f"layers.{i}.v": vector for i, vector in enumerate(vectors)}
        tensors |= {f"layers.{i}.alpha": values[i] for i in range(3)}
        info = {"rows": 60000, "steps": 1000, "accuracy": 91.2}
        yield Context(name_of(number), tensors, tuple(range(10)), model, "2026-01-01T00:00:00+00:00", info)


def run(tasks: int, where: str, *, at_once: int = 10_000, reads: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Put `tasks` contexts into the bank at `where` unless it has as many, then open and read it."""
    writing, fastest = 0.0, 0.0
    raw_writing, raw_rows = 0.0, 0
    model = Learner(make_model()).fingerprint
    begun_all = time.perf_counter()
    with open_bank(where) as bank:
        there = len(bank)
        end = there + AGAIN if there >= tasks else tasks
        for start in range(there, end, at_once):
            batch = list(contexts(model, start, min(start + at_once, end), seed))
            begun = time.perf_counter()
            bank.put_many(batch)
            took = time.perf_counter() - begun
            writing, fastest = writing + took, max(fastest, len(batch) / took)
            if "://" not in where and (start - there) // at_once % 10 == 0:  # the same rows, by the driver alone
                raw_writing += raw_put_seconds(Path(where).with_name("raw.sqlite"), rows_of(batch, bank.store))
                raw_rows += len(batch)
            print(
                f"{start + len(batch):,} of {end:,} put, {(start + len(batch) - there) / writing:,.0f}/s",
                file=sys.stderr,
                flush=True,
            )
        begun = time.perf_counter()
        for context in contexts(model, end, end + 200, seed):
            bank.put(context)
        single = (time.perf_counter() - begun) / 200
        begun = time.perf_counter()
    closing = time.perf_counter() - begun  # the log is copied into the file
    filling = time.perf_counter() - begun_all
    _bring_into_memory(where)
    begun = time.perf_counter()
    bank = open_bank(where, create=False)
    count = len(bank)
    opening = time.perf_counter() - begun
    dice = random.Random(seed)
    times = []
    for _ in range(reads):
        name = name_of(dice.randrange(tasks))
        begun = time.perf_counter()
        bank.get(name)
        times.append(time.perf_counter() - begun)
    raw = raw_reads(where, [name_of(dice.randrange(tasks)) for _ in range(reads)], bank) if "://" not in where else {}
    begun = time.perf_counter()
    page = bank.entries("customer 0", after=name_of(tasks // 2), limit=100)
    paging = time.perf_counter() - begun
    resident = ResidentStack(bank, SHAPES, capacity=1024)
    colds = []
    for _ in range(25):  # each with other tasks, none of which is in memory
        names = [name_of(number) for number in dice.sample(range(tasks), min(BATCH, tasks))]
        begun = time.perf_counter()
        resident.take_with_facts(names)
        colds.append(time.perf_counter() - begun)
    cold = statistics.median(colds)
    warm = []
    for _ in range(50):
        dice.shuffle(names)
        begun = time.perf_counter()
        resident.take_with_facts(names)
        warm.append(time.perf_counter() - begun)
    predicting = _predicting(bank, names)
    bank.close()
    size = (
        sum(file.stat().st_size for file in Path(where).parent.glob(Path(where).name + "*"))
        if "://" not in where
        else 0
    )
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    return {
        "tasks": count,
        "put_many_tasks": end - there,
        "put_many_per_second": round((end - there) / writing),
        "put_many_fastest_per_second": round(fastest),  # of all batches: where others use the machine, its own speed
        "close_ms": round(closing * 1000, 1),
        "fill_seconds": round(filling, 1),  # with making the contexts, the rows by the driver alone, and closing
        "put_ms": round(single * 1000, 2),
        "open_and_count_ms": round(opening * 1000, 1),
        "get_p50_ms": round(float(p50), 3),
        "get_p99_ms": round(float(p99), 3),
        "page_of_100_ms": round(paging * 1000, 2) if page else None,
        "batch_of_256_tasks_first_ms": round(cold * 1000, 1),
        "batch_of_256_tasks_first_least_ms": round(min(colds) * 1000, 1),
        "batch_of_256_tasks_resident_ms": round(float(np.median(warm)) * 1000, 2),
        "predict_256_rows_of_256_tasks_ms": round(predicting * 1000, 2),
        **({"put_many_of_raw": round(raw_writing / raw_rows / (writing / (end - there)), 3)} if raw_rows else {}),
        **raw,
        "bytes": size,
        "bytes_per_task": round(size / count),
        "load": round(os.getloadavg()[0], 1),
    }


def _bring_into_memory(where: str) -> None:
    """Read the file once, so that the system has what fits of it: reads then measure the bank and not the disk."""
    if "://" not in where:
        with Path(where).open("rb") as file:
            while file.read(2**24):
                pass


def _predicting(bank: Bank, names: list[str]) -> float:
    """Median seconds of one mixed-task prediction whose contexts are resident."""
    learner = Learner(make_model(), bank=bank, resident=1024)
    x = np.random.default_rng(0).standard_normal((len(names), WIDTHS[0]), np.float32)
    learner.predict(x, task=names)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        learner.predict(x, task=names)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def serve_ready(folder: Path, times: int = 3) -> float:
    """Median seconds from the start of `crwn serve` on a model folder to the first response of `/healthz`."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        command = [sys.executable, "-c", "from crwn.cli import main; main()", "serve", str(folder), "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            address = re.search(r"http://\S+", process.stderr.readline())
            assert address is not None
            with urllib.request.urlopen(f"{address[0]}healthz", timeout=60) as response:
                assert response.status == 200
            found.append(time.perf_counter() - begun)
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--bank", help="address of a new bank; an SQLite file in a temporary folder by default")
    parser.add_argument("--folder", type=Path, help="a model folder that is kept; a temporary one by default")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.folder or Path(folder) / "million.crwn"
        if not model.exists():
            Learner(make_model(), bank=model).close()
        record = run(arguments.tasks, arguments.bank or str(model / "bank.sqlite"))
        if arguments.bank is None:
            record["serve_healthz_seconds"] = round(serve_ready(model), 2)
    write_record(record, arguments.out)


if __name__ == "__main__":
    main()
