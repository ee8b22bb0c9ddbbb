"""Attacks on what is stored: a bank whose writers are killed, damaged files, PostgreSQL that hangs, a run, signals."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from attack_target import FEATURES, Outcome, serving

HERE = Path(__file__).parent
ROW = [0.5] * FEATURES


def killed_writers(_: Path, out: Outcome, share: float) -> None:
    """Processes that write or learn are killed: nothing that was acknowledged is lost."""
    kills = max(4, int(20 * share))
    found = _record("bank_kills.py", "--kills", str(kills))
    out.tries += kills
    lost = [*found["lost"], *found["damaged"], *found["while_learning"]["wrong"]]
    out.broken += len(lost)
    out.notes += [str(one) for one in lost]
    out.answers["acknowledged"] += found["acknowledged"]


def damaged_files(_: Path, out: Outcome, share: float) -> None:
    """Model folders and contexts with random damages: refused in one line, or without effect."""
    found = _record("damages.py", "--damages", str(max(6, int(60 * share))))
    for kind, count in found["outcomes"].items():
        out.answers[kind] += count
        out.tries += count
        out.broken += count if kind in ("wrong", "traceback") else 0


def early_signals(model: Path, out: Outcome, share: float) -> None:
    """SIGTERM and SIGINT right after the service says that it is ready."""
    for i in range(max(2, int(6 * share))):
        log = Path(tempfile.mkdtemp()) / "log"
        with serving(model, log) as target:
            target.process.send_signal((signal.SIGTERM, signal.SIGINT)[i % 2])
            try:
                code = target.process.wait(60)
            except subprocess.TimeoutExpired:
                code = -1
            out.check(code == 0 and "Traceback" not in log.read_text(), f"signal {i}: exit status {code}")
        shutil.rmtree(log.parent)


def shown_passwords(model: Path, out: Outcome, _: float) -> None:
    for arguments in (
        ["postgresql://me:hunter2@127.0.0.1:9/bank"],
        [str(model), "--bank", "postgresql://me:hunter2@127.0.0.1:9/bank?connect_timeout=2"],
        [str(model), "--bank", "postgresql://me@127.0.0.1:9/bank?password=hunter2&connect_timeout=2"],
    ):
        done = _crwn("serve", *arguments)
        out.check(done.returncode == 1 and "hunter2" not in done.stdout + done.stderr, done.stderr[:100])


def damaged_run(_: Path, out: Outcome, __: float) -> None:
    """A run with NaN, cut lines and garbage in its record: one line, no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["run", "rotated-digits", "neuromodnet", "--size", "16", "--tasks", "2", "--batches", "3", "--seeds", "0"]
        done = _crwn(*run, "--out", folder, "--json")
        out.check(done.returncode == 0, done.stderr[:200])
        metrics = next(Path(folder).rglob("metrics.jsonl"))
        good = metrics.read_bytes()
        for bad in (good.replace(b":", b": NaN, ", 1), good[: len(good) // 2], b"\x00\xff", b"[" * 9000, b"NaN\n"):
            metrics.write_bytes(bad)
            done = _crwn("report", folder, "--out", str(Path(folder) / "page.html"))
            out.check("Traceback" not in done.stderr, done.stderr[-200:])


def postgres(model: Path, out: Outcome, share: float) -> None:
    """Two services on one PostgreSQL bank see each other's tasks; when it hangs, tasks in memory are predicted."""
    with _postgres_server() as found, tempfile.TemporaryDirectory() as folder:
        if found is None:
            out.notes.append("skipped: PostgreSQL's server programs are not installed (scripts/install-postgres)")
            return
        address, pid = found
        logs = [Path(folder) / name for name in ("one", "two")]
        with (
            serving(model, logs[0], "--bank", address) as one,
            serving(model, logs[1], "--bank", address) as two,
            serving(model, Path(folder) / "own") as own,
            one.client() as first,
            two.client() as second,
            own.client() as source,
        ):
            context = source.get("/v1/tasks/first/context").content
            kind = {"Content-Type": "application/vnd.safetensors"}
            question = {"rows": [ROW] * 16}
            for i in range(max(3, int(20 * share))):
                name = f"shared {i}"
                first.put(f"/v1/tasks/{name}/context", content=context, headers=kind).raise_for_status()
                began = time.monotonic()
                seen = second.post("/v1/predict", json=question | {"task": name}).status_code
                ranked = second.post("/v1/infer-task", json=question | {"top": 1000}).json()["ranking"]
                took = time.monotonic() - began
                there = seen == 200 and name in [one["task"] for one in ranked]
                out.check(there, f"{name}: not seen by the other service after {took:.2f} s")
            _stopped(pid, signal.SIGSTOP)
            try:
                time.sleep(1.0)
                for _ in range(max(10, int(50 * share))):
                    began = time.monotonic()
                    status = second.post("/v1/predict", json=question | {"task": "shared 0"}).status_code
                    took = time.monotonic() - began
                    out.add(status, 200)
                    out.check(took < 1.0, f"a task in memory took {took:.2f} s while PostgreSQL hung")
                out.add(second.get("/healthz").status_code, 503)
            finally:
                _stopped(pid, signal.SIGCONT)
            time.sleep(2.0)
            out.add(second.get("/healthz").status_code, 200)


def _stopped(pid: int, sent: signal.Signals) -> None:
    server = psutil.Process(pid)
    for process in [server, *server.children(recursive=True)]:
        process.send_signal(sent)


@contextmanager
def _postgres_server() -> Iterator[tuple[str, int] | None]:
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
        run("initdb", "-U", "crwn", "-A", "trust", "-E", "UTF8", "--no-locale")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        try:
            yield f"postgresql://crwn@127.0.0.1:{port}/postgres", pid
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _crwn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "crwn", *arguments], capture_output=True, text=True, check=False)


def _record(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


ATTACKS = (killed_writers, damaged_files, early_signals, shown_passwords, damaged_run, postgres)
