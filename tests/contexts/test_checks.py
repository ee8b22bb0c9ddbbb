"""What a context may hold is checked by one validator, at every door."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crwn
from crwn.contexts import Context
from crwn.contexts.bank import open_bank
from crwn.contexts.checks import check_label
from crwn.errors import ContextError, CRWNError
from crwn.learner import Learner
from small_contexts import MODEL, make

Forge = Callable[..., bytes]


def nested(depth: int) -> Any:
    label: Any = 1
    for _ in range(depth):
        label = (label,)
    return label


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


LABELS = ["a\ud800", "a\0", "\0", 10**400, -(2**63) - 1, nested(9), nested(150), "x" * 10_001]
FACTS = [
    {"site": "a\ud800"}, {"\udfff": 1}, {"n": 10**400}, {"n": {"m": [10**400]}}, {"n": deep(9)}, {"n": deep(150)},
    {"scaling": [[10**400, 1], [1, 1]]}, {"scaling": [10**400, 1]}, {"scaling": [3e38, 1]}, {"scaling": [0, 10**400]},
    {"rows": 10**400},
]  # fmt: skip


@pytest.mark.parametrize("label", LABELS, ids=range(len(LABELS)))
def test_labels_that_not_every_reader_takes_are_refused(label: Any) -> None:
    with pytest.raises(ContextError, match="cannot be kept: use text") as caught:
        make(classes=("fine", label))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("facts", FACTS, ids=range(len(FACTS)))
def test_facts_that_not_every_reader_takes_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ContextError) as caught:
        make(**facts)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [3e38, -3e38, 1.1e18])
def test_values_too_large_to_compute_with_are_refused(value: float) -> None:
    with pytest.raises(ContextError, match=r"in v, the largest value is 1e\+18"):
        Context("t", {"v": torch.tensor([1.0, value])}, (), MODEL)
    assert Context("t", {"v": torch.tensor([1e18, -1e18])}, (), MODEL).params == 2


def test_what_is_allowed_stays() -> None:
    label = ((((("ä", 1.5), None), True), 2**63 - 1), -(2**63))
    assert check_label(label, "t") == label
    facts: dict[str, Any] = {"n": [1.0, 2.0, "x", None, True, {"a": [2**63 - 1]}], "名": "\0"}
    assert dict(make(**facts).info) == facts


def test_the_same_is_refused_in_files_and_uploads(forge: Forge) -> None:
    for changes in (
        {"classes": ["a\ud800"]}, {"classes": ["a\0"]}, {"classes": [10**400]}, {"info": {"n": 10**400}},
        {"classes": [{"tuple": [{"tuple": [{"tuple": [1]}]}]} for _ in range(1)] * 2}, {"info": {"n": deep(150)}},
        {"info": {"scaling": [[10**400], [1]]}}, {"created": "\ud800"}, {"created": "x" * 300}, {"model": "a\nb"},
    ):  # fmt: skip
        with pytest.raises(ContextError) as caught:
            Context.from_bytes(forge(**changes), source="the upload")
        assert str(caught.value).startswith("the upload")
        assert "\n" not in str(caught.value)
    with pytest.raises(ContextError, match="the upload"):
        Context.from_bytes(forge(tensors={"v": torch.tensor([3e38])}), source="the upload")


def test_learning_refuses_before_it_trains() -> None:
    learner = Learner(crwn.NeuroModNet(4, (8,), 2, seed=0))
    x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
    begun: list[object] = []
    for labels, info in ((["a\0", "b"] * 4, None), (["a\ud800", "b"] * 4, None), ([0, 1] * 4, {"n": 10**400})):
        with pytest.raises(CRWNError):
            learner.learn("t", x, labels, info=info, batches=2, progress=False, callbacks=[begun.append])
    assert learner.tasks == []
    assert not begun


def test_one_bad_stored_task_is_listed_with_what_is_wrong_and_the_others_as_always(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    names = ["a", "b", "c", "d", "e", "f", "g"]
    with open_bank(path) as bank:
        bank.put_many(make(name, seed=at) for at, name in enumerate(names))
    poison: dict[str, tuple[str, str | bytes]] = {
        "b": ("info", '{"n":1' + "0" * 400 + "}"), "c": ("info", "{"), "d": ("classes", '["\\ud800"]'),
        "e": ("info", b'{"n":"\xff\xfe"}'), "f": ("classes", "[" * 150 + "]" * 150),
    }  # fmt: skip
    with sqlite3.connect(path) as connection:
        for name, (column, text) in poison.items():
            value = text if isinstance(text, str) else sqlite3.Binary(text)
            connection.execute(f"UPDATE crwn_contexts SET {column} = CAST(? AS TEXT) WHERE name = ?", [value, name])
    connection.close()
    with open_bank(path) as bank:
        entries = bank.entries()
        assert [entry.name for entry in entries] == names
        assert [entry.name for entry in entries if entry.damage] == ["b", "c", "d", "f"]
        assert all("crwn restore" in entry.damage and "\n" not in entry.damage for entry in entries if entry.damage)
        assert entries[0].classes == ("cat", 3)
        assert bank.entries("b")[0].damage


@pytest.fixture
def forge() -> Forge:
    """The bytes of a context with another record or tensors, their checksum made right again."""
    import hashlib
    import json

    from safetensors.torch import save

    def forged(tensors: dict[str, torch.Tensor] | None = None, **changes: object) -> bytes:
        data = make().to_bytes()
        length = int.from_bytes(data[:8], "little")
        record = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["crwn"])
        record.update(changes, checksum="0" * 64)
        made = save(tensors or make().tensors, {"crwn": json.dumps(record, separators=(",", ":"))})
        return made.replace(b"0" * 64, hashlib.sha256(made).hexdigest().encode(), 1)

    return forged
