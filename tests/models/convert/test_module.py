"""Any module, neuromodulated: learns, stacks, mixes rows, keeps or makes its weights, and names what it cannot do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize

from conversion import modulate
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, ModelError
from crwn.layers import context_names, context_tensors, learned_parameters
from crwn.learner import Learner
from crwn.models import fingerprint
from crwn.models.convert import kept_weights, load_kept_weights, neuromodulate
from crwn.models.functional import mixed_logits
from crwn.training import train
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


class Sentences(nn.Module):
    """A two-layer TransformerEncoder that classifies rows of word numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(self.words(x.long())).mean(dim=1))
        return out


class Pictures(nn.Module):
    """A small convolutional net with groups and batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.grouped = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.norm(self.grouped(self.stem(x)))).mean(dim=(2, 3)))
        return out


class Signals(nn.Module):
    """A sequence model without recurrence: dilated one-dimensional convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(2, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(16, 16, 3, padding="same", dilation=2),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, padding_mode="circular"),
        )
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.layers(x).amax(dim=2))
        return out


def rows_of(kind: type[nn.Module], task: int, count: int = 64) -> Rows:
    """Two classes that differ visibly, called the other way round by every other task."""
    generator = torch.Generator().manual_seed(task)
    y = torch.arange(count) % 2
    side = (y + task) % 2
    if kind is Sentences:
        x = torch.randint(0, 5, (count, 6), generator=generator) + 5 * side[:, None]
        return Rows(x.float(), y)
    if kind is Pictures:
        x = torch.randn(count, 3, 8, 8, generator=generator)
        x[:, 0] += 2.0 * side[:, None, None]
        return Rows(x, y)
    x = torch.randn(count, 2, 12, generator=generator) * 0.3
    x[:, 0] += torch.sin(torch.arange(12.0) * 1.5)[None] * (1 + 2.0 * side[:, None])
    return Rows(x, y)


RECIPE = Recipe(optimizer="adam", rate=0.05, batch_size=32, batches=150)
MODULES = (Sentences, Pictures, Signals)


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind()


@pytest.mark.parametrize("method", ["auto", "parametrize"])
@pytest.mark.parametrize("weights", ["random", "keep"])
@pytest.mark.parametrize("kind", MODULES)
def test_learns_two_tasks_and_mixed_rows_equal_task_by_task(kind: type[nn.Module], weights: str, method: str) -> None:
    model = neuromodulate(made(kind), seed=0, weights=weights, method=method)
    tasks = [PreparedTask(f"task-{k}", rows_of(kind, k), range(2)) for k in range(2)]
    learned = [train(model, [task], RECIPE, seed=0)[0] for task in tasks]
    for task, one in zip(tasks, learned, strict=True):
        assert set(one.tensors) == set(context_names(model))
        logits = predict_logits(model, one.tensors, task.rows)
        assert accuracy(logits, task.rows.labels(slice(None))) > 0.9
    owner = [0, 1, 1, 0, 1, 0, 0, 1]
    x = rows_of(kind, 7).inputs(slice(0, 8))
    gathered = {name: torch.stack([learned[k].tensors[name] for k in owner]) for name in learned[0].tensors}
    mixed = mixed_logits(model, gathered, x)
    model.eval()
    with torch.no_grad():
        apart = [functional_call(model, learned[k].tensors, (x[i : i + 1],)) for i, k in enumerate(owner)]
    torch.testing.assert_close(mixed, torch.cat(apart), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MODULES)
