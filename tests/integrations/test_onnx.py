"""Files written for ONNX answer as the learner does, for every kind of network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import crwn
from crwn.errors import CRWNError, TaskError
from crwn.integrations.onnx import context_inputs, export_onnx
from crwn.models import NeuroModResNet
from digit_rows import Array, Data

NETWORKS: dict[str, Any] = {
    "gaussian": lambda: crwn.NeuroModNet(64, (96, 80), 10, seed=0),
    "hadamard": lambda: crwn.NeuroModNet(64, (100, 300), 10, seed=0, weights="hadamard"),
    "best": lambda: crwn.NeuroModNet(64, (96, 80), 10, seed=0, weights="patches", norm="layer"),
    "flynet": lambda: crwn.FlyNet(64, 640, 10, seed=0),
    "image-flynet": lambda: crwn.ImageFlyNet((3, 8, 8), 10, seed=0, filters=32, sides=(3, 5), mirror_predictions=True),
    "image-flynet-best": lambda: crwn.ImageFlyNet(
        (3, 8, 8), 10, seed=0, filters=32, sides=(3, 5), colours=4, spread=0.7, second=8, gains=3, symmetric=True
    ),
    "resnet": lambda: NeuroModResNet(width=4, classes=10, seed=0, input_shape=(3, 8, 8)),
    "resnet-best": lambda: crwn.WhitenedResNet(10, seed=0, input_shape=(3, 8, 8), filters=16, channels=8, last=16),
}


@pytest.fixture(scope="module", params=NETWORKS)
def taught(request: pytest.FixtureRequest, digits: Data) -> tuple[crwn.Learner, Array]:
    x, y = digits[0][:300].copy(), digits[1]
    if request.param.startswith(("resnet", "image")):
        x = np.repeat(x.reshape(-1, 1, 8, 8), 3, axis=1)
    learner = crwn.Learner(NETWORKS[request.param]())
    learner.learn("all", x, y[:300], batches=10, progress=False)
    learner.learn("odd", x, y[:300] % 2 == 1, batches=10, progress=False)
    return learner, x


def _logits(learner: crwn.Learner, task: str, x: Any) -> Any:
    with torch.no_grad():
        return learner.merge(task)(torch.from_numpy(x)).numpy()


def _close(answers: Any, expected: Any) -> None:
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-4 * max(1.0, float(np.abs(expected).max())))


def test_baked_context_answers_alike(taught: tuple[crwn.Learner, Any], tmp_path: Path) -> None:
    learner, x = taught
    facts = export_onnx(learner, "odd", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(facts["path"])
    for rows in (1, 3, 300):
        (answers,) = session.run(None, {"x": x[:rows]})
        assert answers.shape == (rows, 2)
        _close(answers, _logits(learner, "odd", x[:rows]))
    model = onnx.load(facts["path"])
    assert facts["opset"] == model.opset_import[0].version == 18
    assert facts["bytes"] == (tmp_path / "model.onnx").stat().st_size
    assert facts["classes"] == [False, True]
    assert facts["largest_difference"] < 1e-4
    assert list(facts["inputs"]) == ["x"]
    assert {entry.key: entry.value for entry in model.metadata_props}["crwn.task"] == "odd"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_context_as_input_serves_every_task(taught: tuple[crwn.Learner, Any], tmp_path: Path) -> None:
    learner, x = taught
    facts = export_onnx(learner, "all", tmp_path / "model.onnx", context_as_input=True)
    session = onnxruntime.InferenceSession(facts["path"])
    for task in ("all", "odd"):
        context = learner.context(task)
        (answers,) = session.run(None, {"x": x[:20], **context_inputs(context)})
        assert answers.shape == (20, 10)
        _close(answers[:, : len(context.classes)], _logits(learner, task, x[:20]))


def test_structure_is_kept_not_multiplied_out(tmp_path: Path) -> None:
    """Hadamard layers and the fly's encoder take kilobytes in the file where dense matrices would take megabytes."""
    x = np.random.default_rng(0).normal(size=(20, 784)).astype("float32")
    for network in (
        crwn.NeuroModNet(784, (1024, 1024), 10, seed=0, weights="hadamard"),
        crwn.FlyNet(784, 2000, 10, seed=0),
    ):
        learner = crwn.Learner(network)
        learner.learn("a", x, x[:, 0] > 0, batches=1, progress=False)
        assert export_onnx(learner, "a", tmp_path / "model.onnx")["bytes"] < 500_000


