"""Health, metrics, the model, the atlas, and the OpenAPI description."""

from __future__ import annotations

import json

import httpx
import numpy as np
import torch

from crwn.contexts import Context
from crwn.learner import Learner
from serving import Running


def test_health_model_and_metrics(http: httpx.Client, learner: Learner) -> None:
    assert http.get("/healthz").json()["tasks"] == 2
    model = http.get("/v1/model").json()
    assert (model["input_shape"], model["outputs"]) == ([64], 10)
    context = learner.context("upright")
    learned = sum(tensor.numel() for tensor in context.tensors.values())
    assert model["params_per_task"] == model["numbers_per_task"] == learned
    http.post("/v1/predict", json={"rows": [[0.0] * 64], "task": "upright"})
    text = http.get("/metrics").text
    assert 'crwn_requests_total{method="POST",route="/v1/predict",status="200"} 1.0' in text
    assert "crwn_tasks 2.0" in text
    assert "crwn_rows_total 1.0" in text


def test_atlas(http: httpx.Client, learner: Learner) -> None:
    kept = learner.context("upright")
    generator = np.random.default_rng(0)
    for i in range(6):
        tensors = {
            key: value + 0.1 * torch.from_numpy(generator.normal(size=value.shape)).float()
            for key, value in kept.tensors.items()
        }
        learner.add(Context(f"near {i}", tensors, kept.classes, kept.model))
    atlas = http.get("/v1/atlas").json()
    assert len(atlas["points"]) == atlas["total"] == 8
    assert 0 < atlas["explained"] <= 1
    assert all(-1 <= point["x"] <= 1 and -1 <= point["y"] <= 1 for point in atlas["points"])
    at = {point["task"]: np.array([point["x"], point["y"]]) for point in atlas["points"]}
    near = max(np.linalg.norm(at[f"near {i}"] - at["upright"]) for i in range(6))
    assert near < np.linalg.norm(at["mirrored"] - at["upright"])
    for limit in (1, 2):
        assert len(http.get("/v1/atlas", params={"limit": limit}).json()["points"]) == limit


def test_openapi_has_examples(service: Running, http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()
    body = described["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    assert "one task" in body["application/json"]["examples"]
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    assert len(operations) >= 14
    for operation in operations:
        assert "HTTPValidationError" not in json.dumps(operation)
        assert operation["description"]
