"""Tasks over HTTP: pages of a list, any name in a URL, contexts downloaded and uploaded."""

from __future__ import annotations

import hashlib
import json
from http.client import HTTPConnection

import httpx
import numpy as np
import pytest

import crwn
from crwn.contexts import Context, stored_checksum
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from serving import Running, refusal


def forged(data: bytes, old: bytes, new: bytes) -> bytes:
    """A context's bytes with another value of the same length in the record, the checksum made right again."""
    assert (data.count(old), len(old)) == (1, len(new))
    blank = data.replace(old, new).replace(stored_checksum(data).encode(), b"0" * 64, 1)
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


def test_lists_in_pages(client: crwn.Client, http: httpx.Client, learner: Learner) -> None:
    context = learner.context("upright")
    for i in range(12):
        learner.add(Context(f"many/{i:02}", context.tensors, context.classes, context.model, info={"accuracy": 90 + i}))
    first = http.get("/v1/tasks", params={"prefix": "many/", "limit": 5}).json()
    assert [task["name"] for task in first["tasks"]] == [f"many/{i:02}" for i in range(5)]
    assert first["tasks"][1]["accuracy"] == 91
    assert (first["next"], first["total"]) == ("many/04", 14)
    last = http.get("/v1/tasks", params={"prefix": "many/", "after": "many/09"}).json()
    assert [task["name"] for task in last["tasks"]] == ["many/10", "many/11"]
    assert last["next"] is None
    assert len(list(client.tasks())) == 14
    task = client.task("many/03")
    learned = sum(tensor.numel() for tensor in context.tensors.values())
    assert task["parameters"] == task["numbers"] == learned


NAMES = [
    "a/b",
    "x/learn",
    "x/context",
    "a%2Fb",
    "naïve 東京 🦆",
    "?q=1&b#c",
    "../../etc/passwd",
    "semi;colon",
    "'; DROP--",
    "a+b",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_travels(client: crwn.Client, learner: Learner, name: str) -> None:
    context = client.get_context("upright")
    assert client.put_context(context, name=name) == 1
    assert client.task(name)["name"] == name
    assert client.get_context(name).classes == context.classes
    assert client.predict(np.zeros((1, 64)), name).task == name
    with pytest.raises(RemoteError) as refused:
        client.put_context(context, name=name)
    assert (refused.value.status, refused.value.code) == (409, "task_exists")
    assert client.put_context(context, name=name, replace=True) == 2
    client.forget(name)
    assert name not in learner.tasks
    with pytest.raises(RemoteError) as gone:
        client.task(name)
    assert (gone.value.status, gone.value.code) == (404, "unknown_task")


@pytest.mark.parametrize("name", ["%00", "%ff", "%0A", "%E2%80%AE", "a" * 300, "%2E%2E"])
def test_names_that_are_not_allowed(service: Running, name: str) -> None:
    # httpx would normalise the dots of a path.
    connection = HTTPConnection(service.address.removeprefix("http://"))
    for method, path in (("GET", f"/v1/tasks/{name}"), ("DELETE", f"/v1/tasks/{name}")):
        connection.request(method, path)
        response = connection.getresponse()
        assert response.status == 422
        assert json.loads(response.read())["error"]["code"] in ("invalid_name", "invalid_request")
    connection.close()


def test_uploads_are_checked_before_anything_is_stored(http: httpx.Client, learner: Learner) -> None:
    good = learner.context("upright").to_bytes()
    other = crwn.NeuroModNet(in_features=64, hidden=(128, 128), classes=10, seed=1)
    strange = Learner(other)
    x = np.random.default_rng(0).normal(size=(20, 64)).astype("float32")
    foreign = strange.learn("t", x, x[:, 0] > 0, batches=2, progress=False).to_bytes()
    kept = learner.context("upright")
    plain = Context("s", kept.tensors, kept.classes, kept.model, info={"scaling": [0, 2]}).to_bytes()
    scaled, wordy = forged(plain, b"[0,2]", b"[0,0]"), forged(plain, b"[0,2]", b'\\"0\\"')
    crowded = Context("s", kept.tensors, tuple(range(11)), kept.model).to_bytes()
    headers = {"Content-Type": "application/vnd.safetensors"}
    damaged = good[:-5] + b"\x00\x00\x00\x00\x01"
    for data in (b"", b"x" * 100, good[:-1], damaged, foreign, scaled, wordy, crowded):
        response = http.put("/v1/tasks/new/context", content=data, headers=headers)
        assert refusal(response) == (422, "invalid_context")
    assert learner.tasks == ["mirrored", "upright"]
