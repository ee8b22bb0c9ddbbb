"""The closed form against the same least squares written out row by row."""

import numpy as np
import pytest
import torch
from torch import nn

import crwn
from crwn.data.dataset import Rows
from crwn.errors import CRWNError, DataError, ModelError
from crwn.layers import context_tensors
from crwn.training.exact import ExactSettings, Statistics, learn_exact, output_layer, solve
from crwn.training.exact.solve import NormalEquations
from crwn.training.task import PreparedTask

CLASSES = 4


def task(rows: int = 200, features: int = 12, *, weight: bool = False, classes: int = CLASSES) -> PreparedTask:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=generator)
    y = (x[:, :classes] + 0.3 * torch.randn(rows, classes, generator=generator)).argmax(dim=1)
    weights = torch.rand(rows, generator=generator) + 0.5 if weight else None
    return PreparedTask("t", Rows(x, y, weight=weights), tuple(range(classes)))


def written_out(model: nn.Module, given: PreparedTask, ridge: float) -> tuple[np.ndarray, float]:
    """The minimizer by `lstsq` on one equation for every row and output, and the cross-validation of that ridge."""
    layer = output_layer(model)
    h = layer.features(context_tensors(model), given.rows.inputs(slice(None))).double().numpy()
    weight = np.ones(len(h)) if given.rows.weight is None else given.rows.weight.double().numpy()
    frozen = layer.frozen[: given.classes]
    centred = frozen - frozen.mean(axis=0)
    wanted = np.eye(given.classes)[given.rows.labels(slice(None)).numpy()] - 1 / given.classes
    if layer.bias is not None:
        wanted = wanted - (layer.bias[: given.classes] - layer.bias[: given.classes].mean())
    root = np.sqrt(weight)[:, None]
    design = (root[:, :, None] * h[:, None, :] * centred[None]).reshape(-1, h.shape[1])
    target = (root * wanted).ravel()
    unit = np.trace(design.T @ design) / h.shape[1]
    stacked = np.vstack([design, np.sqrt(ridge * unit) * np.eye(h.shape[1])])
    gain = np.linalg.lstsq(stacked, np.concatenate([target, np.zeros(h.shape[1])]), rcond=None)[0]
    hat = np.trace(design @ np.linalg.solve(design.T @ design + ridge * unit * np.eye(h.shape[1]), design.T))
    equations = len(h) * (given.classes - 1)
    rest = ((design @ gain - target) ** 2).sum() / weight.sum() / (given.classes - 1)
    return gain, rest / (1 - hat / equations) ** 2


