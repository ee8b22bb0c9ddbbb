"""The log of a bank: copied into its file in the background after many puts, and never lost."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import small_contexts
from crwn.contexts.bank import checkpoints, open_bank
from crwn.contexts.bank.sql import SqlBank
from crwn.contexts.bank.stored import CHUNK
from small_contexts import make


def test_many_puts_are_copied_into_the_file_in_the_background(tmp_path: Path) -> None:
    contexts = [make(f"task {i}", i) for i in range(CHUNK + 1)]
    with SqlBank(tmp_path / "bank.sqlite") as bank:
        bank.put_many(contexts)
        assert bank._checkpoints is not None
        bank._checkpoints.wait()
        shutil.copy(tmp_path / "bank.sqlite", tmp_path / "copy.sqlite")  # without its log
        with bank._engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == checkpoints.USUAL_PAGES
    with open_bank(tmp_path / "copy.sqlite") as copy:
        assert len(copy) == CHUNK + 1
        assert copy.get("task 7") == contexts[7]
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["bank.sqlite", "copy.sqlite"]


def test_a_log_that_cannot_be_copied_stays_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with SqlBank(path) as bank:
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM crwn_contexts").fetchone()  # keeps the log from being copied whole
        bank.put_many(make(f"task {i}", i) for i in range(CHUNK))
        assert bank._checkpoints is not None
        bank._checkpoints.wait()
        assert len(bank) == CHUNK
        reader.close()
    with open_bank(path) as bank:
        assert bank.verify() == []


def test_puts_survive_a_kill_while_the_log_is_copied(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys;"
        f"sys.path.insert(0, {str(Path(small_contexts.__file__).parent)!r});"
        "from small_contexts import make;"
        "from crwn.contexts.bank import open_bank;"
        f"bank = open_bank({str(tmp_path / 'bank.sqlite')!r});"
        f"[bank.put_many(make(f'task {{part}} {{i}}', i) for i in range({CHUNK})) for part in range(3)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with open_bank(tmp_path / "bank.sqlite") as bank:
        assert len(bank) == 3 * CHUNK
        assert bank.verify() == []
