"""BLAS has as many threads as torch while a closed form is computed."""

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.linalg
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from crwn.training.exact import Statistics, solve
from crwn.training.exact.blas import blas_threads


def threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with threadpool_limits(2, user_api="blas"):
        torch.set_num_threads(1)
        yield
    torch.set_num_threads(before)


def test_blas_follows_torch_and_is_as_before_afterwards() -> None:
    assert threads() == {2}
    with blas_threads():
        assert threads() == {1}
    assert threads() == {2}


def test_threads_that_overlap_share_the_limit() -> None:
    first, second = blas_threads(), blas_threads()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == {2}


def test_a_factor_is_computed_with_the_threads_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, cholesky = [], scipy.linalg.cholesky

    def spy(*args: object, **given: object) -> object:
        seen.append(threads())
        return cholesky(*args, **given)

    monkeypatch.setattr(scipy.linalg, "cholesky", spy)
    h = np.random.default_rng(0).normal(size=(50, 6))
    y = np.eye(2)[np.arange(50) % 2]
    counts = np.array([25, 25])
    found = Statistics("m", "", (0, 1), (0.0, 1.0), "float64", h.T @ h, h.T @ y, counts.astype(float), counts)
    solve(found, np.ones((2, 6)) * np.array([[1.0], [-1.0]]))
    assert seen
    assert set.union(*seen) == {1}