class Biased(nn.Module):
    """A small module with a bias in its output layer."""

    classes = CLASSES
    input_shape = (12,)

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 40)
        self.last = nn.Linear(40, CLASSES)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([0.3, -0.2, 0.1, 0.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(torch.relu(self.first(x)))
        return out


def models() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "flynet": crwn.FlyNet(12, 60, CLASSES, seed=0, inputs_per_node=3),
        "neuromodnet": crwn.NeuroModNet(12, (40, 30), CLASSES, seed=0),
        "converted": crwn.neuromodulate(Biased(), seed=0),
    }


@pytest.mark.parametrize("name", ["flynet", "neuromodnet", "converted"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_least_squares_written_out(name: str, weighted: bool) -> None:
    model, given = models()[name], task(weight=weighted)
    result = learn_exact(model, given, ExactSettings(ridge=1e-3))
    gain, validation = written_out(model, given, 1e-3)
    np.testing.assert_allclose(result.solution.gain, gain, rtol=1e-6, atol=1e-8)
    assert result.solution.gcv == pytest.approx(validation, rel=1e-6)


@pytest.mark.parametrize("rows", [60, 200])
def test_the_ridge_has_the_least_cross_validation(rows: int) -> None:
    model, given = models()["flynet"], task(rows=rows)
    chosen = learn_exact(model, given, ExactSettings()).solution
    tried = {10.0**power: written_out(model, given, 10.0**power)[1] for power in range(-6, 3)}
    best = min(tried, key=lambda ridge: tried[ridge])
    assert best / 10 < chosen.ridge < best * 10
    assert chosen.gcv <= tried[best] * (1 + 1e-6)


@pytest.mark.parametrize("modulation", ["both", "local", "global"])
def test_outputs_are_those_of_the_context(modulation: str) -> None:
    model = crwn.FlyNet(12, 60, CLASSES, seed=0, inputs_per_node=3, modulation=modulation)
    given = task()
    found = learn_exact(model, given, ExactSettings(ridge=1e-3))
    assert set(found.learned.tensors) == set(context_tensors(model))
    logits = model.forward_with(found.learned.tensors, given.rows.inputs(slice(None)))
    right = float((logits.argmax(dim=1) == given.rows.labels(slice(None))).float().mean())
    assert right > (0.2 if modulation == "global" else 0.6)  # one in four is right by chance
    if modulation != "global":  # local or both: the same outputs
        layer = output_layer(model)
        gain = layer.layer.gain_from(found.learned.tensors, "decoder").double().detach().numpy()
        np.testing.assert_allclose(gain, found.solution.gain * found.solution.sharpness, rtol=1e-5)


def test_the_normal_matrix_times_a_vector() -> None:
    model, given = models()["flynet"], task()
    result = learn_exact(model, given, ExactSettings(ridge=1.0))
    system = NormalEquations(result.statistics, output_layer(model).frozen)
    whole = np.tril(result.statistics.gram) + np.tril(result.statistics.gram, -1).T
    normal = (system.centred.T @ system.centred) * whole / system.unit
    x = np.random.default_rng(0).normal(size=60)
    np.testing.assert_allclose(system.times(x), normal @ x, rtol=1e-10)
    factor = np.tril(system.factor(0.5))
    np.testing.assert_allclose(factor @ factor.T, normal + 0.5 * np.eye(60), atol=1e-10)


def test_wide_factors_are_refined_to_double_precision() -> None:
    model = crwn.FlyNet(12, 2100, CLASSES, seed=0, inputs_per_node=3)
    result = learn_exact(model, task(), ExactSettings(ridge=1e-2))
    system = NormalEquations(result.statistics, output_layer(model).frozen)
    gain = result.solution.gain
    rest = system.right / system.unit - system.times(gain) - 1e-2 * gain
    assert np.abs(rest).max() < 1e-9 * np.abs(system.right / system.unit).max()


def test_balanced_class_weights_equal_weights_written_out() -> None:
    model, given = models()["flynet"], task()
    y = given.rows.labels(slice(None))
    counts = torch.bincount(y, minlength=CLASSES).float()
    weight = (len(y) / CLASSES / counts)[y]
    by_hand = PreparedTask("t", Rows(given.rows.x, y, weight=weight), given.labels)
    mine = learn_exact(model, given, ExactSettings(ridge=1e-3, class_weight="balanced")).solution.gain
    theirs = learn_exact(model, by_hand, ExactSettings(ridge=1e-3)).solution.gain
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
    by_class = {label: float(len(y) / CLASSES / counts[label]) for label in range(CLASSES)}
    again = learn_exact(model, given, ExactSettings(ridge=1e-3, class_weight=by_class)).solution.gain
    np.testing.assert_allclose(mine, again, rtol=1e-5, atol=1e-7)


def test_a_singular_system_is_one_clear_line() -> None:
    model = models()["flynet"]
    with pytest.raises(CRWNError, match="singular with ridge 0: give a larger ridge"):
        learn_exact(model, task(rows=5), ExactSettings(ridge=0.0))
    assert learn_exact(model, task(rows=5), ExactSettings()).solution.ridge > 0


def test_statistics_without_rows_or_features_are_refused() -> None:
    empty = Statistics.empty(60, tuple(range(CLASSES)), model="m")
    with pytest.raises(DataError, match="no rows"):
        solve(empty, np.ones((CLASSES, 60)))
    given = task()
    zeros = PreparedTask("t", Rows(torch.zeros(20, 12), given.rows.labels(slice(0, 20))), given.labels)
    model = crwn.FlyNet(12, 60, CLASSES, seed=0, inputs_per_node=3, constant=False)
    with pytest.raises(DataError, match="all features of these rows are zero"):
        learn_exact(model, zeros, ExactSettings())


def test_a_model_without_a_modulated_output_layer_is_refused() -> None:
    with pytest.raises(ModelError, match="no modulated linear layer"):
        output_layer(nn.Sequential(nn.Linear(3, 2)))

    class Scaled(Biased):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    with pytest.raises(ModelError, match="outputs of this model are not those of its layer"):
        learn_exact(crwn.neuromodulate(Scaled(), seed=0), task(), ExactSettings())


def test_one_class_alone_is_learned() -> None:
    given = task()
    one = PreparedTask("t", Rows(given.rows.x, torch.zeros(len(given.rows), dtype=torch.int64)), ("only",))
    found = learn_exact(models()["flynet"], one, ExactSettings())
    assert all(bool(torch.isfinite(value).all()) for value in found.learned.tensors.values())
