"""The constant input: thresholds are learned with it, by both networks, merged and one task per row."""

import numpy as np
import pytest
import torch

from crwn import Learner, NeuroModNet
from crwn.errors import ModelError
from crwn.learner.folder import check_description


def taught(constant: bool | None) -> tuple[Learner, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(20, 8, size=(400, 1)).astype("float32")
    learner = Learner(NeuroModNet(1, (64,), 2, seed=0, constant=constant))
    learner.learn("hot", x[:300], x[:300, 0] > 28, batches=150, progress=False)
    learner.learn("cold", x[:300], x[:300, 0] < 15, batches=150, progress=False)
    return learner, x[300:], x[300:, 0] > 28


def test_a_threshold_is_learned_only_with_the_constant_input() -> None:
    learner, x, hot = taught(constant=None)
    assert learner.score(x, hot, "hot") >= 0.97
    assert learner.context("hot").tensors["layers.0.v"].shape == (2,)
    without, x, hot = taught(constant=False)
    assert without.score(x, hot, "hot") < 0.9


def test_rows_of_mixed_tasks_and_a_merged_task_have_it_too() -> None:
    learner, x, _ = taught(constant=None)
    alone = [learner.logits(x, name)[0] for name in ("hot", "cold")]
    mixed, _, _ = learner.logits(np.repeat(x, 2, axis=0), ["hot", "cold"] * len(x))
    assert torch.allclose(mixed, torch.stack(alone, dim=1).flatten(0, 1), atol=1e-4)
    assert torch.allclose(learner.merge("hot")(torch.from_numpy(x)), alone[0], atol=1e-4)


def test_a_folder_of_an_earlier_version_names_what_differs(tmp_path: object) -> None:
    folder = f"{tmp_path}/m.crwn"
    Learner(NeuroModNet(3, (8,), 2, seed=0, constant=False), bank=folder).close()
    with Learner.load(folder) as learner:
        assert isinstance(learner.model, NeuroModNet)
        assert not learner.model.constant
        assert learner.folder is not None
        with pytest.raises(ModelError, match=r"no constant input.*make it with constant=False"):
            check_description(learner.folder, NeuroModNet(3, (8,), 2, seed=0))