def test_a_stack_learns_what_each_task_learns_alone(kind: type[nn.Module]) -> None:
    model = neuromodulate(made(kind), seed=0).double()
    tasks = []
    for k in range(2):
        rows = rows_of(kind, k)
        tasks.append(PreparedTask(f"task-{k}", Rows(rows.x, rows.y, prepare=Tensor.double), range(2)))
    recipe = Recipe(optimizer="sgd", rate=0.01, batch_size=32, batches=5)
    for task, together in zip(tasks, train(model, tasks, recipe, seed=0), strict=True):
        (alone,) = train(model, [task], recipe, seed=0)
        for name, value in alone.tensors.items():
            torch.testing.assert_close(together.tensors[name], value, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("method", ["auto", "parametrize"])
def test_kept_weights_start_as_the_module_was_and_leave_it_alone(kind: type[nn.Module], method: str) -> None:
    module = made(kind).eval()
    before = copy.deepcopy(module.state_dict())
    x = rows_of(kind, 0).inputs(slice(0, 8))
    with torch.no_grad():
        converted = neuromodulate(module, weights="keep", method=method).eval()
        torch.testing.assert_close(converted(x), module(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("kind", MODULES)
def test_both_ways_to_modulate_compute_the_same(kind: type[nn.Module]) -> None:
    module = made(kind)
    x = rows_of(kind, 0).inputs(slice(0, 8))
    fast, generic = (neuromodulate(module, seed=4, method=method).eval() for method in ("auto", "parametrize"))
    assert learned_parameters(fast) == learned_parameters(generic)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), generic(x), rtol=1e-4, atol=1e-5)


def test_the_encoder_s_fast_path_is_modulated() -> None:
    model = neuromodulate(made(Sentences), seed=0)
    x = rows_of(Sentences, 0).inputs(slice(0, 8))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith(".v"):
                value.mul_(5.0)
        slow = model.train()(x)
        fast = model.eval()(x)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    changed = context_tensors(model)
    changed["encoder.layers.0.linear1.parametrizations.weight.0.v"] = torch.zeros(16)
    with torch.no_grad():
        assert not torch.allclose(functional_call(model, changed, (x,)), fast, atol=1e-4)


def test_random_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(0)
    one = neuromodulate(Sentences(), seed=1)
    other = neuromodulate(Sentences(), seed=1)
    assert fingerprint(one) == fingerprint(other) != fingerprint(neuromodulate(Sentences(), seed=2))
    assert kept_weights(one) == {}
    x = rows_of(Sentences, 0).inputs(slice(0, 4))
    assert torch.equal(one.eval()(x), other.eval()(x))


def test_kept_weights_are_stored_once_and_load_kept_weights() -> None:
    torch.manual_seed(0)
    one = neuromodulate(Pictures(), weights="keep")
    other = neuromodulate(Pictures(), weights="keep")
    assert fingerprint(one) != fingerprint(other)
    stored = {name: value.clone() for name, value in kept_weights(one).items()}
    assert stored.keys() == {name for name in Pictures().state_dict() if "tracked" not in name}
    load_kept_weights(other, stored)
    assert fingerprint(one) == fingerprint(other)
    x = rows_of(Pictures, 0).inputs(slice(0, 4))
    assert torch.equal(one.eval()(x), other.eval()(x))
    with pytest.raises(ModelError, match=r"head.weight has shape \(3, 16\), here \(2, 16\)"):
        load_kept_weights(other, stored | {"head.weight": torch.zeros(3, 16)})
    with pytest.raises(ModelError, match="which differs in extra"):
        load_kept_weights(other, stored | {"extra": torch.zeros(1)})


def test_what_is_learned_is_counted_and_reported() -> None:
    module = made(Pictures)
    plain = modulate(module)
    rows = {row.layer: row for row in plain.crwn_report.rows}
    assert (rows["grouped"].kind, rows["grouped"].frozen, rows["grouped"].learned) == (
        "Conv2d, 4 groups",
        16 * 2 * 9 + 16,
        2 * 9 + 1,
    )
    assert rows["norm"].note == "32 statistics kept with every task"
    assert plain.crwn_report.learned == learned_parameters(plain) == 27 + 1 + 18 + 1 + 16 + 1
    more = modulate(module, learn=("bias", "norm"))
    assert learned_parameters(more) - learned_parameters(plain) == (8 + 16 + 2) + 2 * (8 + 16)
    assert str(more.crwn_report).splitlines()[-1].split() == ["total", str(more.crwn_report.frozen), "138"]
    words = modulate(made(Sentences), learn=("embedding",))
    assert words.crwn_report.learned - modulate(made(Sentences)).crwn_report.learned == 11 * 16


def test_layers_are_chosen_by_name_and_type() -> None:
    module = made(Sentences)
    names = modulate(module, include=["encoder.*"]).crwn_description["modulated"]
    assert "encoder.layers.0.self_attn.in_proj_weight" in names
    assert "head.weight" not in names
    names = modulate(module, exclude=[nn.MultiheadAttention, "head"]).crwn_description["modulated"]
    assert names == [
        f"encoder.layers.{i}.{layer}.weight" for i in range(2) for layer in ("self_attn.out_proj", "linear1", "linear2")
    ]
    with pytest.raises(ConfigError, match='exclude names "hed", which fits no layer'):
        modulate(module, exclude=["hed"])


@pytest.mark.parametrize(("modulation", "ending"), [("local", "v"), ("global", "alpha")])
def test_half_of_the_modulation_alone(modulation: str, ending: str) -> None:
    model = neuromodulate(made(Signals), modulation=modulation)
    assert {name.rpartition(".")[2] for name in context_names(model)} == {ending}


def test_separate_attention_projections_are_modulated() -> None:
    model = neuromodulate(nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True))
    assert sorted(context_tensors(model)["parametrizations.k_proj_weight.0.v"].shape) == [6]
    assert learned_parameters(model) == (8 + 1) + (6 + 1) + (4 + 1) + (8 + 1)


