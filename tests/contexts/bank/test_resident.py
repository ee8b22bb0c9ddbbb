"""The resident stack: what is used stays, what others change goes, threads never see a mixture."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from crwn.contexts import Context
from crwn.contexts.bank import MemoryBank, ResidentStack, open_bank
from crwn.errors import ConfigError, ContextError, TaskError

Make = Callable[..., Context]
SHAPES = {"layers.0.v": (12,), "layers.0.alpha": (), "layers.1.v": (5,), "layers.1.alpha": ()}


def filled(make: Make, count: int) -> MemoryBank:
    bank = MemoryBank()
    bank.put_many(make(f"task {i}", i) for i in range(count))
    return bank


def test_takes_rows_of_mixed_tasks(make: Make) -> None:
    resident = ResidentStack(filled(make, 10), SHAPES, capacity=4)
    taken, facts = resident.take_with_facts(["task 7", "task 2", "task 7"])
    for key in SHAPES:
        rows = [make(f"task {i}", i).tensors[key] for i in (7, 2, 7)]
        assert torch.equal(taken[key], torch.stack(rows))
    assert (resident.hits, resident.misses, resident.evictions) == (0, 2, 0)
    with resident.holding(["task 2", "task 7"]) as (held, same):
        assert torch.equal(held["layers.0.v"][1], make("task 7", 7).tensors["layers.0.v"])
    assert (resident.hits, resident.misses) == (2, 2)
    assert facts == same == resident.facts(["task 7", "task 2"])
    assert {name: (fact.classes, dict(fact.info)) for name, fact in facts.items()} == {
        f"task {i}": (("cat", "dog", 3), {"seed": i}) for i in (2, 7)
    }


def test_what_was_taken_does_not_change(make: Make) -> None:
    resident = ResidentStack(filled(make, 3), SHAPES, capacity=1)
    taken, _ = resident.take_with_facts(["task 0"])
    resident.facts(["task 1"])
    assert torch.equal(taken["layers.0.v"][0], make("task 0", 0).tensors["layers.0.v"])


def test_an_error_leaves_the_stack_usable(make: Make) -> None:
    bank = filled(make, 1)
    bank.put(Context("odd", {"v": torch.ones(3)}, (0,), "ab" * 32))
    resident = ResidentStack(bank, SHAPES)
    for names, error in ((["task 9"], TaskError), (["task 0", "odd"], ContextError)):
        with pytest.raises(error):
            resident.facts(names)
    with pytest.raises(ZeroDivisionError), resident.holding(["task 0"]):
        raise ZeroDivisionError
    assert list(resident.facts(["task 0"])) == ["task 0"]


def test_the_least_recently_used_goes(make: Make) -> None:
    resident = ResidentStack(filled(make, 10), SHAPES, capacity=3)
    resident.facts(["task 0", "task 1", "task 2"])
    resident.facts(["task 0"])
    resident.facts(["task 3"])
    assert "task 1" not in resident
    assert all(name in resident for name in ("task 0", "task 2", "task 3"))
    assert resident.evictions == 1
    resident.facts(["task 2", "task 5", "task 6"])  # those asked for together never push one another out
    assert len(resident) == 3
    with pytest.raises(ConfigError, match="4 tasks in one batch, but the resident stack holds 3"):
        resident.facts([f"task {i}" for i in range(4)])
    with pytest.raises(TaskError, match="task 99"):
        resident.facts(["task 2", "task 99"])
    assert "task 2" in resident
    with pytest.raises(ConfigError):
        ResidentStack(resident.bank, SHAPES, capacity=0)


def test_refreshing_follows_what_others_change(where: str, make: Make) -> None:
    with open_bank(where) as bank, open_bank(where) as other:
        bank.put_many([make("left", 1), make("right", 2)])
        resident = ResidentStack(bank, SHAPES)
        resident.facts(["left", "right"])
        assert resident.refresh() == []
        other.put(make("left", 5), replace=True)
        other.delete("right")
        other.put(make("new", 6))
        assert resident.refresh() == ["left", "right", "new"]
        assert torch.equal(
            resident.take_with_facts(["left"])[0]["layers.0.v"][0], make("left", 5).tensors["layers.0.v"]
        )
        with pytest.raises(TaskError):
            resident.facts(["right"])


def test_a_dropped_task_is_fetched_again(make: Make) -> None:
    bank = filled(make, 2)
    resident = ResidentStack(bank, SHAPES, capacity=2)
    resident.facts(["task 0", "task 1"])
    bank.put(make("task 1", 9), replace=True)
    resident.drop("task 1")
    resident.drop("never there")
    assert len(resident) == 1
    taken, _ = resident.take_with_facts(["task 1"])
    assert torch.equal(taken["layers.1.v"][0], make("task 1", 9).tensors["layers.1.v"])
    assert resident.evictions == 0


@pytest.mark.parametrize("store", ["float32", "float16", "int8"])
def test_rows_are_held_as_the_bank_keeps_them(make: Make, store: str) -> None:
    bank = MemoryBank(store=store)  # type: ignore[arg-type]
    bank.put(make("left", 1))
    taken = ResidentStack(bank, SHAPES).take_with_facts(["left"])[0]
    for key, tensor in bank.get("left").tensors.items():
        assert torch.allclose(taken[key][0], tensor, rtol=1e-6)


def test_threads_always_get_the_tasks_they_ask_for(make: Make) -> None:
    resident = ResidentStack(filled(make, 30), SHAPES, capacity=8)
    expected = {f"task {i}": make(f"task {i}", i).tensors["layers.0.v"] for i in range(30)}
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(60):
                names = [f"task {(number * 7 + step * k) % 30}" for k in (1, 3, 5, 11)]
                rows = resident.take_with_facts(names)[0]["layers.0.v"]
                assert torch.equal(rows, torch.stack([expected[name] for name in names]))
                if step % 20 == 0:
                    resident.refresh()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(resident) <= 8
    assert resident.hits > 0
    assert resident.misses > 30
