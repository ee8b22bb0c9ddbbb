"""New banks that many threads and processes open at the same moment."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crwn.contexts.bank import open_bank
from crwn.errors import BankError

BANKS, PROCESSES, THREADS = 200, 4, 2  # threads of each process

# Forked after the imports, which take longer than the opening.
STRESS = """
import multiprocessing, sys, threading
from pathlib import Path
from crwn.contexts.bank.sql import SqlBank

folder, (banks, processes, threads) = Path(sys.argv[1]), map(int, sys.argv[2:])
fork = multiprocessing.get_context("fork")
together = fork.Barrier(processes * threads)
failures = fork.SimpleQueue()

def open_all():
    for number in range(banks):
        together.wait(60)
        try:
            SqlBank(folder / f"{number}.sqlite", model="ab" * 32).close()
        except Exception as error:
            failures.put(str(error))

def open_in_threads():
    workers = [threading.Thread(target=open_all) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failures.put(None)

def spin():
    while True:
        pass

busy = fork.Process(target=spin, daemon=True)
workers = [fork.Process(target=open_in_threads) for _ in range(processes)]
for worker in [busy, *workers]:
    worker.start()
for _ in workers:
    for failure in iter(failures.get, None):
        print(failure)
for worker in workers:
    worker.join()
busy.terminate()
print("opened by", sum(worker.exitcode == 0 for worker in workers))
"""


def files_of_closed_banks(folder: Path) -> list[str]:
    """What is in the folder once each bank was closed by a last connection.

    SQLite removes a bank's log with its last connection; of two that close at the same moment, neither may be the last.
    """
    for log in folder.glob("*-shm"):
        open_bank(folder / log.name.removesuffix("-shm")).close()
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.slow
def test_threads_and_processes_open_new_banks_at_once(tmp_path: Path) -> None:
    arguments = [str(number) for number in (BANKS, PROCESSES, THREADS)]
    done = subprocess.run(
        [sys.executable, "-c", STRESS, str(tmp_path), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout) == (0, f"opened by {PROCESSES}\n"), done.stderr
    assert files_of_closed_banks(tmp_path) == sorted(f"{i}.sqlite" for i in range(BANKS))


def test_a_new_bank_is_in_wal_mode_with_the_rights_of_any_new_file(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    before = os.umask(0o027)
    try:
        open_bank(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_bytes()[18:20] == b"\2\2", "the file format's marks of WAL"


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    errors: list[Exception] = []
    together = threading.Barrier(8)

    def work() -> None:
        for number in range(5):
            together.wait(60)
            try:
                open_bank(tmp_path / f"{number}.sqlite", model="ab" * 32).close()
            except BankError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert files_of_closed_banks(tmp_path) == [f"{i}.sqlite" for i in range(5)]


def test_nothing_is_left_of_a_bank_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crwn.contexts.bank.open._statements", lambda: ["CREATE TABLE a (b)", "CREATE TABLE a (b)"])
    with pytest.raises(BankError, match="cannot open bank"):
        open_bank(tmp_path / "bank.sqlite")
    assert list(tmp_path.iterdir()) == []
