"""Banks in SQLite files when things go wrong: damage, full disks, locks, rights, several processes."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sqlalchemy import Engine, event

from crwn.contexts import Context
from crwn.contexts.bank import open_bank
from crwn.contexts.bank.sql import SqlBank
from crwn.errors import BankError, ContextError, CRWNError, TaskError

Make = Callable[..., Context]


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_a_closed_bank_is_one_small_file(tmp_path: Path) -> None:
    with open_bank(tmp_path / "bank.sqlite") as bank:
        for number in range(36):
            tensors = {f"layers.{i}.v": torch.randn(width) for i, width in enumerate((784, 4096, 4096))}
            tensors |= {f"layers.{i}.alpha": torch.tensor(1.0) for i in range(3)}
            info = {"rows": 60000, "steps": 1000, "seconds": 9.1, "accuracy": 96.1}
            bank.put(Context(f"rotation {number * 10}", tensors, tuple(range(10)), "ab" * 32, info=info))
    files = list(tmp_path.iterdir())
    assert [file.name for file in files] == ["bank.sqlite"]
    assert files[0].stat().st_size < 1_450_000


def test_every_connection_flushes_at_each_commit(tmp_path: Path) -> None:
    with SqlBank(tmp_path / "bank.sqlite") as bank, bank._engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0", b"SQLite format 3\0" + b"x" * 5000])
def test_what_is_not_a_bank_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bank.sqlite"
    path.write_bytes(content)
    with pytest.raises(BankError) as caught:
        open_bank(path)
    assert str(path) in one_line(caught.value)
    assert path.read_bytes() == content


def test_other_databases_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(BankError, match="no such table"):
        open_bank(tmp_path / "other.sqlite")
    with pytest.raises(BankError, match="is not there: check the path"):
        open_bank(tmp_path / "missing.sqlite", create=False)
    assert not (tmp_path / "missing.sqlite").exists()
    with pytest.raises(BankError, match=r"folder .* is not there: make it first"):
        open_bank(tmp_path / "nowhere" / "bank.sqlite")
    with pytest.raises(BankError, match="is a folder"):
        open_bank(tmp_path)
    with open_bank(f"sqlite:///{tmp_path}/odd name %20?#.sqlite") as bank:
        assert len(bank) == 0
    assert (tmp_path / "odd name %20?#.sqlite").exists()


@pytest.mark.parametrize("seed", range(4))
def test_damage_never_gives_a_wrong_context(tmp_path: Path, make: Make, seed: int) -> None:
    path = tmp_path / "bank.sqlite"
    expected = {f"task {i}": make(f"task {i}", i) for i in range(30)}
    with open_bank(path, keep_versions=True) as bank:
        bank.put_many(expected.values())
        bank.put(expected["task 3"], replace=True)
    data = path.read_bytes()
    dice = random.Random(seed)
    for _ in range(30):
        damaged = bytearray(data)
        kind = dice.randrange(4)
        at = dice.randrange(len(data))
        if kind == 0:
            damaged[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            damaged[at : at + 64] = dice.randbytes(64)[: len(damaged) - at]
        elif kind == 2:
            damaged = damaged[:at]
        else:
            for _ in range(20):
                damaged[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(damaged)
        try:
            with open_bank(path) as bank:
                for name, context in expected.items():
                    try:
                        assert bank.get(name) == context
                    except (BankError, ContextError, TaskError) as error:
                        one_line(error)
                for call in (
                    bank.names,
                    bank.entries,
                    bank.verify,
                    lambda: bank.get_many(list(expected)),
                    bank.__len__,
                ):
                    try:
                        call()
                    except CRWNError as error:
                        one_line(error)
                try:
                    bank.put(make("new", 99))
                    assert bank.get("new") == make("new", 99)
                except CRWNError as error:
                    one_line(error)
        except BankError as error:
            one_line(error)
        for leftover in tmp_path.glob("bank.sqlite-*"):
            leftover.unlink()


def test_a_payload_in_the_wrong_place_is_noticed(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put_many([make("left", 1), make("right", 2)])
    with sqlite3.connect(path) as connection:
        swap = "UPDATE crwn_payloads SET data = (SELECT data FROM crwn_payloads WHERE sequence = 1) WHERE sequence = 2"
        connection.execute(swap)
    connection.close()
    with open_bank(path) as bank:
        assert bank.get("left") == make("left", 1)
        with pytest.raises(BankError, match='its payload is that of "left"'):
            bank.get("right")
        with pytest.raises(BankError, match='its payload is that of "left"'):
            bank.get_many(["left", "right"])
        assert len(bank.verify()) == 1


def test_a_full_disk_writes_nothing_by_halves(tmp_path: Path, make: Make) -> None:
    with SqlBank(tmp_path / "bank.sqlite") as bank:
        bank.put(make("left", 1))
        with bank._writing() as connection:  # the pool hands this same connection out again
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(BankError, match="the disk is full: free space and try again") as caught:
            bank.put_many(make(f"task {i}", i) for i in range(100))
        one_line(caught.value)
        assert list(bank) == ["left"]
        assert len(bank) == 1
        with bank._writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        bank.put(make("right", 2))
    with open_bank(tmp_path / "bank.sqlite") as bank:
        assert list(bank) == ["left", "right"]
        assert bank.verify() == []


def test_a_file_that_may_not_grow(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put(make("left", 1))
    script = """
