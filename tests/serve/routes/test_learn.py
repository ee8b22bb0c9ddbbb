"""Learning over HTTP: uploads of every kind, progress, bad data, taken names."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.client import Learning, RemoteError
from serving import Array, refusal


def test_learns_with_progress(client: crwn.Client, digits: tuple[Array, Array]) -> None:
    x, y = digits
    flipped = x[:, ::-1]
    job = client.learn("upside/down", flipped, y, batches=80, validation=0.2)
    events = list(job)
    assert events[-1]["state"] == "done"
    assert events[-1]["step"] == events[-1]["steps"] == 80
    steps = [event["step"] for event in events]
    assert steps == sorted(steps)
    facts = client.task("upside/down")
    assert facts["accuracy"] > 60
    assert facts["info"]["rows"] == round(0.8 * len(x))
    assert client.predict(flipped[:64]).task == "upside/down"
    # A stream opened after the end has the final state.
    assert next(iter(job))["state"] == "done"
    assert job.wait() == facts


def test_the_same_as_learning_here(client: crwn.Client, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    client.learn("remote", x[:300], y[:300], batches=20).wait()
    sent = client.get_context("remote")
    with Learner(learner.model) as local:
        here = local.learn("remote", x[:300], y[:300], batches=20, progress=False)
    for key, value in here.tensors.items():
        np.testing.assert_allclose(sent.tensors[key].numpy(), value.numpy(), atol=1e-6)


def test_json_and_csv(client: crwn.Client, http: httpx.Client, digits: tuple[Array, Array]) -> None:
    x, y = digits
    words: list[Any] = ["odd" if label % 2 else None for label in y[:50].tolist()]
    client.learn("words", x[:50], words, batches=5).wait()
    assert set(client.task("words")["classes"]) == {"odd", None}
    lines = [",".join([f"p{i}" for i in range(64)] + ["label"])]
    for row, label in zip(x[:50], y[:50], strict=True):
        lines.append(",".join([*(f"{value:g}" for value in row), f"class {label}"]))
    response = http.post(
        "/v1/tasks/from%20csv/learn?batches=5",
        content="\n".join(lines).encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert response.status_code == 202
    facts = Learning(client, response.json()).wait()
    assert "class 0" in facts["classes"]
    assert (facts["info"]["batches"], facts["info"]["rows"]) == (5, 50)


def test_options_of_a_json_body_take_precedence(client: crwn.Client, http: httpx.Client) -> None:
    body = {"x": [[0] * 64] * 10, "y": [0, 1] * 5, "batches": 3}
    response = http.post("/v1/tasks/new/learn?batches=7&validation=0.2", json=body)
    facts = Learning(client, response.json()).wait()
    assert (facts["info"]["batches"], facts["info"]["rows"]) == (3, 8)


def scalar() -> bytes:
    """An `.npz` whose `x` is a single number."""
    file = io.BytesIO()
    np.savez(file, x=np.float32(1), y=np.zeros(1))
    return file.getvalue()


BAD: list[tuple[str, bytes, str, int, str]] = [
    ("application/json", b'{"x": [[1, 2]], "y": [1]}', "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1, 2]}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64] * 2, "y": [{}, 1]}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64] * 12, "y": list(range(12))}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1], "batches": 0}).encode(), "", 422, "invalid_request"),
    (
        "application/json",
        json.dumps({"x": [[0] * 64] * 2, "y": [0, 1], "batches": 10**9}).encode(),
        "",
        422,
        "invalid_option",
    ),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1], "resume": True}).encode(), "", 404, "unknown_task"),
    (
        "application/json",
        json.dumps({"x": [[0] * 64], "y": [1]}).encode(),
        "?batches=1&epochs=1",
        422,
        "invalid_option",
    ),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1]}).encode(), "?validation=0.5", 422, "invalid_data"),
    ("application/x-npz", b"PK\x03\x04 not a zip", "", 422, "invalid_data"),
    ("application/x-npz", b"", "", 422, "invalid_data"),
    ("text/csv", b"a,b\n1,2\n", "", 422, "invalid_data"),
    ("text/csv", b"a,label\n1,x\n", "", 422, "invalid_data"),
    ("text/csv", b"\xff\xfe\x00", "", 422, "invalid_data"),
    ("text/csv", b"", "", 422, "invalid_data"),
    ("application/x-npz", scalar(), "", 422, "invalid_data"),
    ("application/x-pickle", b"cos\nsystem\n", "", 415, "unknown_content_type"),
]


@pytest.mark.parametrize(("kind", "data", "query", "status", "code"), BAD)
def test_bad_data_never_start_a_job(
    http: httpx.Client, learner: Learner, kind: str, data: bytes, query: str, status: int, code: str
) -> None:
    response = http.post(f"/v1/tasks/new/learn{query}", content=data, headers={"Content-Type": kind})
    assert refusal(response) == (status, code)
    assert "crwn-upload" not in response.text
    assert learner.tasks == ["mirrored", "upright"]
    assert http.get("/healthz").json()["learning"] == 0


def test_names_that_exist(client: crwn.Client, digits: tuple[Array, Array]) -> None:
    x, y = digits
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({}, 409, "task_exists"),
        ({"replace": True, "resume": True}, 422, "invalid_option"),
    ]
    for options, status, code in cases:
        with pytest.raises(RemoteError) as refused:
            client.learn("upright", x, y, batches=5, **options)
        assert (refused.value.status, refused.value.code) == (status, code)
    client.learn("upright", x, y, batches=5, replace=True).wait()
    client.learn("upright", x, y, batches=5, resume=True).wait()
    assert client.task("upright")["version"] == 3
