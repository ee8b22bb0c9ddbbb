"""Two services on one PostgreSQL bank, and a PostgreSQL that hangs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
from attack_target import FEATURES, Outcome, Probe, serving

from crwn import Learner

ROW = [0.5] * FEATURES
QUESTION = {"rows": [ROW] * 16}


def postgres(model: Path, out: Outcome, share: float) -> None:
    """Tasks that one service stores are predicted and inferred by the other within a second."""
    with _two_services(model, out) as found:
        if found is None:
            return
        first, second, context, _ = found
        _put(first, "warm", context)  # what a service does only once in its life is not measured
        second.post("/v1/predict", json=QUESTION | {"task": "warm"})
        second.post("/v1/infer-task", json=QUESTION)
        slowest = forgotten = 0.0
        for i in range(max(3, int(20 * share))):
            name, began = f"shared {i}", time.monotonic()
            _put(first, name, context)
            seen = inferred = False
            while not (seen and inferred) and time.monotonic() - began < 10:
                seen = seen or second.post("/v1/predict", json=QUESTION | {"task": name}).status_code == 200
                ranked = second.post("/v1/infer-task", json=QUESTION | {"top": 1000}).json()["ranking"]
                inferred = inferred or name in [one["task"] for one in ranked]
            took = time.monotonic() - began
            slowest = max(slowest, took)
            out.check(seen and inferred and took < 1.0, f"{name}: seen by the other service after {took:.2f} s")
        for i in range(3):
            first.delete(f"/v1/tasks/shared {i}").raise_for_status()
            began = time.monotonic()
            while second.post("/v1/predict", json=QUESTION | {"task": f"shared {i}"}).status_code == 200:
                if time.monotonic() - began > 10:
                    break
            took = time.monotonic() - began
            forgotten = max(forgotten, took)
            out.check(took < 1.0, f"shared {i}: forgotten by the other service after {took:.2f} s")
        out.measured = {"slowest_seen_seconds": round(slowest, 3), "slowest_forgotten_seconds": round(forgotten, 3)}


def postgres_hangs(model: Path, out: Outcome, share: float) -> None:
    """The server's processes are stopped: tasks in memory are predicted, all else is an error after a while."""
    with _two_services(model, out) as found:
        if found is None:
            return
        first, second, context, pid = found
        for name in ("shared 0", "cold"):
            _put(first, name, context)
        wanted = second.post("/v1/predict", json={"rows": [ROW], "task": "shared 0"}).json()["labels"][0]
        stop_server(pid, signal.SIGSTOP)
        try:
            time.sleep(1.0)
            with Probe(int(second.base_url.port or 0), "shared 0", ROW, wanted) as probe:
                out.add(second.post("/v1/predict", json=QUESTION | {"task": "cold"}).status_code, 503)
                out.add(second.get("/healthz").status_code, 503)
                time.sleep(5.0 * share)
            out.tries += len(probe.seconds)
            out.broken += sum(probe.failed.values())
            out.check(probe.record()["p99_ms"] < 1000, f"while PostgreSQL hung: {probe.record()}")
            out.named = probe.record()
        finally:
            stop_server(pid, signal.SIGCONT)
        until = time.monotonic() + 30
        while second.get("/healthz").status_code != 200 and time.monotonic() < until:
            time.sleep(0.2)
        out.add(second.get("/healthz").status_code, 200)
        out.add(second.post("/v1/predict", json=QUESTION | {"task": "cold"}).status_code, 200)


def _put(service: httpx.Client, name: str, context: bytes) -> None:
    kind = {"Content-Type": "application/vnd.safetensors"}
    service.put(f"/v1/tasks/{name}/context", content=context, headers=kind).raise_for_status()


@contextmanager
def _two_services(model: Path, out: Outcome) -> Iterator[tuple[httpx.Client, httpx.Client, bytes, int] | None]:
    """Two services on a bank of their own, a context to store, and the process of PostgreSQL; None without it."""
    with postgres_server() as found, tempfile.TemporaryDirectory() as folder:
        if found is None:
            out.notes.append("skipped: PostgreSQL's server programs are not installed (scripts/install-postgres)")
            yield None
            return
        address, pid = found
        with Learner.load(model) as learner:
            context = learner.context("first").to_bytes()
        with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
            services = [serving(model, Path(folder) / name, "--bank", address) for name in ("one", "two")]
            first, second = threads.map(stack.enter_context, services)
            clients = [stack.enter_context(one.client()) for one in (first, second)]
            yield clients[0], clients[1], context, pid


def stop_server(pid: int, sent: signal.Signals) -> None:
    """Send a signal, SIGSTOP or SIGCONT, to all processes of a PostgreSQL server."""
    server = psutil.Process(pid)
    for process in [server, *server.children(recursive=True)]:
        process.send_signal(sent)


@contextmanager
def postgres_server() -> Iterator[tuple[str, int] | None]:
    """A PostgreSQL server of our own on a free loopback port: its address and its process; None where there is none."""
    found = shutil.which("initdb") or next((str(one) for one in Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if found is None:
        yield None
        return
    programs, folder = Path(found).resolve().parent, Path(tempfile.mkdtemp(prefix="crwn-attack-"))
    user = next((u for u in ("postgres", "nobody") if u in {e.pw_name for e in pwd.getpwall()}), None)
    other = {"user": user, "group": pwd.getpwnam(user).pw_gid} if os.geteuid() == 0 and user else {}
    if other and user:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, **other)  # type: ignore[call-overload]

    try:
        run("initdb", "-U", "crwn", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        try:
            yield f"postgresql://crwn@127.0.0.1:{port}/postgres", pid
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


ATTACKS = (postgres, postgres_hangs)
