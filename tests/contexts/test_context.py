"""Contexts alone and stacked: what is saved comes back, and what is wrong is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import save

from crwn.context import (
    STORES,
    Context,
    ContextStack,
    Store,
    check_model,
    check_name,
    stored_checksum,
)
from crwn.errors import ContextError, TaskError

MODEL = "ab" * 32
SHAPES = {"layers.0.v": (6,), "layers.0.alpha": (), "norm.running_mean": (3,), "norm.running_var": (3,)}

names = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp", "Zs"]), min_size=1, max_size=40
)
plain_labels = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
labels = st.recursive(plain_labels, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
numbers = arrays.arrays(np.float32, st.sampled_from([(), (1,), (7,), (2, 3)]), elements=st.floats(-1e4, 1e4, width=32))
contexts = st.builds(
    Context,
    names,
    st.dictionaries(st.text(min_size=1, max_size=20).filter(lambda k: k != "__metadata__" and k.isprintable()),
                    numbers.map(torch.from_numpy), min_size=1, max_size=4),
    st.lists(labels, unique=True, max_size=5).map(tuple),
    st.just(MODEL),
    info=st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3),
)  # fmt: skip


def make(name: str = "left", seed: int = 0, classes: tuple[Hashable, ...] = ("cat", 3), **info: object) -> Context:
    generator = torch.Generator().manual_seed(seed)
    tensors = {key: torch.randn(shape, generator=generator) for key, shape in SHAPES.items()}
    return Context(name, tensors, classes, MODEL, "2026-01-02T03:04:05+00:00", dict(info))


@given(contexts)
@settings(deadline=None)
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


@given(contexts, st.sampled_from(STORES))
@settings(deadline=None)
def test_smaller_stores_stay_close(context: Context, store: Store) -> None:
    found = Context.from_bytes(context.to_bytes(store))
    for key, tensor in context.tensors.items():
        largest = float(tensor.abs().max())
        allowed = {"float32": 0.0, "float16": largest * 2**-11 + 1e-7, "int8": largest / 253 + 1e-37}[store]
        assert (found.tensors[key] - tensor).abs().max() <= allowed
    stack = ContextStack.from_contexts([context], store=store)
    for key, tensor in stack.row(0).items():
        assert torch.equal(tensor, found.tensors[key])  # a stack rounds as the file does


def test_int8_keeps_single_numbers_and_batch_norm_statistics_exact() -> None:
    context = make(seed=3)
    found = Context.from_bytes(context.to_bytes("int8"))
    for key in ("layers.0.alpha", "norm.running_mean", "norm.running_var"):
        assert torch.equal(found.tensors[key], context.tensors[key])
    assert not torch.equal(found.tensors["layers.0.v"], context.tensors["layers.0.v"])


@pytest.mark.parametrize("largest", [torch.finfo(torch.float32).max, 1e-38, 1e-45, 0.0])
def test_int8_at_the_ends_of_the_range(largest: float) -> None:
    found = Context.from_bytes(Context("t", {"v": torch.tensor([largest, -largest])}, (), MODEL).to_bytes("int8"))
    assert torch.allclose(found.tensors["v"], torch.tensor([largest, -largest]), rtol=1e-2, atol=1e-35)


def test_sizes_of_the_stores() -> None:
    context = Context("t", {"v": torch.randn(8976), "alpha": torch.tensor(1.0)}, tuple(range(10)), MODEL)
    sizes = {store: len(context.to_bytes(store)) for store in STORES}
    assert context.numbers == 8977
    assert sizes["float32"] < 36_700
    assert sizes["float16"] < 18_800
    assert sizes["int8"] < 9_800


def test_float16_refuses_what_does_not_fit() -> None:
    context = Context("t", {"v": torch.tensor([1.0, 1e6])}, (), MODEL)
    with pytest.raises(ContextError, match='v holds 1e\\+06, too large for float16: use store="float32"'):
        context.to_bytes("float16")


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


@pytest.mark.parametrize(
    ("label", "kind"),
    [(b"x", "bytes"), (float("nan"), "float"), (frozenset({1}), "frozenset"), ((1, b"x"), "bytes"), (1j, "complex")],
)
def test_labels_that_json_cannot_keep_are_refused(label: Hashable, kind: str) -> None:
    with pytest.raises(ContextError, match=rf'of task "left" \({kind}\) cannot be kept: use text'):
        make(classes=(label,))


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


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0", "\ud800", "\u202eabc", "a\x7f", 3, None])
def test_names_that_are_not_allowed(name: str) -> None:
    with pytest.raises(TaskError):
        check_name(name)
    with pytest.raises(TaskError):
        Context(name, {"v": torch.ones(1)}, (), MODEL)


@pytest.mark.parametrize("name", ["x" * 200, "日本 1", "../..", "می‌خواهم", "👩‍🔬", "%_'\"\\;"])
def test_names_that_are_allowed(name: str) -> None:
    assert check_name(name) == name


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
        "import resource, sys, torch; from crwn.context import Context; from crwn.errors import ContextError\n"
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


@pytest.mark.parametrize("store", STORES)
def test_stacking(store: Store) -> None:
    many = [make(f"task {i}", i, classes=(i,), number=i) for i in range(20)]
    stack = ContextStack(SHAPES, store=store, capacity=1)
    for i, context in enumerate(many):
        assert stack.append(context) == i
    expected = [Context.from_bytes(context.to_bytes(store)).tensors for context in many]
    assert stack.names == tuple(context.name for context in many)
    assert stack.index("task 7") == 7
    positions = stack.positions(["task 3", "task 19", "task 3"])
    gathered = stack.gather(positions)
    for key in SHAPES:
        assert gathered[key].dtype == torch.float32
        assert torch.equal(gathered[key], torch.stack([expected[i][key] for i in (3, 19, 3)]))
        assert torch.equal(stack.tensors[key], torch.stack([one[key] for one in expected]))
    stack.remove("task 3")
    stack.remove("task 18")
    assert len(stack) == 18
    assert "task 3" not in stack
    for i in (0, 4, 17, 19):
        row = stack.index(f"task {i}")
        assert stack.names[row] == f"task {i}"
        assert stack.classes(row) == (i,)
        assert stack.info(row) == {"number": i}
        assert all(torch.equal(tensor, expected[i][key]) for key, tensor in stack.row(row).items())
    changed = make("task 4", 99, classes=("new",))
    row = stack.replace(changed)
    assert stack.classes(row) == ("new",)
    assert torch.equal(
        stack.row(row)["norm.running_var"], Context.from_bytes(changed.to_bytes(store)).tensors["norm.running_var"]
    )


def test_stacks_refuse_what_does_not_fit() -> None:
    stack = ContextStack.from_contexts([make("left")])
    with pytest.raises(TaskError, match='"left" is stacked already'):
        stack.append(make("left"))
    with pytest.raises(TaskError, match='"right" is not among the 1 stacked'):
        stack.index("right")
    with pytest.raises(ContextError, match="lacks"):
        stack.append(Context("other", {"v": torch.ones(3)}, (), MODEL))
    for row in (1, -1):
        with pytest.raises(ContextError, match=f"row {row} asked of a stack of 1"):
            stack.row(row)
        with pytest.raises(ContextError, match="asked of a stack of 1"):
            stack.gather(torch.tensor([0, row]))
    with pytest.raises(ContextError, match="at least one"):
        ContextStack.from_contexts([])
    assert stack.gather(torch.tensor([], dtype=torch.int64))["layers.0.v"].shape == (0, 6)


def test_int8_stacks_take_a_quarter_of_the_memory() -> None:
    many = [Context(f"t{i}", {"v": torch.randn(1000), "alpha": torch.tensor(1.0)}, (), MODEL) for i in range(10)]
    sizes = {store: ContextStack.from_contexts(many, store=store).bytes for store in STORES}
    assert sizes["int8"] < 0.26 * sizes["float32"]
    assert sizes["float16"] < 0.51 * sizes["float32"]


def test_a_context_is_shown_in_one_line() -> None:
    context = Context("t", {"v": torch.zeros(1200)}, ("a", "b"), "m", info={"training_accuracy": 98.44})
    assert repr(context) == "Context('t', 2 classes, 1,200 numbers, 98.4% right on its own rows)"
    assert repr(Context("t", {"v": torch.zeros(3)}, ("a",), "m")) == "Context('t', 1 classes, 3 numbers)"
