"""Streams over HTTP: predictions before learning, a bad row, a server that may not write."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import torch

from crwn.learner import Learner
from serving import Array, refusal


def test_a_stream_is_learned_row_by_row(http: httpx.Client, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    found: dict[str, Any] = {}
    right = []
    for at in range(0, 200, 20):
        body = {"rows": x[at : at + 20].tolist(), "labels": y[at : at + 20].tolist()}
        if at == 0:
            body["classes"] = list(range(10))
        response = http.post("/v1/tasks/stream/observe", json=body)
        assert response.status_code == 200, response.text
        found = response.json()
        right += [label == y[at + row] for row, label in enumerate(found["predictions"])]
    assert found["rows"] == 200
    assert len(found["predictions"]) == 20
    assert found["accuracy"] == pytest.approx(sum(right) / 200)
    assert sum(right[100:]) > sum(right[:100])  # it learns while it predicts
    learner.settle("stream")
    assert "stream" in learner.tasks
    whole = learner.learn(
        "whole", x[:200].astype("float32"), y[:200], method="exact", scaling=(0.0, 1.0), progress=False
    )
    for key, value in learner.context("stream").tensors.items():
        torch.testing.assert_close(value, whole.tensors[key], rtol=1e-3, atol=1e-3)


def test_bad_streams_are_refused(http: httpx.Client, digits: tuple[Array, Array]) -> None:
    x, y = digits
    row = {"rows": x[:1].tolist(), "labels": y[:1].tolist()}
    assert refusal(http.post("/v1/tasks/new/observe", json=row))[0] == 422
    strange = row | {"labels": ["cat"], "classes": list(range(10))}
    assert refusal(http.post("/v1/tasks/new/observe", json=strange))[0] == 422
    assert refusal(http.post("/v1/tasks/new/observe", json={"rows": []}))[0] == 422
    many = {"rows": x[:1].tolist() * 1001, "labels": y[:1].tolist() * 1001, "classes": list(range(10))}
    assert refusal(http.post("/v1/tasks/new/observe", json=many))[0] == 413
