"""The service under load, against the same service with the model taken out, which is the ceiling of its HTTP part."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crwn.bench.bank import measure_bank
from crwn.bench.load import json_request, raw_request, run_load
from crwn.bench.measure import Figure, Message
from crwn.contexts import Context, ContextInfo
from crwn.contexts.bank.resident import Facts
from crwn.data.dataset import Rows
from crwn.layers import context_tensors
from crwn.learner import Learner
from crwn.learner.predict import Classes, Labels
from crwn.models import NeuroModNet

CONNECTIONS = (1, 32, 256)
TASKS = 256
MIXED = 256  # rows of a request that mixes tasks
FEATURES = 784


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """Share of the ceiling and requests a second by width, body and connections; rows a second of mixed requests.

    And the shares of raw `sqlite3` that the bank's reads and writes reach.
    """
    figures: list[Figure] = []
    sizes, seconds, rounds = ((32,), 0.3, 1) if quick else ((1024, 4096), 3.0, 3)
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "load.crwn"
            make_model(path, size, seed)
            with serving(path, with_model=True) as port, serving(path, with_model=False) as ceiling:
                progress(f"serve: FC{size}")
                figures += [
                    _single(size, form, connections, port, ceiling, seconds, rounds)
                    for form in ("raw", "json")
                    for connections in CONNECTIONS
                ]
                figures.append(_mixed(size, port, seconds, rounds))
    progress("serve: the bank")
    tasks, reads, repeats = (300, 2, 1) if quick else (20_000, 30, 3)
    figures += measure_bank(tasks=tasks, reads=reads, rounds=repeats, seed=seed)
    note("a single row per request, each of another task; the load generator is a process on the same cores")
    return figures


def make_model(folder: Path, size: int, seed: int) -> None:
    """A model folder with random contexts: their values do not change how long a prediction takes."""
    model = NeuroModNet(in_features=FEATURES, hidden=(size, size), classes=10, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    start = context_tensors(model)
    with Learner(model, bank=folder) as learner:
        learner.bank.put_many(
            Context(
                f"task {i:04}",
                {key: value + 0.01 * torch.randn(value.shape, generator=generator) for key, value in start.items()},
                tuple(range(10)),
                learner.fingerprint,
            )
            for i in range(TASKS)
        )


@contextmanager
def serving(folder: Path, *, with_model: bool) -> Iterator[int]:
    """A service in a process of its own; yields its port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(str(folder), with_model, theirs))
    process.start()
    try:
        address: str = ours.recv()
        yield int(address.rstrip("/").rpartition(":")[2])
    finally:
        process.terminate()
        process.join(30)


def _serve(folder: str, with_model: bool, pipe: Connection) -> None:
    from crwn.serve import batcher, running

    torch.set_num_threads(1)
    labels = Labels.of(Facts(tuple(range(10)), ContextInfo()))

    def nothing(self: batcher.Batcher, rows: Rows, names: list[str]) -> tuple[Tensor, Classes]:
        return torch.zeros(len(rows), 10), dict.fromkeys(names, labels)

    if not with_model:
        batcher.Batcher.logits = nothing  # type: ignore[method-assign]
    with Learner.load(folder, resident=4096) as learner:
        running.serve(learner, port=0, ready=pipe.send)


def _requests(form: str, port: int) -> list[bytes]:
    rows = np.random.default_rng(0).random((TASKS, FEATURES)).round(3).astype(np.float32)
    if form == "json":
        return [
            json_request(port, np.round(row.astype(float), 3).tolist(), f"task {i:04}") for i, row in enumerate(rows)
        ]
    return [raw_request(port, row[None], [f"task {i:04}"]) for i, row in enumerate(rows)]


def _single(size: int, form: str, connections: int, port: int, ceiling: int, seconds: float, rounds: int) -> Figure:
    runs: dict[int, list[dict[str, float]]] = {port: [], ceiling: []}
    asked = {one: _requests(form, one) for one in runs}
    before = _counters(port)
    for turn in range(-1, rounds):  # in turns; the first one fills caches
        for one, found in runs.items():
            result = asyncio.run(run_load(one, asked[one], connections, seconds if turn >= 0 else seconds / 4))
            if turn >= 0:
                found.append(result)
    shares = [
        a["requests_per_second"] / b["requests_per_second"] for a, b in zip(runs[port], runs[ceiling], strict=True)
    ]
    best = max(runs[port], key=lambda one: one["requests_per_second"])
    facts: dict[str, Any] = {
        **best,
        "rows_per_pass": _rows_per_pass(before, _counters(port)),
        "ceiling_requests_per_second": max(one["requests_per_second"] for one in runs[ceiling]),
        "rounds_requests_per_second": [one["requests_per_second"] for one in runs[port]],
        "connections": connections,
        "body": form,
    }
    name = f"serve.fc{size}_{form}_{connections}_of_ceiling"
    what = f"FC{size}, {form} bodies of one row, {connections} connections: share of the service without its model"
    return Figure(name, sorted(shares)[len(shares) // 2], (min(shares), max(shares)), what, facts)


def _mixed(size: int, port: int, seconds: float, rounds: int) -> Figure:
    generator = np.random.default_rng(1)
    requests = []
    for _ in range(8):
        tasks = [f"task {i:04}" for i in generator.integers(0, TASKS, MIXED)]
        requests.append(raw_request(port, generator.random((MIXED, FEATURES)).astype(np.float32), tasks))
    runs = [asyncio.run(run_load(port, requests, 4, seconds)) for _ in range(rounds + 1)][1:]
    rates = sorted(one["requests_per_second"] * MIXED for one in runs)
    best = max(runs, key=lambda one: one["requests_per_second"])
    facts: dict[str, Any] = {**best, "connections": 4, "body": "raw"}
    what = f"FC{size}, raw bodies of {MIXED} rows of mixed tasks, 4 connections: rows a second"
    return Figure(f"serve.fc{size}_mixed_rows_per_second", rates[len(rates) // 2], (rates[0], rates[-1]), what, facts)


def _counters(port: int) -> dict[str, float]:
    import httpx

    lines = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


def _rows_per_pass(before: dict[str, float], after: dict[str, float]) -> float:
    passes = after["crwn_batch_rows_count"] - before["crwn_batch_rows_count"]
    return round((after["crwn_batch_rows_sum"] - before["crwn_batch_rows_sum"]) / max(1.0, passes), 1)
