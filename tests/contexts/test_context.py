"""Contexts alone and stacked: what is saved comes back, and what is wrong is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from safetensors.torch import save

from context_strategies import contexts
from crwn.contexts import STORES, Context, Store, check_model, stored_checksum
from crwn.errors import ContextError, TaskError
from small_contexts import MODEL, SHAPES, make


@given(contexts)
def test_bytes_give_the_context_back(context: Context) -> None:
    data = context.to_bytes()
    found = Context.from_bytes(data)
    assert found == context
    assert found.name == context.name
    assert found.classes == context.classes
    assert [type(label) for label in found.classes] == [type(label) for label in context.classes]
    assert found.info == context.info
    assert found.checksum == context.checksum == stored_checksum(data)
    assert all(torch.equal(found.tensors[key], tensor) for key, tensor in context.tensors.items())


def test_a_context_is_a_copy_of_what_it_was_given() -> None:
    tensor = torch.ones(3, dtype=torch.float64, requires_grad=True)
    context = Context("t", {"v": tensor}, (np.int64(3), np.str_("x"), (np.float32(0.5), np.bool_(True))), MODEL)
    with torch.no_grad():
        tensor.fill_(9)
    assert context.tensors["v"].tolist() == [1, 1, 1]
    assert context.tensors["v"].dtype == torch.float32
    assert context.classes == (3, "x", (0.5, True))
    assert [type(label) for label in context.classes] == [int, str, tuple]
    assert Context("t", {"v": torch.arange(6.0).reshape(2, 3).T}, (), MODEL).to_bytes()


def test_repeated_labels_and_odd_facts_are_refused() -> None:
    with pytest.raises(ContextError, match="repeat a label"):
        make(classes=(1, True))
    with pytest.raises(ContextError, match="does not survive JSON"):
        make(when=object())
    with pytest.raises(ContextError, match="does not survive JSON"):
        make(accuracy=float("nan"))
    assert make(accuracy=np.float32(0.5), steps=(1, 2)).info == {"accuracy": 0.5, "steps": [1, 2]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    with pytest.raises(ContextError, match=r'"t" has NaN or infinite numbers in v: learn the task again'):
        Context("t", {"v": torch.tensor([1.0, value])}, (), MODEL)


def test_names_that_are_not_allowed() -> None:
    with pytest.raises(TaskError, match="cannot be printed"):
        Context("a\nb", {"v": torch.ones(1)}, (), MODEL)


def tampered(**changes: object) -> bytes:
    """A context's bytes with another record, its checksum made right again."""
    import hashlib

    data = make().to_bytes()
    length = int.from_bytes(data[:8], "little")
    record = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["crwn"])
    record.update(changes, checksum="0" * 64)
    record = {key: value for key, value in record.items() if value is not ...}
    forged = save(make().tensors, {"crwn": json.dumps(record, separators=(",", ":"))})
    return forged.replace(b"0" * 64, hashlib.sha256(forged).hexdigest().encode(), 1)


def test_a_forged_record_with_nothing_changed_is_read() -> None:
    assert Context.from_bytes(tampered()) == make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format version 2, this crwn reads 1: update crwn"),
        ({"format": {}}, "format version"),
        ({"model": ...}, r"lacks metadata \(model\)"),
        ({"classes": 7}, "is not a context"),
        ({"classes": [[1]]}, "is not a context"),
        ({"classes": [{"list": [1]}]}, "is not a context"),
        ({"classes": [1, 1]}, "repeat a label"),
        ({"scales": {"layers.0.v": "x"}}, "is not a context"),
        ({"name": "a\nb"}, "cannot be printed"),
        ({"name": 5}, "name tasks with text"),
        ({"model": 5}, "is not a context"),
        ({"info": []}, "is not a context"),
        ({"created": None}, "is not a context"),
    ],
)
def test_wrong_metadata_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ContextError, match=message) as caught:
        Context.from_bytes(tampered(**changes), source="x.safetensors")
    assert str(caught.value).startswith("x.safetensors")
    assert "\n" not in str(caught.value)


