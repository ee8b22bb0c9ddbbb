"""Banks shared by several processes, and processes that die while they write."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crwn.contexts import Context
from crwn.contexts.bank import open_bank

Make = Callable[..., Context]

WRITER = """
import sys, torch
from crwn.contexts.bank import open_bank
from crwn.contexts import Context
from crwn.errors import TaskError
where, writer = sys.argv[1:]
won = 0
with open_bank(where) as bank:
    for i in range(40):
        bank.put(Context(f"{writer}/{i}", {"v": torch.full((50,), float(i))}, (0, 1), "ab" * 32))
        try:
            bank.put(Context(f"same {i}", {"v": torch.full((50,), float(i))}, (0, 1), "ab" * 32))
            won += 1
        except TaskError:
            pass
        bank.put(Context("shared", {"v": torch.full((50,), float(i))}, (0, 1), "ab" * 32), replace=True)
        assert bank.get(f"{writer}/{i}").tensors["v"][0] == i
print(won)
"""


def test_processes_write_the_same_bank(where: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, where, name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for name in ("a", "b")
    ]
    won = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sum(won) == 40  # each name went to exactly one of them
    with open_bank(where) as bank:
        assert len(bank) == 2 * 40 + 40 + 1 == len(list(bank))
        assert bank.versions("shared") == [80]
        assert bank.marker() == 2 * 40 + 40 + 80
        assert bank.verify() == []


def test_others_see_a_new_task_at_once(where: str, make: Make) -> None:
    with open_bank(where) as one, open_bank(where) as other:
        marker = other.marker()
        one.put(make("left"))
        changes, marker = other.changes_since(marker)
        assert [change.name for change in changes] == ["left"]
        one.delete("left")
        changes, marker = other.changes_since(marker)
        assert [(change.name, change.version) for change in changes] == [("left", None)]


def test_a_reader_following_changes_misses_none(where: str, make: Make) -> None:
    seen: list[str] = []
    with open_bank(where) as bank:

        def write(number: int) -> None:
            for i in range(15):
                bank.put(make(f"{number}/{i}"))

        threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        with open_bank(where) as follower:
            marker = follower.marker()
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 60
            while len(seen) < 60 and time.monotonic() < deadline:
                changes, marker = follower.changes_since(marker, limit=7)
                seen += [change.name for change in changes]
                time.sleep(0.001)
            for thread in threads:
                thread.join()
    assert sorted(seen) == sorted(f"{number}/{i}" for number in range(4) for i in range(15))


@pytest.mark.slow
def test_killed_writers_lose_nothing_acknowledged(where: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "bank_kills.py"
    record_file = tmp_path / "record.json"
    command = [sys.executable, str(script), "--kills", "6", "--bank", where, "--out", str(record_file)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    record = json.loads(record_file.read_text())
    assert done.returncode == 0, done.stdout
    assert (record["lost"], record["damaged"], record["opens_refused"]) == ([], [], 0)
    assert record["acknowledged"] > 0


def test_the_benchmark_of_a_million_runs(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    bank_million = importlib.import_module("bank_million")
    record = bank_million.run(300, where, at_once=100, reads=50)
    assert record["tasks"] == 500
    assert record["open_and_count_ms"] > 0
    assert record["put_many_per_second"] > 0
