"""Modules that would fail later, or silently, are refused with a reason; and uses that must not change a learner."""

from __future__ import annotations

import collections
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from conversion import modulate, modulate_rows
from crwn import Learner, neuromodulate
from crwn.errors import ConfigError, CRWNError, ModelError

X = np.random.default_rng(0).normal(size=(24, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def learner(module: nn.Module, bank: Path | None = None, **settings: Any) -> Learner:
    return Learner(modulate_rows(module, **settings), bank)


class Body(nn.Module):
    """Two layers, and what a subclass does with them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.a(x)))


class Convolved(Body):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.conv(x[:, None]).mean(1))


@pytest.mark.parametrize("weights", ["random", "keep"])
@pytest.mark.parametrize("make", [plain, Convolved])
@pytest.mark.parametrize("method", ["auto", "parametrize"])
def test_merging_leaves_the_learner_as_it_was(make: Any, weights: str, method: str) -> None:
    found = learner(make(), weights=weights, method=method)
    found.learn("a", X, Y, batches=3)
    before = found.predict_proba(X, "a")
    state = {name: value.clone() for name, value in found.model.state_dict().items()}
    merged = found.merge("a")
    for value in merged.parameters():
        value.zero_()  # whatever becomes of it
    assert np.array_equal(found.predict_proba(X, "a"), before)
    assert all(torch.equal(value, state[name]) for name, value in found.model.state_dict().items())
    again = found.merge("a")
    assert np.allclose(torch.softmax(again(torch.from_numpy(X)), 1).detach(), before, atol=1e-6)
    found.learn("b", X, 1 - Y, batches=3)
    assert np.array_equal(found.predict_proba(X, "a"), before)


@pytest.mark.parametrize("as_input", [False, True])
@pytest.mark.parametrize("make", [plain, Convolved])
def test_exporting_leaves_the_learner_as_it_was(make: Any, as_input: bool, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from crwn.integrations.onnx import export_onnx

    found = learner(make(), weights="keep")
    found.learn("a", X, Y, batches=3)
    before = found.predict_proba(X, "a")
    export_onnx(found, "a", tmp_path / "a.onnx", context_as_input=as_input)
    found.learn("b", X, 1 - Y, batches=3)
    assert found.context("b").tensors.keys() == found.context("a").tensors.keys()
    found.predict(X, "b")
    assert np.array_equal(found.predict_proba(X, "a"), before)


class Averaging(Body):
    """Writes into a frozen parameter while it learns, from the given batch on."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.proto, self.calls, self.first = nn.Parameter(torch.ones(8)), 0, first

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.calls += 1
            if self.calls > self.first:
                with torch.no_grad():
                    self.proto.mul_(0.5)
        return super().forward(x * self.proto)


class Checkpointed(Body):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_() if self.reentrant else x
        return self.head(checkpoint(self.a, x, use_reentrant=self.reentrant))


class Detached(Body):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Noisy(Body):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, 0.1))


class TwoInputs(Body):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x + y)


class LateBuffer(Body):
    def forward(self, x: Tensor) -> Tensor:
        self.register_buffer("cache", x.mean(0).detach())
        return super().forward(x)


class Words(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(4, 8, **settings), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x.abs().long()).mean(1))


class Falling(Body):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, [0, 1, 2, 3, 4, 5, 6, 99]])


CANNOT_LEARN = {
    "parameter at once": (Averaging, 'changes its parameter "proto"'),
    "parameter later": (lambda: Averaging(3), 'changes its parameter "proto"'),
    "checkpointed": (lambda: Checkpointed(False), "recomputes activations"),
    "checkpointed, reentrant": (lambda: Checkpointed(True), "recomputes activations"),
    "detached": (Detached, "do not depend on what a task learns"),
    "noise in evaluation": (Noisy, "draws random numbers when it predicts"),
    "two inputs": (TwoInputs, "fails on rows of shape \\(8,\\): TypeError"),
    "a buffer made late": (LateBuffer, '"cache" while it computes'),
    "an index out of range": (Falling, "fails on rows of shape \\(8,\\): IndexError"),
}


@pytest.mark.parametrize("how", ["alone", "together"])
@pytest.mark.parametrize("name", CANNOT_LEARN)
def test_what_cannot_learn_is_told_and_leaves_nothing_behind(name: str, how: str) -> None:
    make, message = CANNOT_LEARN[name]
    found = learner(make())
    state = {key: value.clone() for key, value in found.model.state_dict().items()}
    tasks = {"a": (X, Y), "b": (X, 1 - Y)}
    learn = partial(found.learn, "a", X, Y) if how == "alone" else partial(found.learn_many, tasks)
    with pytest.raises(CRWNError, match=message):
        learn(batches=6)
    assert found.tasks == []
    assert all(torch.equal(value, state[key]) for key, value in found.model.state_dict().items())


def test_rows_that_do_not_fit_are_told_when_predicting() -> None:
    net = modulate(Convolved(), classes=2)
    found = Learner(net)
    found.learn("a", X, Y, batches=2)
    for shape in ((9,), (8, 2)):
        with pytest.raises(CRWNError, match="rows"):
            found.predict(np.zeros((3, *shape), dtype=np.float32), "a")


