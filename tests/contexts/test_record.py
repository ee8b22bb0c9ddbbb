"""The stored bytes of a context are those that safetensors writes, and reading them builds nothing twice."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from context_strategies import contexts
from crwn.contexts import STORES, Context, ContextStack, Store, encode_label, stored_checksum
from crwn.contexts.dtype import pack
from crwn.contexts.record import read_record
from crwn.errors import ContextError
from small_contexts import MODEL, SHAPES, make


def by_safetensors(context: Context, store: Store) -> bytes:
    """The bytes as safetensors itself makes them, with the checksum put in afterwards."""
    packed = {key: pack(key, tensor, store) for key, tensor in context.tensors.items()}
    record = {
        "checksum": "0" * 64,
        "format": 1,
        "name": context.name,
        "classes": [encode_label(label) for label in context.classes],
        "model": context.model,
        "created": context.created,
        "info": dict(context.info),
        "store": store,
        "scales": {key: scale for key, (tensor, scale) in packed.items() if tensor.dtype == torch.int8},
    }
    text = json.dumps(record, separators=(",", ":"))
    data = save({key: tensor.numpy() for key, (tensor, _) in packed.items()}, {"crwn": text})
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


@given(contexts, st.sampled_from(STORES))
def test_the_bytes_are_those_of_safetensors(context: Context, store: Store) -> None:
    data = context.to_bytes(store)
    assert data == by_safetensors(context, store)
    again = read_record(data, source="x")
    assert again.checksum == stored_checksum(data)
    assert Context.from_stored(again).to_bytes(store) == data or store == "int8"  # whose scale may round again


def test_tensors_are_copies_that_may_be_changed() -> None:
    data = make(seed=1).to_bytes()
    context = Context.from_bytes(data)
    assert context.to_bytes() == data
    context.tensors["layers.0.v"][0] = 7.0
    assert Context.from_bytes(data) == make(seed=1)
    assert Context.from_bytes(context.to_bytes()).tensors["layers.0.v"][0] == 7.0
    made = make(seed=1)
    made.tensors["layers.0.v"][0] = 7.0
    assert made == context
    made.tensors["layers.0.v"] = torch.zeros(6)  # another tensor in its place
    assert not Context.from_bytes(made.to_bytes()).tensors["layers.0.v"].any()


@pytest.mark.parametrize("store", STORES)
def test_copies_and_pickles_are_contexts_of_their_own(store: Store) -> None:
    for context in (make(seed=2), Context.from_bytes(make(seed=2).to_bytes(store))):
        for twin in (copy.deepcopy(context), copy.copy(context), pickle.loads(pickle.dumps(context))):
            assert twin == context
            twin.tensors["layers.0.v"][0] = 9.0
            assert twin != context
            assert twin.to_bytes() != context.to_bytes()
    with pytest.raises(AttributeError, match="nothing"):
        context.nothing  # noqa: B018


@pytest.mark.parametrize("store", STORES)
def test_records_go_into_a_stack_as_contexts_do(store: Store) -> None:
    made = [make(name, seed) for seed, name in enumerate("abcdefghijk")]
    for held in STORES:
        plain, direct = ContextStack(SHAPES, store=held, capacity=2), ContextStack(SHAPES, store=held, capacity=2)
        for context in made:
            data = context.to_bytes(store)
            plain.append(Context.from_bytes(data))
            direct.append_stored(read_record(data, source="x"))
        assert plain.names == direct.names
        for key, tensor in plain.tensors.items():
            if store == held == "int8":  # rounded once instead of twice
                torch.testing.assert_close(direct.tensors[key], tensor, rtol=0.02, atol=0.02)
            else:
                assert torch.equal(direct.tensors[key], tensor)
        assert direct.classes(3) == plain.classes(3)
        assert direct.info(3) == plain.info(3)
    with pytest.raises(ContextError, match="lacks"):
        direct.append_stored(read_record(Context("z", {"w": torch.ones(2)}, (), MODEL).to_bytes(), source="x"))


def test_a_header_of_another_program_is_read() -> None:
    context = make(seed=4)
    length = int.from_bytes(context.to_bytes()[:8], "little")
    header = json.loads(context.to_bytes()[8 : 8 + length])
    record = json.loads(header["__metadata__"]["crwn"]) | {"checksum": "0" * 64}
    header["__metadata__"] = {"other": "x", "crwn": json.dumps(record)}
    text = json.dumps(dict(reversed(header.items()))).encode()
    data = len(text).to_bytes(8, "little") + text + context.to_bytes()[8 + length :]
    data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
    assert Context.from_bytes(data) == context


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32"},
        7,
    ],
)
def test_tensors_that_are_not_where_they_should_be_are_refused(entry: object) -> None:
    record = json.dumps(
        {
            "checksum": "0" * 64, "format": 1, "name": "t", "classes": [], "model": MODEL, "created": "now", "info": {},
            "store": "float32", "scales": {},
        },
        separators=(",", ":"),
    )  # fmt: skip
    text = json.dumps({"__metadata__": {"crwn": record}, "v": entry}, separators=(",", ":")).encode()
    data = len(text).to_bytes(8, "little") + text + np.ones(2, dtype=np.float32).tobytes()
    data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
    with pytest.raises(ContextError, match="is not a context") as caught:
        Context.from_bytes(data)
    assert "\n" not in str(caught.value)


def test_classes_that_contexts_share_are_read_once_and_always_checked() -> None:
    one, other = (read_record(make(name, seed=1).to_bytes(), source="x") for name in ("a", "b"))
    assert one.classes is other.classes
    odd = {
        "classes": [1],
        "model": "x",
        "created": "never",
        "a": ",'classes':[2],",
    }  # keys of the record inside the facts
    context = Context("a", make().tensors, ("yes", 1, (2, 3)), MODEL, info=odd)
    again = Context.from_bytes(context.to_bytes())
    assert (again.classes, again.model, again.created) == (("yes", 1, (2, 3)), MODEL, context.created)
    assert dict(again.info) == odd


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"\"classes\":[", r"\"classes\":[1],\"more\":[", None),  # a key between them: decoded as a whole
        (r",\"created\"", r",\"classes\":[5,6],\"created\"", None),  # twice: the last one counts, as in any JSON
        (r",\"created\"", r",\"classes\":[5,5],\"created\"", "repeat a label"),
        (r",\"store\"", r",\"classes\":[5,5],\"store\"", "repeat a label"),
        (r",\"store\"", r",\"model\":7,\"store\"", "is not a context"),
        (r"\"classes\":[", r"\"classes\":[NaN,", "no readable crwn metadata"),
    ],
)
def test_records_with_other_keys_are_read_as_json_is(old: str, new: str, message: str | None) -> None:
    data = make().to_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].decode().rstrip().replace(old, new, 1)
    assert header.count(new) == 1
    checksum = json.loads(json.loads(header)["__metadata__"]["crwn"].replace("NaN", "0"))["checksum"]
    header = header.replace(checksum, "0" * 64)
    header += " " * (-len(header) % 8)
    forged = len(header).to_bytes(8, "little") + header.encode() + data[8 + length :]
    forged = forged.replace(b"0" * 64, hashlib.sha256(forged).hexdigest().encode(), 1)
    if message is None:
        stored = read_record(forged, source="x")
        record = json.loads(json.loads(header)["__metadata__"]["crwn"])
        assert stored.classes == tuple(record["classes"])
        return
    with pytest.raises(ContextError, match=message):
        read_record(forged, source="x")
