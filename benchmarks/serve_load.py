"""Load on the service from a second process: requests a second and waiting times, and what one batch saves.

    python benchmarks/serve_load.py --seconds 10 --json record.json

A service with FC networks is started in a process of its own; a client here keeps 1, 32 and 256 connections busy, each
request one row of another task. Then the model's own time per row is compared: 64 connections predicted together, and
the same rows one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from write_record import write_record


def make_model(folder: Path, size: int, weights: str, tasks: int) -> None:
    """Writes a model folder with random contexts: their values do not change how long a prediction takes."""
    import torch

    from crwn import Learner, NeuroModNet
    from crwn.contexts import Context
    from crwn.layers import context_tensors

    model = NeuroModNet(in_features=784, hidden=(size, size), classes=10, seed=0, weights=weights)
    with Learner(model, bank=folder) as learner:
        generator = torch.Generator().manual_seed(0)
        start = context_tensors(model)
        learner.bank.put_many(
            Context(
                f"task {i:04}",
                {key: value + 0.01 * torch.randn(value.shape, generator=generator) for key, value in start.items()},
                tuple(range(10)),
                learner.fingerprint,
            )
            for i in range(tasks)
        )


def serve(folder: str, threads: int, pipe: Connection) -> None:
    """Run the service; the target of its process."""
    import torch

    from crwn.learner import Learner
    from crwn.serve.running import serve as run

    torch.set_num_threads(threads)
    with Learner.load(folder, resident=4096) as learner:
        run(learner, port=0, ready=pipe.send)


class Load:
    """Connections of plain HTTP/1.1 that send a request, wait for the response, and send the next."""

    def __init__(self, address: str, tasks: int) -> None:
        host, port = address.removeprefix("http://").rstrip("/").split(":")
        self.host, self.port = host, int(port)
        row = np.random.default_rng(0).random((1, 784)).round(3).tolist()
        self.requests = [self._request({"rows": row, "task": f"task {i:04}"}) for i in range(tasks)]

    def _request(self, body: dict[str, Any]) -> bytes:
        data = json.dumps(body).encode()
        head = f"POST /v1/predict HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    async def run(self, connections: int, seconds: float) -> dict[str, float]:
        """Return waiting times of all requests served in this time."""
        times: list[float] = []
        until = time.perf_counter() + seconds

        async def send(number: int) -> None:
            choose = random.Random(number)
            reader, writer = await asyncio.open_connection(self.host, self.port)
            try:
                while time.perf_counter() < until:
                    began = time.perf_counter()
                    writer.write(choose.choice(self.requests))
                    head = await reader.readuntil(b"\r\n\r\n")
                    if not head.startswith(b"HTTP/1.1 200"):
                        raise RuntimeError(head.decode("latin-1").splitlines()[0])
                    length = next(
                        int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
                    )
                    await reader.readexactly(length)
                    times.append(time.perf_counter() - began)
            finally:
                writer.close()

        began = time.perf_counter()
        await asyncio.gather(*(send(i) for i in range(connections)))
        passed = time.perf_counter() - began
        p50, p99 = np.percentile(times, [50, 99]) * 1000
        return {
            "requests": len(times),
            "requests_per_second": round(len(times) / passed, 1),
            "p50_ms": round(float(p50), 2),
            "p99_ms": round(float(p99), 2),
        }


def counters(address: str) -> dict[str, float]:
    import httpx

    lines = httpx.get(f"{address}metrics", timeout=30).text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


def model_time(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The model's own time per row, and how many rows shared a pass, between two readings of the counters."""
    change = {key: after[key] - before.get(key, 0.0) for key in after}
    rows = change["crwn_rows_total"]
    return {
        "model_ms_per_row": round(1000 * change["crwn_model_seconds_total"] / rows, 4),
        "model_cpu_ms_per_row": round(1000 * change["crwn_model_cpu_seconds_total"] / rows, 4),
        "rows_per_pass": round(rows / change["crwn_batch_rows_count"], 2),
    }


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    make_model(folder, given.size, given.weights, given.tasks)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(str(folder), given.threads, theirs))
    process.start()
    try:
        address = ours.recv()
        load = Load(address, given.tasks)
        asyncio.run(load.run(4, 1.0))
        found: dict[str, Any] = {}
        for connections in given.connections:
            before = counters(address)
            found[str(connections)] = asyncio.run(load.run(connections, given.seconds))
            found[str(connections)] |= model_time(before, counters(address))
            print(connections, found[str(connections)], file=sys.stderr, flush=True)
        return found
    finally:
        process.terminate()
        process.join(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096, help="width of both hidden layers")
    parser.add_argument("--weights", default="gaussian", help="gaussian is dense")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 32, 64, 256])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1, help="of the service's model")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given, Path(folder) / "load.crwn")
    record: dict[str, Any] = {
        "size": given.size,
        "weights": given.weights,
        "tasks": given.tasks,
        "threads": given.threads,
        "connections": found,
    }
    if {"1", "64"} <= found.keys():
        one, many = found["1"], found["64"]
        record["batching_saves"] = {
            "model_time_per_row": round(one["model_ms_per_row"] / many["model_ms_per_row"], 2),
            "model_cpu_per_row": round(one["model_cpu_ms_per_row"] / many["model_cpu_ms_per_row"], 2),
            "requests_per_second": round(many["requests_per_second"] / one["requests_per_second"], 2),
        }
    write_record(record, given.json)


if __name__ == "__main__":
    main()