def test_what_cannot_be_modulated_is_named() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.LSTM(4, 8)
            self.head = nn.Linear(8, 2)

    model = modulate(Recurrent())
    assert {row.layer: row.note for row in model.crwn_report.rows}["memory"] == "recurrent: frozen, not modulated"
    assert set(kept_weights(model)) == {f"memory.{name}" for name in nn.LSTM(4, 8).state_dict()}
    with pytest.raises(ModelError, match='layer "0" is lazy'):
        modulate(nn.Sequential(nn.LazyLinear(3)))
    tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    with pytest.raises(ModelError, match=r"0.weight and 2.weight are one tied weight"):
        modulate(tied)
    with pytest.raises(ModelError, match='weight of layer "0" is made from other tensors'):
        modulate(nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 3))))
    with pytest.raises(ModelError, match='layer "1" averages over all batches'):
        modulate(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, momentum=None)))
    with pytest.raises(ModelError, match="ReLU has no Linear, Conv1d, Conv2d or attention layer"):
        modulate(nn.ReLU())
    with pytest.raises(ModelError, match="is modulated already"):
        modulate(modulate(made(Signals)))
    with pytest.raises(ModelError, match='use method="auto"'):
        modulate(made(Sentences), method="layers")
    with pytest.raises(ConfigError, match='learn cannot be "gain": choose one of bias, norm, embedding'):
        modulate(made(Signals), learn=("gain",))


def test_a_replaced_layer_still_shows_its_weight() -> None:
    model = modulate(nn.Sequential(nn.Linear(3, 2)), method="layers")
    assert not parametrize.is_parametrized(model[0])
    x = torch.randn(5, 3)
    torch.testing.assert_close(model(x), nn.functional.linear(x, model[0].weight, model[0].bias))


@pytest.mark.parametrize("weights", ["random", "keep"])
@pytest.mark.parametrize("kind", [Sentences, Pictures])
def test_learner_saves_loads_and_predicts_the_same(kind: type[nn.Module], weights: str, tmp_path: Path) -> None:
    def converted() -> nn.Module:
        return cast(nn.Module, modulate(kind(), classes=2, weights=weights))

    learner = Learner(converted())
    for k in range(2):
        rows = rows_of(kind, k)
        # Rows say themselves how they become inputs: word numbers must not be scaled.
        learner.learn(f"task-{k}", rows, rows.y, recipe=RECIPE, progress=False)
    x = rows_of(kind, 5).x
    learner.save(tmp_path / "own.crwn")
    with Learner.load(tmp_path / "own.crwn", model=converted()) as again:
        assert (again.predict(x, task="task-1") == learner.predict(x, task="task-1")).all()
        mixed = ["task-0", "task-1"] * 32
        apart = [learner.predict(x, task=name) for name in ("task-0", "task-1")]
        assert [apart[i % 2][i] for i in range(64)] == again.predict(x, task=mixed).tolist()
    stored = tmp_path / "own.crwn" / "weights.safetensors"
    assert stored.exists() == (weights == "keep")
    if weights == "keep":
        stored.write_bytes(stored.read_bytes()[:-4] + b"abcd")
        with pytest.raises(ModelError, match="has other weights than"):
            Learner.load(tmp_path / "own.crwn", model=converted())


