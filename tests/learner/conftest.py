"""Learners of permuted digits."""

from __future__ import annotations

import pytest

from crwn import Learner, NeuroModNet
from digit_rows import Data, permuted
from learners import network


@pytest.fixture
def learner() -> Learner:
    """A learner that has learned nothing."""
    return Learner(network())


@pytest.fixture(scope="session")
def taught(digits: Data) -> Learner:
    """Four tasks, learned well enough to tell them apart; tests only read from it."""
    made = Learner(NeuroModNet(64, (256,), 10, seed=0))
    made.learn_many({f"p{k}": permuted(digits, k, 1000) for k in range(4)}, batches=80, progress=False)
    return made