def test_other_kinds_of_numbers_are_told_before_learning() -> None:
    with pytest.raises(ModelError, match="computes in float64"):
        learner(plain().double())


def test_a_layer_without_a_part_in_the_answers_is_told() -> None:
    class Extra(Body):
        def __init__(self) -> None:
            super().__init__()
            self.auxiliary = nn.Conv1d(1, 1, 1)

    with pytest.warns(UserWarning, match="learn nothing: auxiliary"):
        learner(Extra()).learn("a", X, Y, batches=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(Body()).learn("a", X, Y, batches=2)


class ByKind(nn.Module):
    """Treats its layers by their kinds, as many modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)])

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if isinstance(layer, nn.Linear) and number < 2:
                x = F.relu(x)
        return x


def test_a_converted_layer_is_of_its_kind() -> None:
    module, rows = ByKind(), torch.from_numpy(X)
    assert torch.allclose(module(rows), neuromodulate(module, weights="keep")(rows), atol=1e-6)


class Held(Body):
    def __init__(self, hold: Any) -> None:
        super().__init__()
        self.held = hold(self.a)

    def forward(self, x: Tensor) -> Tensor:
        layer = self.held
        if isinstance(layer, collections.deque):
            layer = layer[0]
        elif isinstance(layer, types.SimpleNamespace):
            layer = layer.layer
        return self.head(F.relu(layer(x)))


HOLDERS = {
    "partial": partial,
    "deque": lambda layer: collections.deque([layer]),
    "namespace": lambda layer: types.SimpleNamespace(layer=layer),
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("weights", ["random", "keep"])
def test_layers_held_anywhere_learn_and_come_back(name: str, weights: str, tmp_path: Path) -> None:
    found = learner(Held(HOLDERS[name]), weights=weights)
    start = {key: value.clone() for key, value in found.model.named_parameters() if value.requires_grad}
    context = found.learn("a", X, Y, batches=3)
    assert all(not torch.equal(context.tensors[key], value) for key, value in start.items())
    found.save(tmp_path / "model")
    net = modulate_rows(Held(HOLDERS[name]), weights=weights)
    again = Learner.load(tmp_path / "model", model=net)
    assert np.array_equal(again.predict_proba(X, "a"), found.predict_proba(X, "a"))


def test_a_function_that_brings_a_layer_is_refused() -> None:
    with pytest.raises(ModelError, match="calls a layer from outside"):
        neuromodulate(Held(lambda layer: lambda x: layer(x)))


class Plain(Body):
    def __init__(self, scale: float = 1.0, kind: str = "relu") -> None:
        super().__init__()
        self.table, self.kind = torch.full((8,), scale), kind

    def forward(self, x: Tensor) -> Tensor:
        return self.head(getattr(F, self.kind)(self.a(x * self.table)))


@pytest.mark.parametrize("other", [{"scale": 2.0}, {"kind": "gelu"}])
def test_a_module_that_computes_otherwise_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    found = learner(Plain(), tmp_path / "model")
    found.learn("a", X, Y, batches=2)
    found.close()
    assert Learner.load(tmp_path / "model", model=neuromodulate(Plain())).tasks == ["a"]
    with pytest.raises(ModelError, match="was made with model"):
        Learner.load(tmp_path / "model", model=neuromodulate(Plain(**other)))


@pytest.mark.parametrize("other", [{"nhead": 4}, {"norm_first": True}, {"activation": "gelu"}])
def test_settings_of_an_encoder_are_part_of_a_model(other: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"d_model": 8, "nhead": 2, "dim_feedforward": 16}
    one, same = (modulate(nn.TransformerEncoderLayer(**usual)) for _ in range(2))
    another = modulate(nn.TransformerEncoderLayer(**usual | other))
    assert one.crwn_description == same.crwn_description != another.crwn_description


@pytest.mark.parametrize("weights", ["random", "keep"])
def test_values_changed_after_the_conversion_are_kept(weights: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = modulate(plain(), weights=weights, classes=2)
    with torch.no_grad():
        net[0].bias.add_(1)
    found = Learner(net)
    found.learn("a", X, Y, batches=2)
    found.save(tmp_path / "model")
    fresh = modulate(plain(), weights=weights, classes=2)
    again = Learner.load(tmp_path / "model", model=fresh)
    assert np.array_equal(again.predict_proba(X, "a"), found.predict_proba(X, "a"))


def test_a_buffer_that_is_a_view_is_kept(tmp_path: Path) -> None:
    class Views(Body):
        one: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("one", torch.arange(8.0))
            self.register_buffer("two", self.one.view(2, 4))

    found = learner(Views(), tmp_path / "model")
    found.learn("a", X, Y, batches=2)
    found.close()
    net = modulate(Views(), classes=2)
    assert Learner.load(tmp_path / "model", model=net).tasks == ["a"]


def with_buffer(value: Tensor) -> nn.Module:
    module = plain()
    module.register_buffer("odd", value)
    return module


CANNOT_CONVERT: dict[str, tuple[Callable[[], Any], type[CRWNError], str]] = {
    "no module": (lambda: "abc", ConfigError, "takes an nn.Module, got 'abc'"),
    "a class": (lambda: nn.Linear, ConfigError, "takes an nn.Module"),
    "complex128": (lambda: with_buffer(torch.zeros(2, dtype=torch.complex128)), ModelError, "complex128"),
    "sparse": (lambda: with_buffer(torch.eye(3).to_sparse()), ModelError, '"odd" is a sparse tensor'),
    "meta": (lambda: nn.Linear(2, 2, device="meta"), ModelError, "meta device"),
    "wrapped": (lambda: nn.DataParallel(plain()), ModelError, "convert what is inside"),
    "max_norm": (lambda: Words(max_norm=1.0), ModelError, "max_norm"),
    "sparse gradients": (lambda: Words(sparse=True), ModelError, "sparse gradients"),
}


@pytest.mark.parametrize("name", CANNOT_CONVERT)
def test_what_cannot_be_converted_is_named(name: str) -> None:
    make, kind, message = CANNOT_CONVERT[name]
    with pytest.raises(kind, match=message):
        neuromodulate(make(), weights="keep")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"include": 5}, "include must be names or types of layers, got 5"),
        ({"include": []}, "leave no layer to modulate \\(there are: 0, 2\\)"),
        ({"exclude": "*"}, "leave no layer to modulate"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"seed": None}, "seed must be a whole number"),
    ],
)
def test_settings_that_cannot_be_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        neuromodulate(plain(), **settings)


def test_seeds_of_numpy_and_nothing_to_learn_besides_are_fine() -> None:
    found = learner(plain(), seed=np.int64(3), learn=None)
    assert found.model.crwn_description == learner(plain(), seed=3).model.crwn_description


class Writes(Body):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(len(x), 2)
        out[:] = super().forward(x)
        return out


class Branches(Body):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        out[out > 100] = 0
        return out


class Lists(Body):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + len(x.mean(0).detach().tolist()))


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class StraightThrough(Body):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(Straight.apply(self.a(x)))


class Normed(Body):
    """With statistics, which a failed attempt at a stack must not move."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(self.norm(x))
        out[out > 100] = 0
        return out


@pytest.mark.parametrize("kind", [Writes, Branches, Lists, StraightThrough, Normed])
def test_what_cannot_be_stacked_learns_together_as_alone(kind: Any) -> None:
    torch.manual_seed(0)
    module = kind()
    together, alone = learner(module), learner(module)
    together.learn_many({"a": (X, Y), "b": (X, 1 - Y)}, batches=4)
    for name, labels in (("a", Y), ("b", 1 - Y)):
        context = alone.learn(name, X, labels, batches=4)
        for key, value in together.context(name).tensors.items():
            assert torch.equal(value, context.tensors[key]), key
    mixed = together.predict_proba(X, ["a", "b"] * 12)
    for name, at in (("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
        assert np.allclose(mixed[at], alone.predict_proba(X[at], name), atol=1e-5)


def test_tasks_with_rows_of_other_shapes_are_not_stacked() -> None:
    class Pooled(Body):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.mean(1))

    net = modulate(Pooled(), classes=2)
    rows = np.random.default_rng(0).normal(size=(24, 6, 8)).astype(np.float32)
    learned = Learner(net).learn_many({"short": (rows[:, :4], Y), "long": (rows, Y)}, batches=2)
    assert [context.name for context in learned] == ["short", "long"]


def test_padded_rows_answer_alike_alone_and_mixed() -> None:
    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
            self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            tokens = x.view(-1, 4, 2).repeat(1, 1, 4)
            mask = torch.zeros(len(x), 4, dtype=torch.bool)
            mask[:, 3] = True
            return self.head(self.encoder(tokens, src_key_padding_mask=mask).mean(1))

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learner(Sentences(), weights="keep")
        found.learn_many({"a": (X, Y), "b": (X, 1 - Y)}, batches=3)
        mixed = found.predict_proba(X, ["a", "b"] * 12)
        assert np.allclose(mixed[::2], found.predict_proba(X[::2], "a"), atol=1e-5)


def test_weights_with_parametrizations_of_their_own_travel_as_they_are() -> None:
    torch.manual_seed(0)
    first = parametrizations.orthogonal(nn.Linear(8, 8))
    second = parametrizations.weight_norm(nn.Linear(8, 8))
    module = nn.Sequential(first, second, nn.ReLU(), nn.Linear(8, 2))
    tasks = {"a": (X, Y), "b": (X, 1 - Y)}
    here, there = (learner(module, weights="keep", exclude=["0", "1"]) for _ in range(2))
    here.learn_many(tasks, batches=2)
    there.learn_many(tasks, batches=2, engine="processes")
    for name in tasks:
        for key, value in here.context(name).tensors.items():
            assert torch.allclose(value, there.context(name).tensors[key], atol=1e-6), key


def test_attention_with_keys_of_another_width_is_reported_whole() -> None:
    net = neuromodulate(nn.MultiheadAttention(8, 2, kdim=4, vdim=6))
    assert "attention q, k, v" in str(net.crwn_report)
