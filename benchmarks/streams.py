"""Streams: milliseconds of one observed row at FlyNet 10d, in Python and over HTTP, and a million rows of one task.

    python benchmarks/streams.py --json results/bench/streams.json

Rows are MNIST's. At 10d rows are collected and the context is solved again when a tenth more have come: such calls take
seconds, are counted apart and are rare. The million rows go through a FlyNet of 256 features, ten passes over 100,000
rows of Gaussian clusters made here; at 10d the sums alone would need 6e13 multiplications.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from write_record import write_record

import crwn
from crwn.data import load

WARM, ROWS = 300, 200  # rows of the first call, single rows that are timed


def single_rows() -> dict[str, Any]:
    """Milliseconds of single rows in this process, after the first solution."""
    mnist = load("mnist")
    x, y = mnist.x_train.reshape(-1, 784).numpy(), mnist.y_train.numpy()
    learner = crwn.Learner(crwn.FlyNet(784, 7840, 10, seed=0))
    learner.observe("t", x[:WARM], y[:WARM], classes=range(10))
    taken = []
    for at in range(WARM, WARM + ROWS):
        began = time.perf_counter()
        learner.observe("t", x[at : at + 1], y[at : at + 1])
        taken.append(1000 * (time.perf_counter() - began))
    began = time.perf_counter()
    learner.settle("t")
    return {**_quantiles(taken), "solving_seconds": round(time.perf_counter() - began, 2)}


def over_http() -> dict[str, Any]:
    """The same through `crwn serve`, from request to answer."""
    mnist = load("mnist")
    x, y = mnist.x_train.reshape(-1, 784).numpy(), mnist.y_train.numpy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.crwn"
        crwn.Learner(crwn.FlyNet(784, 7840, 10, seed=0), bank=path).close()
        port = "8391"
        command = [sys.executable, "-m", "crwn", "serve", str(path), "--port", port]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as http:
                    _wait(http)
                    return _timed_posts(http, x, y)
            finally:
                server.terminate()


def _timed_posts(http: httpx.Client, x: Any, y: Any) -> dict[str, Any]:
    taken = []
    for at in range(-1, ROWS):
        some = slice(0, WARM) if at < 0 else slice(WARM + at, WARM + at + 1)
        body = {"rows": x[some].astype(float).tolist(), "labels": y[some].tolist(), "classes": list(range(10))}
        began = time.perf_counter()
        http.post("/v1/tasks/t/observe", json=body).raise_for_status()
        taken.append(1000 * (time.perf_counter() - began))
    return _quantiles(taken[1:])


def _wait(http: httpx.Client) -> None:
    for _ in range(600):
        try:
            http.get("/v1/health")
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("error: the server did not start within a minute")


def million(rows: int) -> dict[str, Any]:
    """Rows through one task in calls of 1,000, with the largest memory after a tenth and after all."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(10, 32))
    labels = generator.integers(0, 10, size=100_000)
    x = (centres[labels] + generator.normal(size=(100_000, 32))).astype(np.float32)
    learner = crwn.Learner(crwn.FlyNet(32, 256, 10, seed=0))
    began, memory = time.perf_counter(), {}
    for start in range(0, rows, 1000):
        at = slice(start % 100_000, start % 100_000 + 1000)
        seen = learner.observe("t", x[at], labels[at], classes=range(10), scaling=(0.0, 1.5))
        if seen.rows in (rows // 10, rows):
            memory[f"{seen.rows:,} rows"] = _megabytes()
    seconds = time.perf_counter() - began
    return {
        "rows": seen.rows,
        "features": 256,
        "prequential_accuracy": round(100 * seen.accuracy, 2),
        "seconds": round(seconds, 1),
        "peak_megabytes": memory,
    }


def _megabytes() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _quantiles(milliseconds: list[float]) -> dict[str, Any]:
    at = {f"p{share}_ms": round(float(np.percentile(milliseconds, share)), 2) for share in (50, 90, 99)}
    return {"rows": len(milliseconds), **at, "largest_ms": round(max(milliseconds), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the long stream")
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    found = {"million": million(given.rows), "python_10d": single_rows(), "http_10d": over_http()}
    write_record(found, given.json)


if __name__ == "__main__":
    main()
