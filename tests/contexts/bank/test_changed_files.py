"""A bank's file that others write, replace or delete while it is open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from crwn.contexts import Context
from crwn.contexts.bank import open_bank, sqlite
from crwn.errors import BankError

Make = Callable[..., Context]

READER = """
import os, sys
from crwn.contexts.bank import open_bank
from crwn.errors import CRWNError
with open_bank(sys.argv[1]) as bank:  # everything is imported while the process may read all files
    bank.entries(); bank.get_many(list(bank))
os.chdir(os.path.dirname(sys.argv[1]))
os.setgid(65534); os.setuid(65534)
bank = open_bank("bank.sqlite")
assert bank.read_only
print("open", flush=True)
alarms, reads, seen = [], 0, 0
for line in sys.stdin:
    if line == "look\\n":
        print(len(bank), len(bank.names()), bank.get("left").info["seed"], bank.marker(), flush=True)
        continue
    for _ in range(int(line)):
        try:
            names = bank.names()
            bank.get_many(names)
            bank.get(names[-1])
            reads, seen = reads + 1, max(seen, len(names))
        except CRWNError as error:
            alarms.append(str(error))
    print(reads, seen, len(alarms), alarms[:1], flush=True)
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to become someone without rights")
def test_a_reader_without_rights_follows_a_writer_and_raises_no_false_alarms(make: Make) -> None:
    folder = Path(tempfile.mkdtemp())  # not pytest's folder: only root may go through that
    folder.chmod(0o755)
    path = folder / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put(make("left", 0))
        bank.put_many([make(f"task {number:03}", number) for number in range(100)])
    path.chmod(0o644)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None

    def ask(line: str) -> str:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(line + "\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

    try:
        assert reader.stdout.readline() == "open\n"
        assert ask("look") == "101 101 0 101"
        with open_bank(path) as bank:  # a writer that comes later, and is seen while it is there
            bank.put(make("left", 7), replace=True)
            assert ask("look") == "101 101 7 102"
        with open_bank(path) as bank:
            bank.put(make("right", 8))
        assert ask("look") == "102 102 7 103"  # and after it has gone
        reader.stdin.write("60\n")
        reader.stdin.flush()
        for number in range(40):  # it opens, writes and closes while the reader reads
            with open_bank(path) as bank:
                bank.put_many([make(f"task {at:03}", number) for at in range(100)], replace=True)
                bank.put(make(f"zz {number:02}", number))
        reads, seen, alarms = reader.stdout.readline().split(" ", 2)
        assert alarms.startswith("0 "), alarms
        assert int(reads) == 60
        assert int(seen) >= 102
        assert ask("look").startswith("142 ")
    finally:
        reader.stdin.close()
        reader.wait(timeout=60)
        reader.stdout.close()
        shutil.rmtree(folder)


def test_a_reader_without_rights_waits_while_a_log_is_made_or_removed(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose index is not there yet, or no longer, cannot be read without the right to write the index."""
    path = tmp_path / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put(make("left", 3))
    monkeypatch.setattr(sqlite, "may_write", lambda _: False)
    log, index = path.with_name("bank.sqlite-wal"), path.with_name("bank.sqlite-shm")

    def begin() -> None:
        index.unlink(missing_ok=True)  # root can make one where others cannot, if it opens the bank just after `end`
        log.touch()
        index.symlink_to(tmp_path / "missing" / "index")  # nobody can open or make it, not even root

    def end() -> None:
        log.unlink()
        index.unlink(missing_ok=True)

    with open_bank(path) as bank:
        begin()
        with pytest.raises(BankError, match="cannot be opened: check that the folder is there"):
            bank.names()
        end()
        assert bank.get("left").info["seed"] == 3
        for read in (bank.names, lambda: bank.get("left"), lambda: open_bank(path).close()):
            begin()
            later = threading.Timer(0.1, end)
            later.start()
            read()
            later.join()


@pytest.mark.parametrize("how", ["deleted", "replaced", "log deleted"])
def test_a_file_that_is_replaced_or_deleted_while_open_is_noticed(how: str, tmp_path: Path, make: Make) -> None:
    path = tmp_path / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put(make("left"))
        bank.put(make("right"))
        assert bank.get("left").name == "left"
        if how == "log deleted":
            (tmp_path / "bank.sqlite-wal").unlink()
            with pytest.raises(BankError, match=r"log of bank .* was deleted while the bank was open"):
                bank.put(make("new"))
            return
        if how == "replaced":
            with open_bank(tmp_path / "other.sqlite") as other:
                other.put(make("left", 5))
            (tmp_path / "other.sqlite").replace(path)
        else:
            path.unlink()
        words = f"was {how.split()[0]}.* while it was open: .*open it again"
        for act in (
            lambda: bank.put(make("new")), lambda: bank.put_many([make("newer")]), lambda: bank.delete("left"),
            lambda: bank.get("left"), lambda: bank.get_many(["left"]), lambda: len(bank), lambda: bank.names(),
        ):  # fmt: skip
            with pytest.raises(BankError, match=words):
                act()
    if how == "replaced":
        with open_bank(path) as bank:
            assert list(bank) == ["left"]
            assert bank.get("left").info["seed"] == 5


def test_a_put_into_a_file_that_goes_during_the_write_is_not_acknowledged(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "bank.sqlite"

    def contexts():  # type: ignore[no-untyped-def]
        yield make("first")
        for number in range(600):  # more than one statement
            yield make(f"task {number}")
        path.unlink()

    with open_bank(path) as bank:
        bank.put(make("left"))
        with pytest.raises(BankError, match="was deleted while it was open"):
            bank.put_many(contexts())
