"""What every bank does, in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from crwn.contexts import Context
from crwn.contexts.bank import Bank, MemoryBank, open_bank
from crwn.errors import BankError, ContextError, CRWNError, TaskError

Make = Callable[..., Context]
ODD_NAMES = [
    "a", "A", "a%", "a_b", "a%b", "a\\b", "a'b", 'a"b', "a;DROP TABLE crwn_contexts", "a/b", "../a", "é", "e\u0301",
    "日本", "👩\u200d🔬", "z" * 200, " ", "a b", "left", "left/1", "left/2", "left0", "ſ", "K", "ǆ", "-- ",
]  # fmt: skip


def test_gives_back_what_was_put(bank: Bank, make: Make) -> None:
    context = make("left", 1, accuracy=97.5)
    assert bank.put(context) == 1
    assert bank.get("left") == context
    assert len(bank) == 1
    assert "left" in bank
    assert "right" not in bank
    assert 3 not in bank
    assert list(bank) == ["left"]
    assert bank.model == context.model


def test_refuses_a_taken_name_and_keeps_the_old_context(bank: Bank, make: Make) -> None:
    bank.put(make("left", 1))
    with pytest.raises(TaskError, match='"left" is in the bank already'):
        bank.put(make("left", 2))
    assert bank.get("left") == make("left", 1)


def test_replacing_counts_versions_and_drops_the_old(bank: Bank, make: Make) -> None:
    bank.put(make("left", 1))
    assert bank.put(make("left", 2), replace=True) == 2
    assert bank.get("left") == make("left", 2)
    assert bank.versions("left") == [2]
    assert len(bank) == 1
    with pytest.raises(TaskError, match="has no version 1"):
        bank.get("left", version=1)


def test_keeps_old_versions_when_asked(where: str, make: Make) -> None:
    for place in (None, where):
        with open_bank(place, keep_versions=True) as bank:
            for seed in (1, 2, 3):
                bank.put(make("left", seed), replace=True)
            assert bank.versions("left") == [1, 2, 3]
            assert [bank.get("left", version=v) for v in (1, 2, 3)] == [make("left", s) for s in (1, 2, 3)]
            assert bank.get("left") == make("left", 3)
            assert bank.verify() == []
            bank.delete("left")
            with pytest.raises(TaskError):
                bank.get("left", version=1)
            assert bank.put(make("left", 9)) == 4  # a version number is never given twice
            assert bank.versions("left") == [4]


def test_unknown_names_are_refused_with_near_ones(bank: Bank, make: Make) -> None:
    bank.put_many(make(name) for name in ("left", "right", "upright"))
    for call in (bank.get, bank.delete, bank.versions):
        with pytest.raises(TaskError, match=r'"lefft" is not in the bank \(3 tasks\): did you mean "left"'):
            call("lefft")
    with pytest.raises(TaskError, match="qqq"):
        bank.get_many(["left", "qqq"])
    for odd in ("", "\0", "\ud800", "x" * 1000):
        with pytest.raises(TaskError):
            bank.get(odd)
        assert odd not in bank
    assert len(bank) == 3


def test_deleting(bank: Bank, make: Make) -> None:
    bank.put_many([make("left"), make("right")])
    bank.delete("left")
    assert list(bank) == ["right"]
    assert len(bank) == 1
    assert bank.put(make("left", 5)) == 2
    assert bank.get("left") == make("left", 5)


def test_put_many_is_all_or_nothing(bank: Bank, make: Make) -> None:
    bank.put(make("task 0700"))
    before = bank.marker()
    with pytest.raises(TaskError, match="task 0700"):
        bank.put_many(make(f"task {i:04}") for i in range(1200))
    assert list(bank) == ["task 0700"]
    with pytest.raises(TaskError, match="twin"):
        bank.put_many([make("twin", 1), make("twin", 2)])
    with pytest.raises(ContextError, match="was learned by model"):
        bank.put_many([make("one"), make("two", model="cd" * 32)])

    def broken() -> object:
        yield from (make(f"new {i}") for i in range(700))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bank.put_many(broken())  # type: ignore[arg-type]
    assert list(bank) == ["task 0700"]
    assert bank.marker() == before
    bank.put_many([make(f"task {i:04}", i) for i in range(1200)], replace=True)
    assert len(bank) == 1200
    assert bank.get_many(["task 1199", "task 0003", "task 1199"])[1] == make("task 0003", 3)
    bank.put_many([])
    bank.put_many([make("twin", 1), make("twin", 2)], replace=True)
    assert bank.get("twin") == make("twin", 2)
    assert bank.versions("twin") == [2]


def test_refuses_contexts_of_another_model(bank: Bank, make: Make) -> None:
    bank.put(make("left"))
    message = r'"right" was learned by model cdcdcdcdcdcd\.\.\., this model is abababababab\.\.\.: load the model'
    with pytest.raises(ContextError, match=message):
        bank.put(make("right", model="cd" * 32))
    assert list(bank) == ["left"]


def test_pages_of_odd_names(bank: Bank, make: Make) -> None:
    bank.put_many(make(name) for name in ODD_NAMES)
    expected = sorted(ODD_NAMES)
    assert bank.names() == expected
    pages, after = [], None
    while page := bank.names(after=after, limit=4):
        assert len(page) <= 4
        pages += page
        after = page[-1]
    assert pages == expected
    for prefix in ["", "a", "a%", "a_", "left", "left/", "é", "e", "z", "\U0010ffff", "\0", "\ud7ff", "nothing", "👩"]:
        assert bank.names(prefix) == [name for name in expected if name.startswith(prefix)]
        assert bank.names(prefix, after="a%", limit=3) == [n for n in expected if n.startswith(prefix) and n > "a%"][:3]
    assert bank.names(limit=0) == []
    assert bank.names(limit=10**30) == expected
    for name in ODD_NAMES:
        assert bank.get(name).name == name
    entries = bank.entries("left", limit=2)
    assert [entry.name for entry in entries] == ["left", "left/1"]
    assert entries[0].classes == ("cat", "dog", 3)
    assert entries[0].params == entries[0].numbers == 19
    assert entries[0].info == {"seed": 0}
    assert entries[0].checksum == make("left").checksum


@pytest.mark.parametrize("store", ["float16", "int8"])
def test_smaller_stores_are_close_and_remembered(where: str, make: Make, store: str) -> None:
    context = make("left", 4)
    with open_bank(where, store=store) as bank:  # type: ignore[arg-type]
        bank.put(context)
    with open_bank(where) as bank:
        assert bank.store == store
        found = bank.get("left")
        assert bank.put(found, replace=True) == 2
        again = bank.get("left")
    for key, tensor in context.tensors.items():
        assert torch.allclose(found.tensors[key], tensor, atol=float(tensor.abs().max()) / 250)
        assert torch.allclose(again.tensors[key], found.tensors[key], rtol=1e-6)
    assert (found.classes, found.info, found.created) == (context.classes, context.info, context.created)


def test_changes_tell_others_what_is_new(bank: Bank, make: Make) -> None:
    start = bank.marker()
    bank.put_many([make("left"), make("right")])
    changes, marker = bank.changes_since(start)
    assert [(change.name, change.version) for change in changes] == [("left", 1), ("right", 1)]
    assert bank.changes_since(marker) == ([], marker)
    bank.put(make("left", 2), replace=True)
    bank.delete("right")
    changes, marker = bank.changes_since(marker)
    assert [(change.name, change.version) for change in changes] == [("left", 2), ("right", None)]
    assert marker == bank.marker()
    first, middle = bank.changes_since(start, limit=1)
    rest, end = bank.changes_since(middle, limit=1)
    assert [change.name for change in first + rest] == ["left", "right"]
    assert end == marker
    assert all(a.sequence < b.sequence for a, b in pairwise(first + rest))


def test_reopening_finds_everything_and_closing_is_final(where: str, make: Make) -> None:
    with open_bank(where, model="ab" * 32) as bank:
        bank.put(make("left", 7))
    bank.close()
    with pytest.raises(BankError, match="is closed"):
        bank.get("left")
    with open_bank(where, create=False) as bank:
        assert bank.get("left") == make("left", 7)
        assert bank.model == "ab" * 32


def test_refuses_a_bank_of_another_model(where: str, make: Make) -> None:
    with open_bank(where, model="ab" * 32):
        pass
    with pytest.raises(BankError, match=r"keeps contexts of model abab.*, this model is cdcd.*: open the bank"):
        open_bank(where, model="cd" * 32)
    with open_bank(where) as bank, pytest.raises(ContextError, match="load the model it belongs to"):
        bank.put(make("left", model="cd" * 32))


def test_refuses_a_bank_of_another_format(where: str) -> None:
    from sqlalchemy import update

    from crwn.contexts.bank import sql, tables

    with sql.SqlBank(where) as bank, bank._writing() as connection:
        connection.execute(update(tables.meta).values(value="7"))
    with pytest.raises(BankError, match="format version 7, this crwn reads 1: update crwn"):
        open_bank(where)


def test_threads_write_and_read_together(bank: Bank, make: Make) -> None:
    errors: list[BaseException] = []
    taken: list[str] = []

    def work(thread: int) -> None:
        try:
            for i in range(12):
                bank.put(make(f"{thread}/{i}", i))
                assert bank.get(f"{thread}/{i}") == make(f"{thread}/{i}", i)
                try:
                    bank.put(make(f"same {i}", thread))
                except TaskError:
                    taken.append(f"same {i}")
                bank.names(f"{thread}/")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(bank) == 8 * 12 + 12
    assert len(taken) == 7 * 12  # each name was given to exactly one thread
    assert bank.marker() == len(bank)
    assert bank.verify() == []


def test_a_million_is_not_needed_to_see_that_opening_reads_no_names(where: str, make: Make) -> None:
    with open_bank(where) as bank:
        bank.put_many(make(f"task {i}") for i in range(50))
    with open_bank(where) as bank:
        assert len(bank) == 50


def test_kinds_of_banks() -> None:
    assert isinstance(open_bank(None), MemoryBank)
    assert isinstance(open_bank(None), Bank)
    for address in ("mysql://x", "sqlite://", "postgresql://[", "oracle://scott:tiger@h/db"):
        with pytest.raises(CRWNError) as caught:
            open_bank(address)
        assert "tiger" not in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ContextError, match="store='float64' is unknown"):
        open_bank(None, store="float64")  # type: ignore[arg-type]
