"""The backbone method: raw pixels in the backbone's scaling, no task given, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from crwn.data import ImageSet
from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.scenarios import Scenario
from crwn.scenarios.rescale import rescaled, rescaled_rows
from crwn.scenarios.split import split

pytest.importorskip("efficientnet_lite_pytorch", reason="crwn[vision] is not installed")


def test_images_are_standardized_as_the_backbone_was_trained() -> None:
    x = torch.arange(4 * 3 * 16 * 16).reshape(4, 3, 16, 16).to(torch.uint8)
    labels = torch.tensor([0, 1, 0, 1])
    images = ImageSet("made", ("a", "b"), (3, 16, 16), x, labels, x, labels, (0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    (task,) = split(images, 2)
    mean, std = (100.0, 110.0, 120.0), (50.0, 60.0, 70.0)
    moved = rescaled(task, (mean, std))
    raw = torch.from_numpy(task.raw("train")[0][:3]).float()
    expected = (raw - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.allclose(moved.train.inputs(slice(0, 3)), expected)
    assert rescaled_rows(moved.train, moved.scaling) is moved.train
    assert moved.scaling == (mean, std)


def test_one_head_answers_without_a_task(stripes: Scenario) -> None:
    settings = {"image_size": "32", "head_units": "200", "mirror": "false"}
    method, _ = make_method("backbone", stripes, settings=settings)
    for task in stripes:
        method.learn([task], method.recipe())
    tasks = list(stripes)
    joint = method.joint_logits(tasks, tasks[0].test)
    assert joint is not None
    assert joint.shape == (len(tasks[0].test), sum(len(task.classes) for task in tasks))
    other = method.joint_logits(tasks[::-1], tasks[0].test)
    assert other is not None
    count = len(tasks[0].classes)
    assert torch.allclose(joint[:, :count], other[:, -count:])
    found = method.logits(tasks[0], tasks[0].test).argmax(dim=1)
    assert float((found == tasks[0].test.labels(slice(None))).double().mean()) > 0.6


def test_flat_rows_and_unknown_backbones_are_refused(rotated_digits: Scenario, stripes: Scenario) -> None:
    with pytest.raises(ConfigError, match="backbone takes images"):
        make_method("backbone", rotated_digits)
    with pytest.raises(ConfigError, match='unknown backbone "none"'):
        make_method("backbone", stripes, size="none")
