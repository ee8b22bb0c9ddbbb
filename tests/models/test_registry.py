"""A network as plain data: described, built again, told from another."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crwn import FlyNet, ImageFlyNet, NeuroModNet
from crwn.errors import ConfigError, ModelError
from crwn.layers import context_tensors
from crwn.models import MODELS, Network, NeuroModResNet, WhitenedResNet, build, describe, fingerprint

NETWORKS = [
    NeuroModNet(12, (16, 8), 4, seed=5, weights="hadamard", activation="gelu", start_scale=2.0),
    NeuroModNet(12, (), 4, seed=5, modulation="local"),
    FlyNet(12, 30, 4, seed=5, inputs_per_node=3, gamma=0.5, modulation="global"),
    ImageFlyNet((3, 12, 10), 3, seed=5, filters=16, sides=(4, 5), grid=2, threshold=0.5, root=True, mirror=False),
    NeuroModResNet(width=2, classes=3, seed=5),
    WhitenedResNet(3, seed=5, input_shape=(1, 12, 14), filters=8, sides=(3, 6), channels=4, last=6, head_scale=0.3),
]


@pytest.mark.parametrize("model", NETWORKS, ids=lambda model: model.kind)
def test_description_survives_json_and_builds_the_same_network(model: Network) -> None:
    again = build(json.loads(json.dumps(describe(model))))
    assert type(again) is type(model)
    assert again.config == model.config
    assert fingerprint(again) == fingerprint(model)
    for (name, one), (_, two) in zip(model.named_buffers(), again.named_buffers(), strict=True):
        assert torch.equal(one, two), name
    mine, theirs = context_tensors(model), context_tensors(again)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_descriptions_without_what_was_added_later_keep_their_fingerprint() -> None:
    model = ImageFlyNet((3, 12, 10), 3, seed=5, filters=16)
    record = describe(model)
    first = build({**record, "config": {key: value for key, value in record["config"].items() if key != "shift"}})
    assert "shift" not in describe(first)["config"]
    assert fingerprint(first) != fingerprint(model)
    assert fingerprint(build(describe(first))) == fingerprint(first)
    x = torch.rand(2, 3, 12, 10)
    assert torch.equal(first(x), model(x))


def test_all_kinds_are_known() -> None:
    elsewhere = {"backbone", "deep-backbone"}  # tests/models/backbones: test_network.py, test_deep.py
    assert {model.kind for model in NETWORKS} | elsewhere == set(MODELS)


def test_fingerprint_tells_seed_size_kind_and_options_apart() -> None:
    models = [
        NeuroModNet(12, (16,), 4, seed=0),
        NeuroModNet(12, (16,), 4, seed=1),
        NeuroModNet(12, (17,), 4, seed=0),
        NeuroModNet(12, (16,), 5, seed=0),
        NeuroModNet(12, (16,), 4, seed=0, weights="hadamard"),
        NeuroModNet(12, (16,), 4, seed=0, activation="gelu"),
        FlyNet(12, 16, 4, seed=0),
        FlyNet(12, 16, 4, seed=0, gamma=0.9),
    ]
    assert len({fingerprint(model) for model in models}) == len(models)


def test_fingerprint_is_pinned_and_not_changed_by_learning() -> None:
    model = NeuroModNet(12, (16,), 4, seed=0, constant=False)
    assert fingerprint(model)[:16] == "c5d9556daae44d17"
    assert fingerprint(FlyNet(12, 16, 4, seed=0, constant=False))[:16] == "8ae5cb6cea4aaf36"
    with torch.no_grad():
        model.get_parameter("layers.0.v").zero_()
    assert fingerprint(model)[:16] == "c5d9556daae44d17"


def test_a_description_without_the_constant_input_is_of_a_network_without_one() -> None:
    for model in (NeuroModNet(12, (16,), 4, seed=0), FlyNet(12, 16, 4, seed=0)):
        assert model.constant
        assert fingerprint(build(describe(model))) == fingerprint(model)
        before = {key: value for key, value in model.config.items() if key != "constant"}
        earlier = build({"kind": model.kind, "config": before})
        assert describe(earlier)["config"] == before
        assert fingerprint(earlier) == fingerprint(type(model)(**before, constant=False))


def test_sizes_may_be_numpys_numbers() -> None:
    counts: list[Any] = [np.int64(12), np.array([16]), np.array([0, 3]).max() + 1]
    seed: Any = np.int64(0)
    made = NeuroModNet(*counts, seed=seed)
    assert fingerprint(made) == fingerprint(NeuroModNet(12, (16,), 4, seed=0))
    sizes: list[Any] = [np.int64(12), np.int64(16), np.int64(4)]
    fly = FlyNet(*sizes, seed=seed, gamma=np.float64(1.0))
    assert fingerprint(fly) == fingerprint(FlyNet(12, 16, 4, seed=0))
    assert isinstance(made.classes, int)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kind": "mlp", "config": {}},
        {"kind": "neuromodnet", "config": []},
        {"kind": "neuromodnet", "config": {"in_features": 3}},
        {"kind": "neuromodnet", "config": {"in_features": 3, "hidden": [2], "classes": 2, "seed": 0, "depth": 9}},
    ],
)
def test_a_description_that_does_not_fit_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ModelError, match=r"unknown kind|does not fit"):
        build(wrong)
    with pytest.raises(ConfigError, match="at least 1"):
        build({"kind": "neuromodnet", "config": {"in_features": 0, "hidden": [2], "classes": 2, "seed": 0}})


def test_only_own_networks_are_described() -> None:
    with pytest.raises(ModelError, match="Linear is not one of crwn's networks"):
        describe(nn.Linear(2, 2))
    assert fingerprint(nn.Linear(2, 2)) != fingerprint(nn.ReLU())
