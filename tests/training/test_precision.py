"""bfloat16: float32 contexts, nearly the same outputs and predictions, weights of the model untouched, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crwn import FlyNet, ImageFlyNet, Learner, NeuroModNet, neuromodulate
from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.methods.make import make_method
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.models import Network, NeuroModResNet, WhitenedResNet
from crwn.models.image_flynet import best_image_structure
from crwn.scenarios import make_scenario
from crwn.training import precision
from crwn.training.evaluation import predict_logits
from crwn.training.loop import train
from crwn.training.precision import check_precision, computing_in, convert_frozen, has_bf16, replica_to_train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

NETWORKS = {
    "gaussian": lambda: NeuroModNet(20, (64, 32), 3, seed=0),
    "hadamard": lambda: NeuroModNet(20, (64, 32), 3, seed=0, weights="hadamard", norm="layer"),
    "resnet": lambda: NeuroModResNet(width=4, classes=3, seed=0, input_shape=(3, 16, 16)),
    "resnet-best": lambda: WhitenedResNet(3, seed=0, input_shape=(3, 16, 16), filters=16, channels=8, last=16),
}


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda: True)  # torch computes in bfloat16 everywhere, only slower


@pytest.mark.parametrize("kind", NETWORKS)
def test_contexts_are_float32_and_close_to_those_of_float32(kind: str) -> None:
    model: Network = NETWORKS[kind]()
    random = torch.Generator().manual_seed(0)
    rows = Rows(torch.randn(40, *model.input_shape, generator=random), torch.arange(40) % 3)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    found = {}
    for chosen in ("float32", "bf16"):
        recipe = Recipe(optimizer="adam", rate=0.003, batches=4, batch_size=20, precision=chosen)
        (learned,) = train(model, [PreparedTask("a", rows, range(3))], recipe, seed=0)
        assert {value.dtype for value in learned.tensors.values()} == {torch.float32}
        found[chosen] = predict_logits(model, learned.tensors, rows)
    assert not torch.equal(found["bf16"], found["float32"])
    scale = float(found["float32"].abs().max())
    assert float((found["bf16"] - found["float32"]).abs().mean()) < 0.05 * scale
    for name, buffer in model.named_buffers():  # the model itself keeps its float32 weights
        assert torch.equal(buffer, before[name])


PREDICTED = NETWORKS | {
    "patches": lambda: NeuroModNet(64, (32, 32), 3, seed=0, weights="patches", norm="layer"),
    "flynet": lambda: FlyNet(20, 200, 3, seed=0),
    "image-flynet": lambda: ImageFlyNet((3, 16, 16), 3, seed=0, filters=32),
    "image-flynet-30k-best": lambda: ImageFlyNet((3, 16, 16), 3, seed=0, **best_image_structure("30k", 3)),
}


@pytest.mark.parametrize("kind", PREDICTED)
def test_a_learner_trains_and_predicts_in_bfloat16(kind: str) -> None:
    model: Network = PREDICTED[kind]()
    random = torch.Generator().manual_seed(0)
    x = torch.randn(24, *model.input_shape, generator=random)
    y = torch.arange(24) % 3
    low = Learner(model, precision="bf16")
    for name in "ab":
        low.learn(name, x, y, batches=2, progress=False)
    exact = Learner(model)  # the same contexts, predicted in float32
    for name in "ab":
        exact.add(low.context(name))
    for task in ("a", ["a", "b"] * 12):
        ours, theirs = low.logits(x, task)[0], exact.logits(x, task)[0]
        assert ours.dtype == torch.float32
        assert not torch.equal(ours, theirs)
        assert float((ours - theirs).abs().mean()) < 0.03 * float(theirs.abs().max())
    assert {one.task for one in low.infer_task(x)} == {"a", "b"}
    assert {value.dtype for value in low.context("a").tensors.values()} == {torch.float32}
    assert low.recipe(Recipe(precision="float32"), batches=1, epochs=None, rows=24).precision == "float32"


def test_stacked_tasks() -> None:
    model = NeuroModNet(20, (32,), 3, seed=0)
    rows = Rows(torch.randn(20, 20, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3)
    recipe = Recipe(batches=3, precision="bf16")
    learned = train(model, [PreparedTask(name, rows, range(3)) for name in "ab"], recipe, seed=0)
    assert all(bool(value.isfinite().all()) for one in learned for value in one.tensors.values())


def test_products_are_computed_in_bfloat16_and_weights_converted_once() -> None:
    model = NeuroModNet(20, (32,), 3, seed=0)
    convert_frozen(model, "bf16")
    assert model.layers[0].frozen.weight.dtype == torch.bfloat16  # type: ignore[union-attr]
    with computing_in("bf16"):
        assert model(torch.zeros(2, 20)).dtype == torch.bfloat16


def test_a_processor_without_it_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda: False)
    rows = Rows(torch.zeros(4, 20), torch.zeros(4, dtype=torch.long))
    with pytest.raises(ConfigError, match="needs a processor with AVX512_BF16 or AMX, this one has neither") as raised:
        train(NeuroModNet(20, (8,), 2, seed=0), [PreparedTask("a", rows, range(2))], Recipe(precision="bf16"), seed=0)
    assert "\n" not in str(raised.value)
    with pytest.raises(ConfigError, match="needs a processor with AVX512_BF16 or AMX"):
        Learner(NeuroModNet(20, (8,), 2, seed=0), precision="bf16")
    assert check_precision("float32") == "float32"


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match='unknown precision "fp8": choose one of float32, bf16'):
        Learner(NeuroModNet(20, (8,), 2, seed=0), precision="fp8")  # type: ignore[arg-type]


@pytest.mark.parametrize(("flags", "expected"), [("fpu avx512_bf16 sse", True), ("fpu avx512f avx512_bf16x", False)])
def test_the_processor_is_read_from_the_system(
    flags: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t: {flags}\n")
    monkeypatch.setattr(precision, "Path", lambda _: tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    has_bf16.cache_clear()
    try:
        assert has_bf16() is expected
    finally:
        has_bf16.cache_clear()


def test_alpha_is_exact_where_nothing_else_would_be_left_of_its_gradient() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = Rows(torch.randn(12, 3, 8, 8, generator=draw), torch.arange(12) % 2)
    model = NeuroModResNet(4, 2, seed=0, input_shape=(3, 8, 8))

    def alphas(**settings: Any) -> torch.Tensor:
        recipe = Recipe(optimizer="adam", rate=0.1, batches=2, batch_size=12, **settings)
        (learned,) = train(model, [PreparedTask("a", rows, range(2))], recipe, seed=0)
        return torch.stack([value for name, value in learned.tensors.items() if name.endswith("alpha")])

    bf16 = alphas(precision="bf16")
    assert torch.equal(bf16, alphas(precision="bf16", exact_alpha=True))
    assert not torch.equal(bf16, alphas(precision="bf16", exact_alpha=False))
    float32 = alphas()
    assert torch.equal(float32, alphas(exact_alpha=False))
    assert not torch.equal(float32, alphas(exact_alpha=True))
    assert not any(getattr(module, "exact_alpha", False) for module in model.modules())  # the model stays as it was


def test_weights_that_are_trained_stay_float32() -> None:
    scenario = make_scenario("rotated-digits", seed=0, tasks=2)
    settings = {"precision": "bf16", "pretrained": "true"}
    method, overrides = make_method("neuromodnet", scenario, size="256", seed=0, settings=settings)
    assert isinstance(method, NeuroModNetMethod)
    recipe = method.recipe(**overrides, batches=2, epochs=None)
    for task in scenario:
        method.learn([task], recipe)
    assert {value.dtype for task in scenario for value in method.context(task).values()} == {torch.float32}
    names = method.first_trains()
    assert names
    assert all(method.model.get_buffer(name).dtype == torch.float32 for name in names)


def test_a_converted_module_learns_in_bfloat16_and_refuses_exact_alpha() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
    rows = np.random.default_rng(0).normal(size=(60, 64)).astype("float32")
    learner = Learner(neuromodulate(module, seed=0), precision="bf16")
    learner.learn("t", rows, np.arange(60) % 3, batches=5, progress=False)
    assert all(bool(torch.isfinite(value).all()) for value in learner.context("t").tensors.values())
    with pytest.raises(ConfigError, match="exact_alpha=True has no effect"):
        replica_to_train(neuromodulate(module, seed=0), Recipe(exact_alpha=True))
