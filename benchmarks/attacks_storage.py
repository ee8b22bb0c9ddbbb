"""Attacks on processes and what they store: writers that are killed, damaged files, signals, passwords, a run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attack_target import Outcome

HERE = Path(__file__).parent


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
    """SIGTERM and SIGINT at moments from the start of the process to some time after it is ready: it ends."""
    tries = max(4, int(24 * share))

    def one(number: int) -> tuple[int, str]:
        command = [sys.executable, "-m", "crwn", "serve", str(model), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        text = b""
        if number % 2:  # right after the line that names the address
            text = process.stderr.readline()
        else:
            time.sleep(8.0 * number / tries)
        process.send_signal((signal.SIGTERM, signal.SIGINT)[number // 2 % 2])
        try:
            text += process.communicate(timeout=60)[1]
            return process.returncode, text.decode()
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return -9, text.decode()

    with ThreadPoolExecutor(2) as threads:
        for number, (code, text) in enumerate(threads.map(one, range(tries))):
            out.answers[f"exit {code}"] += 1
            # Before the service has its handlers, a signal ends the process as it ends any other.
            obeyed = code == 0 if number % 2 else code in (0, 130, -signal.SIGTERM, -signal.SIGINT)
            out.check(obeyed and "Traceback" not in text, f"signal {number}: exit status {code} {text[-200:]}")


def shown_passwords(model: Path, out: Outcome, _: float) -> None:
    """Addresses with a password in them: whatever is printed does not have it."""
    commands = (
        ["serve", "postgresql://me:hunter2@127.0.0.1:9/bank"],
        ["serve", str(model), "--bank", "postgresql://me:hunter2@127.0.0.1:9/bank?connect_timeout=2"],
        ["serve", str(model), "--bank", "postgresql://me@127.0.0.1:9/bank?password=hunter2&connect_timeout=2"],
    )
    for done in crwn_each(commands):
        out.check(done.returncode == 1 and "hunter2" not in done.stdout + done.stderr, done.stderr[:100])


def damaged_run(_: Path, out: Outcome, __: float) -> None:
    """A run with NaN, cut lines and garbage in its record: one line, no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["run", "rotated-digits", "neuromodnet", "--size", "16", "--tasks", "2", "--batches", "3", "--seeds", "0"]
        done = crwn(*run, "--out", folder, "--json")
        out.check(done.returncode == 0, done.stderr[:200])
        good = next(Path(folder).rglob("metrics.jsonl")).read_bytes()
        garbage = [("metrics.jsonl", bad) for bad in (good.replace(b":", b": NaN, ", 1), good[: len(good) // 2])]
        garbage += [("metrics.jsonl", bad) for bad in (b"\x00\xff", b"[" * 9000, b"NaN\n")]
        garbage += [(name, b"[" * 100_000) for name in ("config.json", "result.json")]
        commands: list[list[str]] = []
        for name, bad in garbage:
            copy = Path(folder, f"copy {len(commands)}")
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("copy *"))
            next(copy.rglob(name)).write_bytes(bad)
            commands.append(["report", str(copy), "--out", str(copy / "page.html")])
        for done in crwn_each(commands):
            out.check("Traceback" not in done.stderr and "did not expect" not in done.stderr, done.stderr[-200:])


def crwn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "crwn", *arguments], capture_output=True, text=True, check=False)


def crwn_each(commands: Iterable[Sequence[str]]) -> list[subprocess.CompletedProcess[str]]:
    """Run these commands, two at a time; their results are in the same order."""
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda arguments: crwn(*arguments), commands))


def _record(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


ATTACKS = (killed_writers, damaged_files, early_signals, shown_passwords, damaged_run)
