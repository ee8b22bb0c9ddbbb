"""Checks for `defects.py` that start a service of their own: each returns what went wrong, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
from attack_target import serving
from attacks_postgres import postgres_server, stop_server
from defects_served import ROW

from crwn import Context, Learner
from crwn.errors import CRWNError

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


def many_connections(model: Path) -> str:
    """1,100 idle connections to a service that may open 1,024 files, the usual limit, with both event loops."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = []
    for loop in ("uvloop", "asyncio"):
        with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
            if loop == "asyncio":  # the older code does not ask for uvloop: here is one that cannot be imported
                (Path(place) / "uvloop.py").write_text("raise ImportError('left out')\n")
            kept = os.environ.get("PYTHONPATH", "")
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [kept, place]))
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
            try:
                target = stack.enter_context(serving(model, Path(place) / "log"))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                os.environ["PYTHONPATH"] = kept
            for _ in range(1100):
                stack.enter_context(target.connect(5))
            try:
                httpx.get(f"{target.address}/healthz", timeout=10).raise_for_status()
            except httpx.HTTPError as error:
                size = target.log.stat().st_size / 2**20
                found.append(f"{loop}: a new client gets {type(error).__name__}, the log has {size:.0f} MB")
    return "; ".join(found)


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


STARTED = (
    lone_surrogate, deep_label, inference_refreshes, host_with_token, early_signals, one_bad_task, postgres_hangs,
    many_connections,
)  # fmt: skip