class Gated(nn.Module):
    """A module with parameters of its own that are called like ours."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 8)
        self.alpha = nn.Parameter(torch.randn(8))
        self.v = nn.Parameter(torch.randn(8))
        self.head = nn.Linear(8, 2)
        self.classes, self.input_shape = 2, (6,)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.inner(x) * self.alpha + self.v))
        return out


def test_parameters_called_like_ours_are_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    converted = neuromodulate(Gated(), weights="keep")
    assert {"alpha", "v"} <= set(kept_weights(converted))
    x = torch.randn(40, 6)
    with Learner(converted, bank=tmp_path / "gated.crwn") as learner:
        learner.learn("a", x, (x[:, 0] > 0).long(), batches=20, progress=False)
        before = learner.predict_proba(x, "a")
    torch.manual_seed(1)
    with Learner.load(tmp_path / "gated.crwn", model=neuromodulate(Gated(), weights="keep")) as again:
        assert (again.predict_proba(x, "a") == before).all()


class Dropped(nn.Module):
    """An encoder with torch's usual dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 2)
        self.classes, self.input_shape = 2, (4, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(x).mean(dim=1))
        return out


def test_dropout_comes_from_the_seed_alone_and_among_others() -> None:
    model = neuromodulate(made(Dropped), seed=0)
    x = torch.randn(48, 4, 8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0, 0] > 0).long()

    def taught(before: int) -> Tensor:
        torch.manual_seed(before)
        learner = Learner(model)
        learner.learn("a", x, y, batches=4, progress=False)
        return learner.logits(x, "a")[0]

    first = taught(1)
    assert torch.equal(taught(2), first)
    together = Learner(model)
    together.learn_many({"b": (x, y), "a": (x, y)}, batches=4, progress=False)
    assert torch.equal(together.logits(x, "a")[0], first)
    torch.manual_seed(5)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    Learner(model).learn("a", x, y, batches=1, progress=False)
    assert torch.equal(torch.rand(1), drawn)  # nobody else's random numbers are used up


def test_what_is_excluded_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    for name, value in module.named_parameters():
        if name.endswith("bias"):
            nn.init.uniform_(value, 1, 2)
    converted = neuromodulate(module, seed=0, exclude=["[34]"])
    for at in ("3", "4"):
        assert torch.equal(converted.get_parameter(f"{at}.bias"), module.get_parameter(f"{at}.bias")), at
    for at in ("0", "1", "2"):
        assert not converted.get_parameter(f"{at}.bias").any(), at
    assert {"3.bias", "4.bias", "4.weight"} <= set(kept_weights(converted))


def test_kept_double_weights_keep_their_precision() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(neuromodulate(module, weights="keep")(x), module(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("exclude", [["1"], [nn.BatchNorm1d]], ids=["name", "type"])
def test_a_normalisation_layer_can_be_excluded(exclude: list[str | type[nn.Module]]) -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        module.get_parameter("1.weight").fill_(3.0)
    assert float(modulate(module, seed=0)[1].weight.mean()) == 1.0
    converted = modulate(module, seed=0, exclude=exclude)
    assert float(converted[1].weight.mean()) == 3.0
    assert converted.crwn_description["modulated"] == ["0.weight", "3.weight"]
    with pytest.raises(ConfigError, match="fits no layer"):
        modulate(module, include=["1"])
