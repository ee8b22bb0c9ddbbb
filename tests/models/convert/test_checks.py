"""Modules as users write them: shared layers, lists of layers, hooks, state of their own, recurrent layers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from conversion import modulate
from crwn import Learner, NeuroModResNet, Recipe, neuromodulate
from crwn.errors import ConfigError, DataError, ModelError

X = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def learner(module: nn.Module, **settings: Any) -> Learner:
    return Learner(modulate(module, classes=2, seed=0, **settings))


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


class Shared(nn.Module):
    """One norm layer under two names."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner, self.head, self.one = nn.Linear(8, 8), nn.Linear(8, 2), kind(8)
        self.two = self.one

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.two(F.relu(self.inner(self.one(x)))))


class Listed(nn.Module):
    """Layers called through a list and a bound method instead of by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.steps: list[Any] = [self.a, {"b": (self.b,)}]
        self.last = self.head.forward

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.steps[1]["b"][0](F.relu(self.steps[0](x)))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.memory(x.view(-1, 2, 4))[0][:, -1])


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = plain()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x / 10 if x.abs().max() > 100 else x)


class Noisy(nn.Module):
    """Random numbers that no layer tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.body = plain()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(F.dropout(x, 0.2, self.training))


class Drifting(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = plain()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.body(x - self.mean)


class Fourier(nn.Module):
    """Random features in a buffer that a state dict leaves out."""

    directions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(8, 16), persistent=False)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x @ self.directions).cos())


def tied() -> nn.Module:
    module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    module[1].weight = module[0].weight
    return module


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (plain, {"learn": ["bias"]}),
        (plain, {"weights": "keep"}),
        (lambda: Shared(nn.LayerNorm), {"learn": ["norm"]}),
        (lambda: Shared(nn.BatchNorm1d), {}),
        (lambda: Shared(nn.BatchNorm1d), {"weights": "keep"}),
        (Listed, {}),
        (tied, {"exclude": ["0", "1"]}),
        (lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8)), nn.Linear(8, 2)), {"exclude": ["0"]}),
        (Recurrent, {}),
        (Branching, {}),
        (Noisy, {}),
        (Fourier, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_learns_alone_as_in_a_stack_and_stays_the_same(
    make: Callable[[], nn.Module], settings: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = make()
    one = learner(module, **settings)
    one.learn("a", X, Y, batches=4)
    first = one.predict_proba(X, task="a")
    one.learn("b", X, 1 - Y, batches=4)
    assert np.array_equal(one.predict_proba(X, task="a"), first)

    both = learner(module, **settings)
    both.learn_many({"a": (X, Y), "b": (X, 1 - Y)}, batches=4)
    np.testing.assert_allclose(both.predict_proba(X, task="b"), one.predict_proba(X, task="b"), atol=1e-5)

    mixed = one.predict_proba(X, task=["a", "b"] * 32)
    np.testing.assert_allclose(mixed[::2], first[::2], atol=1e-5)
    assert [score.task for score in one.infer_task(X)] != []
    with torch.no_grad():
        merged = one.merge("a")(torch.from_numpy(X)).softmax(1).numpy()
    np.testing.assert_allclose(merged, first, atol=1e-5)

    one.save(tmp_path / "m")
    torch.manual_seed(1)  # whatever the module draws when it is made, the folder has what it was
    again = modulate(make(), classes=2, seed=0, **settings)
    assert np.array_equal(Learner.load(tmp_path / "m", model=again).predict_proba(X, task="a"), first)


def test_every_layer_that_is_held_in_a_list_learns() -> None:
    net = modulate(Listed(), classes=2, seed=0)
    start = {name: value.detach().clone() for name, value in net.named_parameters() if value.requires_grad}
    found = Learner(net).learn("a", X, Y, batches=4).tensors
    assert all(not torch.equal(found[name], value) for name, value in start.items())
    with pytest.raises(ModelError, match="cannot be replaced"):
        neuromodulate(Listed(), seed=0, method="layers")


def test_hooks_of_a_layer_stay() -> None:
    module = plain()
    module[0].register_forward_hook(lambda layer, rows, out: out * 2)
    net = neuromodulate(module, seed=0, weights="keep")
    rows = torch.from_numpy(X)
    torch.testing.assert_close(net(rows), module(rows))


def test_the_file_of_a_class_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(Recurrent(), weights="keep")
    one.learn("a", X, Y, batches=2)
    one.save(tmp_path / "m")
    monkeypatch.setattr(Recurrent, "__module__", "elsewhere")
    again = modulate(Recurrent(), classes=2, seed=0, weights="keep")
    assert Learner.load(tmp_path / "m", model=again).tasks == one.tasks


def test_a_buffer_that_drifts_is_named() -> None:
    drifting = learner(Drifting())
    with pytest.raises(ModelError, match='changes its buffer "mean" while it learns'):
        drifting.learn("a", X, Y, batches=2)
    assert not drifting.model.get_buffer("mean").any()


class Answers(nn.Module):
    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.body, self.answer = plain(), answer

    def forward(self, x: Tensor) -> object:
        return self.answer(self.body(x))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Answers(lambda out: (out, 1)), "this one returns tuple: wrap it"),
        (Answers(lambda out: {"logits": out}), "this one returns dict: wrap it"),
        (Answers(lambda out: out[:, 0]), r"this one returns shape \(64,\)"),
        (Answers(lambda out: out[:, :1]), r"here \[64, 2\] or wider, this one returns shape \(64, 1\)"),
        (
            nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 2, 8), nn.Flatten()).double(),
            "the module computes in float64, rows and contexts are float32",
        ),
        (nn.Sequential(nn.Conv1d(3, 4, 1), nn.Flatten(), nn.Linear(32, 2)), r"rows of shape \(8,\) do not fit"),
    ],
)
def test_a_module_that_cannot_learn_says_why(module: nn.Module, message: str) -> None:
    with pytest.raises((ModelError, DataError), match=message):
        learner(module).learn("a", X, Y, batches=2)
    with pytest.raises((ModelError, DataError), match=message):
        learner(module).learn_many({"a": (X, Y), "b": (X, Y)}, batches=2)


