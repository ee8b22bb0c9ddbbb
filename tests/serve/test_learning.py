"""Teaching over HTTP: uploads of every kind, progress, cancelling, limits, and stopping in the middle."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from crwn.serve.limits import Limits
from serving import Array, Running, mirrored, running


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_learns_with_progress(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    flipped = x[:, ::-1]
    with crwn.Client(service.address) as client:
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
        # Who asks late is told how it ended.
        assert next(iter(job))["state"] == "done"
        assert job.wait()["name"] == "upside/down"


def test_the_same_as_learning_here(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with crwn.Client(service.address) as client:
        client.learn("remote", x[:300], y[:300], batches=20).wait()
        sent = client.get_context("remote")
    with Learner(learner.model) as local:
        here = local.learn("remote", x[:300], y[:300], batches=20, progress=False)
    for key, value in here.tensors.items():
        np.testing.assert_allclose(sent.tensors[key].numpy(), value.numpy(), atol=1e-6)


def test_json_and_csv(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    words: list[Any] = ["odd" if label % 2 else None for label in y[:50].tolist()]
    with crwn.Client(service.address) as client:
        client.learn("words", x[:50], words, batches=5).wait()
        assert set(client.task("words")["classes"]) == {"odd", None}
        lines = [",".join([f"p{i}" for i in range(64)] + ["label"])]
        lines += [
            ",".join([*(f"{value:g}" for value in row), f"class {label}"])
            for row, label in zip(x[:50], y, strict=False)
        ]
        answer = httpx.post(
            f"{service.address}/v1/tasks/from%20csv/learn?batches=5",
            content="\n".join(lines).encode(),
            headers={"Content-Type": "text/csv"},
        )
        assert answer.status_code == 202
        wait_for(client, answer.json()["id"])
        assert "class 0" in client.task("from csv")["classes"]


def wait_for(client: crwn.Client, job: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        facts = client._json("GET", f"/v1/jobs/{job}")
        if facts["state"] in ("done", "failed", "cancelled"):
            return facts
        time.sleep(0.05)
    raise AssertionError("the job did not end")


BAD: list[tuple[str, bytes, str, int, str]] = [
    ("application/json", b'{"x": [[1, 2]], "y": [1]}', "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1, 2]}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64] * 2, "y": [{}, 1]}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64] * 12, "y": list(range(12))}).encode(), "", 422, "invalid_data"),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1], "batches": 0}).encode(), "", 422, "invalid_request"),
    ("application/json", json.dumps({"x": [[0] * 64], "y": [1], "batches": 10**9}).encode(), "", 422, "invalid_option"),
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
    ("application/x-pickle", b"cos\nsystem\n", "", 415, "unknown_content_type"),
]


@pytest.mark.parametrize(("kind", "data", "query", "status", "code"), BAD)
def test_bad_lessons_never_start(
    service: Running, learner: Learner, kind: str, data: bytes, query: str, status: int, code: str
) -> None:
    answer = httpx.post(f"{service.address}/v1/tasks/new/learn{query}", content=data, headers={"Content-Type": kind})
    assert code_of(answer) == (status, code)
    assert "crwn-upload" not in answer.text
    assert learner.tasks == ["mirrored", "upright"]
    assert httpx.get(f"{service.address}/healthz").json()["learning"] == 0


def test_taken_names(service: Running, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with crwn.Client(service.address) as client:
        with pytest.raises(RemoteError) as refused:
            client.learn("upright", x, y, batches=5)
        assert (refused.value.status, refused.value.code) == (409, "task_exists")
        client.learn("upright", x, y, batches=5, replace=True).wait()
        client.learn("upright", x, y, batches=5, resume=True).wait()
        assert client.task("upright")["version"] == 3


def test_cancel_and_too_many(learner: Learner, small_limits: Limits, digits: tuple[Array, Array]) -> None:
    x, y = digits
    rows = x[:200].astype(np.uint8)
    with running(learner, limits=small_limits) as served, crwn.Client(served.address) as client:
        first = client.learn("first", rows, y[:200], batches=100_000)
        second = client.learn("second", rows, y[:200], batches=100_000)
        with pytest.raises(RemoteError) as crowded:
            client.learn("third", rows, y[:200])
        assert (crowded.value.status, crowded.value.code) == (429, "too_many_jobs")
        for event in first:
            if event["step"] > 5:
                break
        with pytest.raises(RemoteError) as busy:
            client.put_context(client.get_context("upright"), name="first")
        assert (busy.value.status, busy.value.code) == (409, "being_learned")
        second.cancel()
        assert client._json("GET", f"/v1/jobs/{second.id}")["state"] == "cancelled"
        # Predictions go on while a task is learned.
        assert client.predict(x[:3], "upright").task == "upright"
        first.cancel()
        assert list(first)[-1]["state"] == "cancelled"
        with pytest.raises(RemoteError, match="cancelled on request"):
            first.wait()
        assert sorted(task["name"] for task in client.tasks()) == ["mirrored", "upright"]
        client.learn("third", rows, y[:200], batches=3).wait()


def test_learning_that_takes_too_long(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(learn_seconds=0.5)) as served, crwn.Client(served.address) as client:
        with pytest.raises(RemoteError) as ended:
            client.learn("slow", x, y, batches=100_000).wait()
        assert ended.value.code == "learning_failed"
        assert "ask for fewer batches" in str(ended.value)
    assert "slow" not in learner.tasks


def test_stopping_in_the_middle_of_learning(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    seen: list[dict[str, Any]] = []
    with running(learner, limits=Limits(grace_seconds=2.0)) as served:
        with crwn.Client(served.address) as client:
            long = client.learn("long", x, y, batches=100_000)
            waiting = client.learn("waiting", x, y, batches=100_000)

            def watch() -> None:
                seen.extend(long)

            watcher = threading.Thread(target=watch)
            watcher.start()
            while not any(event["step"] > 3 for event in seen):
                time.sleep(0.02)
            began = time.monotonic()
            served.stop()
            assert time.monotonic() - began < 10
            watcher.join(10)
        assert seen[-1]["state"] == "cancelled"
        assert "the service stopped" in seen[-1]["message"]
        assert waiting.id
    assert learner.tasks == ["mirrored", "upright"]


def test_learning_that_is_nearly_done_finishes(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(grace_seconds=60.0)) as served:
        with crwn.Client(served.address) as client:
            job = client.learn("quick", mirrored(x[:200]), y[:200], batches=300)
            for event in job:
                if event["step"] > 3:
                    break
        served.stop()
    assert "quick" in learner.tasks
