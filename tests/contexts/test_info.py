"""The typed record of facts: what is stored comes back unchanged, and values of another type harm nothing."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crwn.contexts import Context, ContextInfo
from crwn.contexts.bank import open_bank
from crwn.errors import ConfigError, ContextError

STORED: dict[str, Any] = {
    "site": "north",
    "rows": 400,
    "batches": 30,
    "loss": 0.394788,
    "seconds": 3,
    "scaling": [[0.5, 1], [2, 0.25]],
    "own_entropy": {"mean": 0.5, "std": 0.25, "rows": 400},
    "sketch": None,
    "accuracy": 82.75,
    "columns": ["a", "b"],
    "factors": {"angle": 10},
    "n": [1, {"x": None}],
}
FIELDS = tuple(name for name in ContextInfo.__dataclass_fields__ if name != "user")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def context(info: Any, name: str = "t") -> Context:
    return Context(name, {"v": torch.arange(3.0)}, ("a", 1), "m", "2026-01-02T03:04:05+00:00", info)


def test_fields_are_typed_and_other_keys_are_the_users() -> None:
    info = ContextInfo.from_mapping(STORED)
    assert (info.rows, info.batches, info.loss, info.seconds) == (400, 30, 0.394788, 3)
    assert info.scaling == ((0.5, 1.0), (2.0, 0.25))
    assert info.own_entropy == {"mean": 0.5, "std": 0.25, "rows": 400}
    assert (info.sketch, info.accuracy, info.training_accuracy) == (None, 82.75, None)
    assert info.columns == ("a", "b")
    assert info.factors == {"angle": 10}
    assert info.user == {"site": "north", "n": [1, {"x": None}]}


def test_it_reads_like_the_dictionary_it_is_stored_as() -> None:
    info = ContextInfo.from_mapping(STORED)
    assert dict(info) == STORED
    assert list(info) == list(STORED)
    assert info == STORED
    assert info["site"] == "north"
    assert info.get("training_accuracy", 7) == 7
    assert "rows" in info
    assert "training_accuracy" not in info
    with pytest.raises(KeyError):
        info["training_accuracy"]
    assert eval(repr(info).removeprefix("ContextInfo")) == STORED
    for twin in (copy.deepcopy(info), pickle.loads(pickle.dumps(info))):
        assert (twin, twin.scaling, twin.user) == (info, info.scaling, info.user)


def test_the_checksum_of_a_context_is_the_one_it_always_had() -> None:
    """Computed when `info` was a plain dictionary."""
    assert context(STORED).checksum == "4114b0d3b2ad2f1e451dc9d75ceb5d7ddfa77867be468cd00b026b1bfeff6f53"
    assert Context.from_bytes(context(STORED).to_bytes()).to_bytes() == context(STORED).to_bytes()
    assert context(None).info == {}


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), values, max_size=6))
def test_any_stored_dictionary_comes_back_as_it_was(stored: dict[str, Any]) -> None:
    info = ContextInfo.from_stored(stored)
    assert dict(info) == stored
    assert list(info) == list(stored)
    again = replace(info)  # made of its fields alone
    assert dict(again) == {
        key: value
        for key, value in stored.items()
        if key not in FIELDS
        or key in info.user
        or (value is not None and not (key == "factors" and value == {}) and not (key == "scaling" and value == [0, 1]))
    }
    read = ContextInfo.from_stored(dict(again))
    assert [getattr(read, key) for key in (*FIELDS, "user")] == [getattr(info, key) for key in (*FIELDS, "user")]


def test_a_record_made_of_fields_stores_what_is_set() -> None:
    info = ContextInfo(rows=3, scaling=((0.0, 1.0), (1.0, 2.0)), columns=("a", "b"), user={"n": np.int64(2), "t": (1,)})
    stored = {"n": 2, "t": [1], "rows": 3, "scaling": [[0.0, 1.0], [1.0, 2.0]], "columns": ["a", "b"]}
    assert dict(info) == stored
    assert dict(context(info).info) == stored
    assert dict(ContextInfo()) == {}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("rows", "many"), ("rows", 2.5), ("rows", True), ("batches", []), ("loss", "low"), ("seconds", {}),
        ("own_entropy", "x"), ("sketch", "x"), ("sketch", [1]), ("accuracy", "high"), ("accuracy", True),
        ("training_accuracy", [9]), ("factors", "x"), ("factors", {"angle": [1]}), ("columns", "ab"), ("columns", [1]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_kept_but_not_used(key: str, wrong: object) -> None:
    info = context({key: wrong, "a": 1}).info
    assert getattr(info, key) == getattr(ContextInfo(), key)
    assert info.user == {key: wrong, "a": 1}
    assert dict(info) == {key: wrong, "a": 1}


@pytest.mark.parametrize("wrong", ["no", [1], [1, 2, 3], [1, "2"], [["a"], [1]], {"mean": 1}, 5])
def test_a_scaling_that_cannot_be_used_is_refused(wrong: object) -> None:
    with pytest.raises(ContextError, match=r'"t" has scaling .*: it must be \[mean, deviation > 0\]'):
        context({"scaling": wrong})


def test_facts_that_json_cannot_hold_are_refused() -> None:
    for info in ({"when": object()}, ContextInfo(user={"x": float("nan")})):
        with pytest.raises(ContextError, match='task "t": info does not survive JSON'):
            context(info)


def test_facts_of_the_user_are_handed_on_and_cannot_take_a_fields_place() -> None:
    old = ContextInfo.from_mapping({**STORED, "rows": "many"})
    info = ContextInfo.from_user({"site": "south", "new": 1}, old)
    assert dict(info) == {
        "site": "south", "columns": ["a", "b"], "factors": {"angle": 10}, "n": [1, {"x": None}], "new": 1,
    }  # fmt: skip
    assert dict(ContextInfo.from_user(None)) == {}
    assert ContextInfo.from_user({"factors": {"angle": 5}}).factors == {"angle": 5}
    with pytest.raises(ConfigError, match="info cannot hold accuracy, rows: the context keeps its own"):
        ContextInfo.from_user({"rows": 3, "accuracy": None})
    with pytest.raises(ConfigError, match="info cannot hold columns"):
        ContextInfo(user={"columns": ["a"]})


def test_a_bank_lists_all_others_beside_one_with_odd_facts(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with open_bank(path) as bank:
        bank.put_many(context({"rows": 5, "site": name}, name) for name in ("a", "b", "c"))
    with sqlite3.connect(path) as connection:
        odd = '{"rows":"many","scaling":"no","sketch":7,"site":"b"}'
        connection.execute("UPDATE crwn_contexts SET info = ? WHERE name = 'b'", [odd])
    with open_bank(path) as bank:
        entries = bank.entries()
    assert [(one.name, one.info.rows, one.info["site"]) for one in entries] == [
        ("a", 5, "a"), ("b", None, "b"), ("c", 5, "c"),
    ]  # fmt: skip