def test_network_of_ones_own(tmp_path: Path) -> None:
    own: Any = crwn.neuromodulate(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)), seed=0)
    own.classes, own.input_shape = 3, (6,)
    x = np.random.default_rng(0).normal(size=(30, 6)).astype("float32")
    learner = crwn.Learner(own)
    learner.learn("a", x, x.argmax(axis=1) % 3, batches=5, progress=False)
    facts = export_onnx(learner, "a", tmp_path / "own.onnx")
    (answers,) = onnxruntime.InferenceSession(facts["path"]).run(None, {"x": x})
    _close(answers, _logits(learner, "a", x))


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    learner = crwn.Learner(crwn.NeuroModNet(4, (8,), 2, seed=0))
    learner.learn("odd", np.eye(4), [0, 1, 0, 1], batches=1, progress=False)
    with pytest.raises(TaskError, match="nothing"):
        export_onnx(learner, "nothing", tmp_path / "model.onnx")
    with pytest.raises(CRWNError, match="cannot write"):
        export_onnx(learner, "odd", tmp_path / "no" / "model.onnx")


def test_missing_packages_are_named() -> None:
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "import crwn, crwn.integrations.onnx as o\n"
        "try: o.export_onnx(crwn.Learner(crwn.FlyNet(8, 16, 2, seed=0)), 'a', 'a.onnx')\n"
        "except crwn.CRWNError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ('exporting to ONNX needs packages that are not installed: pip install "crwn[onnx]"')


TABLE = np.random.default_rng(0).normal(50, 20, size=(200, 3)).astype("float32")


@pytest.mark.parametrize(
    "network", [crwn.NeuroModNet(3, (128,), 4, seed=0), crwn.FlyNet(3, 256, 4, seed=0)], ids=lambda one: one.kind
)
@pytest.mark.parametrize("kind", ["regression", "multilabel"])
def test_other_kinds_answer_as_the_learner_does(network: Any, kind: Any, tmp_path: Path) -> None:
    """Numbers in their units, and a logit per label: more than 0 where the learner predicts it."""
    learner = crwn.Learner(network)
    high = TABLE > 50
    y: Any = 1000 + 2.0 * TABLE[:, :2] if kind == "regression" else high[:, :2].astype(int)
    learner.learn("task", TABLE, y, kind=kind, batches=60, progress=False)
    facts = export_onnx(learner, "task", tmp_path / "model.onnx")
    (answers,) = onnxruntime.InferenceSession(facts["path"]).run(None, {"x": TABLE})
    stored = {one.key: one.value for one in onnx.load(facts["path"]).metadata_props}
    assert stored["crwn.kind"] == kind
    assert answers.shape == (200, 2)
    if kind == "regression":
        np.testing.assert_allclose(answers, learner.predict(TABLE, task="task"), rtol=1e-4)
        assert np.corrcoef(answers[:, 0], y[:, 0])[0, 1] > 0.95
    else:
        found = [tuple(name for name, on in zip(facts["classes"], row > 0, strict=True) if on) for row in answers]
        assert found == learner.predict(TABLE, task="task").tolist()
        assert ((answers > 0) == (y == 1)).mean() > 0.8


def test_a_context_as_input_is_refused_for_numbers_but_not_for_labels(tmp_path: Path) -> None:
    learner = crwn.Learner(crwn.NeuroModNet(3, (64,), 4, seed=0))
    learner.learn("price", TABLE, TABLE[:, 0], kind="regression", batches=5, progress=False)
    learner.learn("tags", TABLE, (TABLE[:, :2] > 50).astype(int), kind="multilabel", batches=5, progress=False)
    with pytest.raises(CRWNError, match='"price" is a regression'):
        export_onnx(learner, "price", tmp_path / "price.onnx", context_as_input=True)
    facts = export_onnx(learner, "tags", tmp_path / "tags.onnx", context_as_input=True)
    session = onnxruntime.InferenceSession(facts["path"])
    (answers,) = session.run(None, {"x": TABLE, **context_inputs(learner.context("tags"))})
    _close(answers[:, :2], _logits(learner, "tags", TABLE))