import resource, sys, torch
from crwn.contexts.bank import open_bank
from crwn.contexts import Context
from crwn.errors import BankError
bank = open_bank(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    bank.put(Context("large", {"v": torch.ones(100_000)}, (), "ab" * 32))
except BankError as error:
    print(error)
print(list(bank))
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0].startswith(f"cannot write to bank {path}: "), done.stderr
    assert done.stdout.splitlines()[1] == "['left']"
    with open_bank(path) as bank:
        assert bank.get("left") == make("left", 1)
        assert bank.put(make("right")) == 1


def test_waiting_for_a_lock_ends(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "bank.sqlite"
    with open_bank(path, wait=0.3) as bank:
        bank.put(make("left"))
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(BankError, match="another process has been writing for too long"):
            bank.put(make("right"))
        assert bank.get("left") == make("left")  # readers do not wait
        blocker.execute("ROLLBACK")
        blocker.close()
        bank.put(make("right"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to become someone without rights")
def test_without_the_right_to_write(make: Make) -> None:
    folder = Path(tempfile.mkdtemp())  # not pytest's folder: only root may go through that
    path = folder / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put(make("left", 1))
    # Loaded first: the user without rights may not be able to read the interpreter's own files.
    script = """
import os, sys, torch, sqlite3
from crwn.contexts.bank import open_bank
from crwn.contexts.bank.sql import SqlBank
from crwn.contexts import Context
from crwn.errors import BankError
with open_bank(sys.argv[1]) as bank:
    list(bank)
os.chdir(os.path.dirname(sys.argv[1]))
os.setgid(65534); os.setuid(65534)
bank = open_bank("bank.sqlite")
print(list(bank), dict(bank.get("left").info))
for act in (lambda: bank.put(Context("right", {"v": torch.ones(1)}, (), "ab" * 32)), lambda: open_bank("new.sqlite")):
    try:
        act()
    except BankError as error:
        print(error)
bank.close()
print(sorted(os.listdir(".")))
"""
    path.chmod(0o644)
    folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    assert lines[0] == "['left'] {'seed': 1}"
    assert "it is read-only" in lines[1]
    assert lines[2].startswith("cannot open bank new.sqlite: ")
    assert lines[3] == "['bank.sqlite']"
    shutil.rmtree(folder)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own(tmp_path: Path, make: Make) -> None:
    with open_bank(tmp_path / "bank.sqlite") as bank:
        bank.put(make("parent"))
        child = os.fork()
        if child == 0:
            try:
                bank.put(make("child"))
                bank.close()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        bank.put(make("parent again"))
        assert list(bank) == ["child", "parent", "parent again"]


def test_threads_open_the_same_new_bank(tmp_path: Path, make: Make) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with open_bank(tmp_path / "bank.sqlite", model="ab" * 32) as bank:
                bank.put(make(f"task {number}"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_bank(tmp_path / "bank.sqlite") as bank:
        assert len(bank) == 6
    assert [file.name for file in tmp_path.iterdir()] == ["bank.sqlite"]


def test_opening_and_counting_read_no_contexts(tmp_path: Path, make: Make) -> None:
    with SqlBank(tmp_path / "bank.sqlite") as bank:
        bank.put_many(make(f"task {i}") for i in range(30))
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with SqlBank(tmp_path / "bank.sqlite") as bank:
            assert len(bank) == 30
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert statements
    assert [one for one in statements if "crwn_contexts" in one or "crwn_payloads" in one] == []
