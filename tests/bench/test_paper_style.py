"""The paper-style implementation computes and learns what ours does, so that comparing their speed is fair."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from crwn.bench.paper_style import PaperStyle, PaperStyleNet, TurnedImages
from crwn.data import load
from crwn.models import NeuroModNet
from crwn.scenarios import make_scenario


def _model() -> NeuroModNet:
    model = NeuroModNet(64, (24, 24), 10, seed=3)
    with torch.no_grad():
        for layer in model.layers:
            layer.alpha.fill_(0.7)
    return model


def test_the_same_outputs_and_gradients() -> None:
    model = _model()
    peer = PaperStyleNet(model)
    x, y = torch.randn(9, 64), torch.arange(9) % 10
    torch.testing.assert_close(peer(x), model(x))
    F.cross_entropy(peer(x), y).backward()
    F.cross_entropy(model(x), y).backward()
    for ours, theirs in zip(model.layers, peer.layers, strict=True):
        torch.testing.assert_close(theirs.v.grad.flatten(), ours.v.grad)
        torch.testing.assert_close(theirs.alpha.grad, ours.alpha.grad)


def test_the_same_images() -> None:
    images = load("digits")
    task = make_scenario("rotated-digits", tasks=4)[3]
    turned = TurnedImages(images.x_train, images.y_train, 30.0, images)
    theirs = torch.stack([turned[i][0] for i in range(20)])
    torch.testing.assert_close(theirs, task.train.inputs(slice(0, 20)))
    assert [turned[i][1] for i in range(20)] == task.train.labels(slice(0, 20)).tolist()


def test_a_task_is_extrapolated_from_measured_parts() -> None:
    peer = PaperStyle(_model(), load("digits"), angle=30.0, workers=0)
    before = [parameter.detach().clone() for parameter in peer.model.parameters()]
    short = peer.seconds_per_task(batches=2, of=10, test_batches=1)
    assert 0 < short < 60
    assert not all(torch.equal(a, b) for a, b in zip(before, peer.model.parameters(), strict=True))