def test_other_safetensors_files_are_refused() -> None:
    for data in (
        b"", b"x", save({"v": torch.ones(2)}), save({"v": torch.ones(2)}, {"crwn": "[]"}), b"\xff" * 100,
        b"\x10\x27\0\0\0\0\0\0" + b"[" * 10_000,
    ):  # fmt: skip
        with pytest.raises(ContextError):
            Context.from_bytes(data)


def test_nan_in_a_file_is_refused() -> None:
    import hashlib

    context = make()
    data = context.to_bytes()
    value = context.tensors["layers.0.alpha"].numpy().tobytes()
    assert data.count(value) == 1
    data = data.replace(value, np.float32("nan").tobytes()).replace(stored_checksum(data).encode(), b"0" * 64, 1)
    data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
    with pytest.raises(ContextError, match=r"NaN or infinite numbers in layers\.0\.alpha"):
        Context.from_bytes(data)


@pytest.mark.parametrize("store", STORES)
def test_every_damage_is_refused(store: Store, tmp_path: Path) -> None:
    data = make("left", 5, accuracy=0.5).to_bytes(store)
    path = tmp_path / "left.safetensors"
    for at in range(len(data)):
        for flip in (1, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= flip
            with pytest.raises(ContextError) as caught:
                Context.from_bytes(bytes(damaged))
            assert "\n" not in str(caught.value)
        with pytest.raises(ContextError):
            Context.from_bytes(data[:at])
    dice = random.Random(0)
    for _ in range(300):
        damaged = bytearray(data)
        start = dice.randrange(len(data))
        kind = dice.randrange(3)
        if kind == 0:
            damaged[start : start + dice.randrange(1, 200)] = dice.randbytes(dice.randrange(200))
        elif kind == 1:
            damaged[start:start] = dice.randbytes(dice.randrange(1, 50))
        else:
            damaged += dice.randbytes(dice.randrange(1, 50))
        if bytes(damaged) == data:
            continue
        path.write_bytes(damaged)
        with pytest.raises(ContextError):
            Context.load(path)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "left.safetensors"
    make(seed=1).save(path)
    make(seed=2).save(path)
    assert Context.load(path) == make(seed=2)
    assert [file.name for file in tmp_path.iterdir()] == ["left.safetensors"]
    with pytest.raises(ContextError, match="No such file or directory: check the path"):
        Context.load(tmp_path / "nothing.safetensors")
    with pytest.raises(ContextError, match="cannot write context"):
        make().save(tmp_path / "nowhere" / "x.safetensors")
    with pytest.raises(ContextError, match="cannot read"):
        Context.load(tmp_path)
    with pytest.raises(ContextError, match="cannot write"):
        make().save(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "left.safetensors"
    make(seed=1).save(path)
    before = path.read_bytes()
    script = (
        "import resource, sys, torch; from crwn.contexts import Context; from crwn.errors import ContextError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try: Context('left', {'v': torch.ones(9000)}, (), 'ab').save(sys.argv[1])\n"
        "except ContextError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert "File too large: free space or choose another place" in done.stdout
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["left.safetensors"]


def test_contexts_of_other_models_are_refused() -> None:
    context = make()
    check_model(context, MODEL, SHAPES)
    message = (
        r'"left" was learned by model abababababab\.\.\., this model is cdcdcdcdcdcd\.\.\.: load the model it belongs'
    )
    with pytest.raises(ContextError, match=message):
        check_model(context, "cd" * 32)
    with pytest.raises(ContextError, match=r"layers.0.v of shape \(6,\), expected \(7,\)"):
        check_model(context, MODEL, {**SHAPES, "layers.0.v": (7,)})
    with pytest.raises(ContextError, match=r"lacks layers\.9\.v and has none too many"):
        check_model(context, MODEL, {**SHAPES, "layers.9.v": (7,)})


def test_a_context_is_shown_in_one_line() -> None:
    context = Context("t", {"v": torch.zeros(1200)}, ("a", "b"), "m", info={"training_accuracy": 98.44})
    assert repr(context) == "Context('t', 2 classes, 1,200 parameters, 98.4% right on its own rows)"
    assert repr(Context("t", {"v": torch.zeros(3)}, ("a",), "m")) == "Context('t', 1 classes, 3 parameters)"
