"""Predicting and inferring tasks over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

import crwn
from crwn.contexts import Context
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from serving import Array, Running, mirrored, refusal, running, wait_until


def test_predicts_as_the_learner_does(client: crwn.Client, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    one = client.predict(x[:50], "upright", probabilities=True)
    assert one.labels == learner.predict(x[:50], "upright").tolist()
    wanted = np.asarray(learner.predict_proba(x[:50], "upright"))
    np.testing.assert_allclose(np.asarray(one.probabilities), wanted, atol=1e-5)
    names = ["upright", "mirrored"] * 5
    mixed = client.predict(x[:10], names)
    assert mixed.task == names
    assert mixed.labels == learner.predict(x[:10], names).tolist()
    inferred = client.predict(mirrored(x[:32]))
    assert inferred.task == "mirrored"
    many = client.predict(x[:500], "upright")
    assert many.labels == learner.predict(x[:500], "upright").tolist()


def test_images_and_bytes_are_shaped_and_scaled(client: crwn.Client, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    wanted = client.predict(x[:20], "upright").labels
    assert client.predict(x[:20].reshape(-1, 8, 8).astype(np.uint8), "upright").labels == wanted


def test_labels_that_are_tuples_are_lists(client: crwn.Client, http: httpx.Client, learner: Learner) -> None:
    kept = learner.context("upright")
    pairs = tuple(("digit", i) for i in range(10))
    learner.add(Context("pairs", kept.tensors, pairs, kept.model, info=dict(kept.info)))
    found = http.post("/v1/predict", json={"rows": [[0.0] * 64], "task": "pairs", "probabilities": True}).json()
    assert found["classes"] == client.task("pairs")["classes"] == [["digit", i] for i in range(10)]
    assert found["labels"][0] in found["classes"]


def test_infers_the_task_or_none(client: crwn.Client, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    found = client.infer_task(x[:32])
    assert [one["task"] for one in found.ranking] == ["upright", "mirrored"]
    assert found.none_of_these is False
    assert [one["task"] for one in client.infer_task(x[:32], top=1).ranking] == ["upright"]
    shuffled = x[:64, np.random.default_rng(0).permutation(64)]
    assert client.infer_task(shuffled).none_of_these is True


def test_a_service_without_tasks(client: crwn.Client) -> None:
    client.forget("upright")
    client.forget("mirrored")
    for infer in (client.predict, client.infer_task):
        with pytest.raises(RemoteError) as refused:
            infer(np.zeros((1, 64)))
        assert (refused.value.status, refused.value.code) == (404, "no_tasks")


BAD_BODIES: list[tuple[Any, int, str]] = [
    (b"", 422, "invalid_request"),
    (b"{", 422, "invalid_request"),
    (b"[" * 100_000, 422, "invalid_request"),
    (b'{"rows": [[1]]}', 422, "invalid_data"),
    (b'{"rows": []}', 422, "invalid_request"),
    (b'{"rows": [[NaN]], "task": "upright"}', 422, "invalid_data"),
    ({"rows": [[1e39] * 64], "task": "upright"}, 422, "invalid_data"),
    ({"rows": [[3e38] * 64], "task": "upright"}, 422, "invalid_data"),
    ({"rows": [["a"] * 64], "task": "upright"}, 422, "invalid_data"),
    ({"rows": [[1.0] * 64, [1.0]], "task": "upright"}, 422, "invalid_data"),
    ({"rows": [{"a": 1}], "task": "upright"}, 422, "invalid_data"),
    ({"rows": [[0.0] * 64], "task": 3}, 422, "invalid_request"),
    ({"rows": [[0.0] * 64], "task": "lost"}, 404, "unknown_task"),
    ({"rows": [[0.0] * 64], "task": "\x00"}, 404, "unknown_task"),
    ({"rows": [[0.0] * 64], "task": ["upright", "upright"]}, 422, "invalid_data"),
    ({"rows": [[0.0] * 64] * 2, "task": ["upright", "lost"]}, 404, "unknown_task"),
    ({"rows": [[0.0] * 64], "task": "upright", "more": 1}, 422, "invalid_request"),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD_BODIES)
def test_bad_bodies_are_errors(http: httpx.Client, body: Any, status: int, code: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = http.post("/v1/predict", content=data, headers={"Content-Type": "application/json"})
    assert refusal(response) == (status, code), response.text


def test_two_services_see_each_others_changes(learner: Learner, digits: tuple[Array, Array]) -> None:
    assert learner.folder is not None
    x = digits[0][:20]
    with (
        Learner.load(learner.folder) as second,
        running(learner) as one,
        running(second) as two,
        crwn.Client(one.address) as first,
        crwn.Client(two.address) as other,
    ):
        wanted = other.predict(x, "mirrored").labels
        assert other.predict(x, "upright").labels != wanted
        first.put_context(first.get_context("mirrored"), name="upright", replace=True)
        wait_until(lambda: other.predict(x, "upright").labels == wanted, "the other service has the new context")
        first.forget("upright")
        wait_until(lambda: unknown(two, x), "the other service has no such task")


def unknown(served: Running, x: Array) -> bool:
    response = httpx.post(f"{served.address}/v1/predict", json={"rows": x.tolist(), "task": "upright"})
    return response.status_code == 404 and refusal(response) == (404, "unknown_task")
