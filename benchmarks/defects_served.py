"""Checks of the service for `defects.py`: each returns what went wrong, or nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Hashable
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import psutil
from attack_target import FEATURES, Target, serving
from attacks_postgres import postgres_server, stop_server

from crwn import Context, Learner
from crwn.errors import CRWNError

ROW = [0.5] * FEATURES
# `crwn serve --bank` is not in both versions.
ON_POSTGRES = """
import sys
from crwn import Learner
from crwn.serve.running import serve
with Learner.load(sys.argv[1]) as source:
    with Learner(source.model, bank=sys.argv[2]) as learner:
        learner.bank.put(source.context("first"))
        serve(learner, port=0, ready=lambda address: print(address, flush=True))
"""
JSON = {"Content-Type": "application/json"}


def _slowest(target: Target, work: threading.Thread, path: str = "") -> float:
    """The longest wait for a named prediction, or for this path, while the thread works."""
    longest = 0.0
    with httpx.Client(base_url=target.address, timeout=100) as http:
        http.post("/v1/predict", json={"rows": [ROW], "task": "first"}).raise_for_status()
        work.start()
        while work.is_alive():
            began = time.monotonic()
            if path:
                http.get(path)
            else:
                http.post("/v1/predict", json={"rows": [ROW], "task": "first"})
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
    return longest


def inference_holds_the_model(target: Target) -> str:
    def infer() -> None:
        httpx.post(f"{target.address}/v1/infer-task", json={"rows": [ROW] * 64}, timeout=100)

    waited = _slowest(target, threading.Thread(target=infer))
    return f"a named prediction waited {waited:.1f} s" if waited >= 1 else ""


def large_body_on_the_loop(target: Target) -> str:
    data = b'{"rows": [' + b"[]," * 5_000_000 + b"[]]}"

    def send() -> None:
        httpx.post(f"{target.address}/v1/predict", content=data, headers=JSON, timeout=100)

    waited = _slowest(target, threading.Thread(target=send), "/healthz")
    return f"the health check took {waited:.1f} s" if waited >= 1 else ""


def half_sent_requests(target: Target) -> str:
    with target.connect(14) as line:
        line.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Ty")
        try:
            while line.recv(1000):
                pass
        except TimeoutError:
            return "a half-sent head was kept for over 14 s"
    return ""


def many_connections(target: Target) -> str:
    with ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(target.connect(5))
        try:
            httpx.get(f"{target.address}/healthz", timeout=10).raise_for_status()
        except httpx.HTTPError as error:
            return f"with 1,100 idle connections a new client gets {type(error).__name__}"
    return ""


def lists_hold_the_model(target: Target) -> str:
    """Eight clients that list tasks and draw the map again and again, beside named predictions."""

    def ask() -> None:
        with target.client() as http:
            for _ in range(5):
                for path in ("/v1/tasks?limit=1000", "/v1/atlas"):
                    http.get(path)

    def together() -> None:
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    waited = _slowest(target, threading.Thread(target=together))
    return f"a named prediction waited {waited:.1f} s" if waited >= 1 else ""


def npy_header(target: Target) -> str:
    found = set()
    with target.client() as http:
        for change in (
            b"'shape': (1, 64), }",
            b"'shape': ((((1",
            b"'shape': 1L, \\",
            b"'''",
            b"'shape': (1,\n  64), }\n x",
        ):
            header = b"{'descr': '<f4', 'fortran_order': False, " + change
            data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(256)
            kind = {"Content-Type": "application/x-npy"}
            found.add(http.post("/v1/predict?task=first", content=data, headers=kind).status_code)
    return "" if found <= {200, 422} else f"answers {sorted(found)}"


def npz_label(target: Target) -> str:
    file = io.BytesIO()
    np.savez(file, x=np.zeros((1, FEATURES), np.float32), y=np.array([0x110000], dtype="<u4").view("<U1"))
    kind = {"Content-Type": "application/x-npz"}
    status = httpx.post(f"{target.address}/v1/tasks/bad/learn", content=file.getvalue(), headers=kind).status_code
    return "" if status == 422 else f"answered {status}"


def deep_json(target: Target) -> str:
    found = set()
    for depth in (900, 1100, 5000, 200_000):
        data = b'{"rows": ' + b"[" * depth + b"]" * depth + b"}"
        found.add(httpx.post(f"{target.address}/v1/predict", content=data, headers=JSON, timeout=60).status_code)
    return "" if found == {422} else f"answers {sorted(found)}"


def burst_of_streams(target: Target) -> str:
    x, y = [ROW, [0.1] * FEATURES] * 50, [0, 1] * 50
    with target.client() as http, ExitStack() as stack:
        job = http.post("/v1/tasks/long/learn", json={"x": x, "y": y, "batches": 200_000}).json()
        lines = [stack.enter_context(target.connect()) for _ in range(300)]
        for line in lines:
            line.sendall(f"GET {job['events']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        taken = [line.recv(100)[9:12] for line in lines].count(b"200")
        http.delete(f"/v1/jobs/{job['id']}")
    return f"{taken} streams were taken" if taken > 64 else ""


def _stored(model: Path, label: Hashable) -> str:
    """Adds a context with this label; where it is taken, the lists of a service tell what it does to them."""
    with Learner.load(model) as learner:
        one = learner.context("first")
        try:
            learner.add(Context("bad", one.tensors, (label, *one.classes[1:]), one.model, info={}))
        except CRWNError:
            return ""
    with tempfile.TemporaryDirectory() as place, serving(model, Path(place) / "log") as target:
        found = [httpx.get(f"{target.address}{path}", timeout=60).status_code for path in ("/v1/tasks", "/v1/atlas")]
    return f"it was stored; the list is then answered with {found[0]}, the map with {found[1]}"


def lone_surrogate(model: Path) -> str:
    return _stored(model, "\ud800")


def deep_label(model: Path) -> str:
    label: Hashable = 1
    for _ in range(150):
        label = (label,)
    return _stored(model, label)


def inference_refreshes(model: Path) -> str:
    """A task that one service has in memory is replaced through another: the next inference must use the new one."""
    kind = {"Content-Type": "application/vnd.safetensors"}
    ask = {"rows": [ROW] * 4, "top": 1000}
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        services = [stack.enter_context(serving(model, Path(place) / name)) for name in "12"]
        writer, reader = (stack.enter_context(one.client()) for one in services)

        def score(task: str) -> float | None:
            ranked = reader.post("/v1/infer-task", json=ask).json()["ranking"]
            return next((float(found["score"]) for found in ranked if found["task"] == task), None)

        for source in ("first", "second"):
            data = writer.get(f"/v1/tasks/{source}/context").content
            writer.put("/v1/tasks/new/context?replace=true", content=data, headers=kind).raise_for_status()
            until = time.monotonic() + 3
            while (found := score("new")) is None or found != score(source):
                if time.monotonic() > until:
                    seen = "missing" if found is None else "the old one"
                    return f"3 s after another service stored a task, it is {seen} in what inference ranks"
    return ""


def host_with_token(model: Path) -> str:
    with tempfile.TemporaryDirectory() as place:
        options = ("--token", "correct-horse-battery")
        with serving(model, Path(place) / "log", *options) as target:
            status = httpx.get(f"{target.address}/v1/tasks", headers={"Host": "evil.example"}).status_code
    return "" if status == 403 else f"a request for another host name was answered {status}"


def early_signals(model: Path) -> str:
    command = [sys.executable, "-m", "crwn", "serve", str(model), "--port", "0"]
    kept = {**os.environ, "OMP_NUM_THREADS": "1"}
    ignored = 0
    for number in range(12):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=kept)
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            ignored += 1
    return f"{ignored} of 12 signals were ignored" if ignored else ""


def one_bad_task(model: Path) -> str:
    import sqlite3

    bank = sqlite3.connect(model / "bank.sqlite")
    with bank:
        bank.execute("UPDATE crwn_contexts SET info = ? WHERE name = 'second'", (json.dumps({"a": 1})[:-2],))
    bank.close()
    paths = ("/v1/tasks?limit=10", "/v1/atlas")
    with tempfile.TemporaryDirectory() as place, serving(model, Path(place) / "log") as target:
        found = {path: httpx.get(f"{target.address}{path}", timeout=60).status_code for path in paths}
    return "" if set(found.values()) == {200} else f"one unreadable row in the bank: {found}"


def postgres_hangs(model: Path) -> str:
    """PostgreSQL is stopped while a service predicts with a task that is in memory."""
    with postgres_server() as found, tempfile.TemporaryDirectory() as place:
        if found is None:
            return "not run: PostgreSQL's server programs are not installed"
        address, pid = found
        log = Path(place) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, "-c", ON_POSTGRES, str(model), address], stdout=out)
        try:
            until = time.monotonic() + 60
            while not log.read_text().endswith("/\n") and time.monotonic() < until:
                time.sleep(0.1)
            with httpx.Client(base_url=log.read_text().strip(), timeout=20) as http:
                asked = {"rows": [ROW], "task": "first"}
                http.post("/v1/predict", json=asked).raise_for_status()
                stop_server(pid, signal.SIGSTOP)
                waited = 0.0
                until = time.monotonic() + 8
                while time.monotonic() < until:
                    began = time.monotonic()
                    with contextlib.suppress(httpx.HTTPError):
                        http.post("/v1/predict", json=asked)
                    waited = max(waited, time.monotonic() - began)
                    time.sleep(0.05)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                stop_server(pid, signal.SIGCONT)
            process.kill()
            process.wait()
    return f"a task in memory was predicted after {waited:.1f} s" if waited >= 1 else ""


SERVED = (
    npy_header, npz_label, deep_json, burst_of_streams, half_sent_requests, lists_hold_the_model,
    large_body_on_the_loop, many_connections, inference_holds_the_model,
)  # fmt: skip  # those that may stop a service for long come last
OWN_SERVICE = (
    lone_surrogate, deep_label, inference_refreshes, host_with_token, early_signals, one_bad_task, postgres_hangs,
)  # fmt: skip