def test_a_row_left_over_does_not_stop_batch_norm() -> None:
    net = learner(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    x, y = np.tile(X, (3, 1))[:129], np.tile(Y, 3)[:129]
    assert net.learn("a", x, y, epochs=1).name == "a"
    with pytest.raises(DataError, match="batch norm needs more than one row in a batch, got 1"):
        net.learn("b", x, y, recipe=Recipe(batch_size=1, batches=1))


def test_convolutions_travel_to_other_processes() -> None:
    def made() -> Learner:
        torch.manual_seed(0)
        return learner(
            nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.Flatten(), nn.Linear(24, 2)), weights="keep"
        )

    here, there = made(), made()
    tasks = {"a": (X, Y), "b": (X, 1 - Y)}
    here.learn_many(tasks, batches=3)
    there.learn_many(tasks, batches=3, engine="processes")
    for name in tasks:
        for key, value in here.context(name).tensors.items():
            torch.testing.assert_close(there.context(name).tensors[key], value)


def test_lazy_buffers_and_copies_that_fail_are_named() -> None:
    with pytest.raises(ModelError, match='layer "1" is lazy'):
        neuromodulate(nn.Sequential(nn.Linear(8, 2), nn.LazyBatchNorm1d(affine=False)))
    old = plain()
    first: Any = old[0]
    first.scale = first.weight * 2  # not a leaf, as torch's first weight_norm leaves it
    with pytest.raises(ModelError, match="the module cannot be copied: Only Tensors created explicitly"):
        neuromodulate(old)


def test_images_with_their_channels_last_are_turned() -> None:
    rng = np.random.default_rng(0)
    net = Learner(NeuroModResNet(2, 2, seed=0, input_shape=(3, 8, 12)))
    images, y = rng.normal(size=(16, 3, 8, 12)).astype(np.float32), np.arange(16) % 2
    net.learn("a", images, y, batches=2)
    expected = net.predict_proba(images, task="a")
    np.testing.assert_allclose(net.predict_proba(images.transpose(0, 2, 3, 1), task="a"), expected, atol=1e-6)
    with pytest.raises(DataError, match=r"images have shape \(12, 8, 3\), this model takes \(3, 8, 12\)"):
        net.predict(images.transpose(0, 3, 2, 1), task="a")
    with pytest.raises(ConfigError, match=r"input_shape must be channels, height and width, got \(8, 8\)"):
        NeuroModResNet(2, 2, seed=0, input_shape=cast(tuple[int, int, int], (8, 8)))


def test_one_name_or_type_needs_no_list() -> None:
    one = modulate(plain(), exclude="0", learn="bias").crwn_description
    assert one == modulate(plain(), exclude=["0"], learn=["bias"]).crwn_description | {"kept": one["kept"]}
    assert modulate(plain(), include=nn.Linear).crwn_description["modulated"] == ["0.weight", "2.weight"]
    with pytest.raises(ConfigError, match="include must be names or types of layers, got 0"):
        modulate(plain(), include=[0])
