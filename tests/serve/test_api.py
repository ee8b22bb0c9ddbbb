"""The service from outside: every address over real HTTP."""

from __future__ import annotations

import io
import json
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest
import torch

import crwn
from crwn.context import Context
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from crwn.serve.names import encoded
from serving import Array, Running, mirrored, running


def npy(x: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def code_of(answer: httpx.Response) -> str:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert "\n" not in body["error"]["message"]
    code: str = body["error"]["code"]
    return code


def test_health_model_and_metrics(service: Running) -> None:
    with httpx.Client(base_url=service.address) as http:
        assert http.get("/healthz").json()["tasks"] == 2
        model = http.get("/v1/model").json()
        assert (model["input_shape"], model["outputs"]) == ([64], 10)
        http.post("/v1/predict", json={"rows": [[0.0] * 64], "task": "upright"})
        text = http.get("/metrics").text
        assert 'crwn_requests_total{method="POST",route="/v1/predict",status="200"} 1.0' in text
        assert "crwn_tasks 2.0" in text
        assert "crwn_rows_total 1.0" in text


def test_predicts_as_the_learner_does(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    with crwn.Client(service.address) as client:
        one = client.predict(x[:50], "upright", probabilities=True)
        assert one.labels == learner.predict(x[:50], "upright").tolist()
        np.testing.assert_allclose(one.probabilities, learner.predict_proba(x[:50], "upright"), atol=1e-5)
        names = ["upright", "mirrored"] * 5
        mixed = client.predict(x[:10], names)
        assert mixed.task == names
        assert mixed.labels == learner.predict(x[:10], names).tolist()
        inferred = client.predict(mirrored(x[:32]))
        assert inferred.task == "mirrored"
        many = client.predict(x[:500], "upright")
        assert many.labels == learner.predict(x[:500], "upright").tolist()


def test_infers_the_task_and_says_none(service: Running, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    with crwn.Client(service.address) as client:
        found = client.infer_task(x[:32])
        assert [one["task"] for one in found.ranking] == ["upright", "mirrored"]
        assert found.none_of_these is False
        shuffled = x[:64, np.random.default_rng(0).permutation(64)]
        assert client.infer_task(shuffled).none_of_these is True


def test_lists_in_pages(service: Running, learner: Learner) -> None:
    context = learner.context("upright")
    for i in range(12):
        learner.add(Context(f"many/{i:02}", context.tensors, context.classes, context.model, info={"accuracy": 90 + i}))
    with httpx.Client(base_url=service.address) as http:
        first = http.get("/v1/tasks", params={"prefix": "many/", "limit": 5}).json()
        assert [task["name"] for task in first["tasks"]] == [f"many/{i:02}" for i in range(5)]
        assert first["tasks"][1]["accuracy"] == 91
        assert (first["next"], first["total"]) == ("many/04", 14)
        last = http.get("/v1/tasks", params={"prefix": "many/", "after": "many/09"}).json()
        assert [task["name"] for task in last["tasks"]] == ["many/10", "many/11"]
        assert last["next"] is None
    with crwn.Client(service.address) as client:
        assert len(list(client.tasks())) == 14
        assert client.task("many/03")["numbers"] == context.numbers


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
def test_any_name_travels(service: Running, learner: Learner, name: str) -> None:
    with crwn.Client(service.address) as client:
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
def test_names_that_are_refused(service: Running, name: str) -> None:
    # httpx would normalise dots away, so that the address is sent as it stands.
    import http.client

    connection = http.client.HTTPConnection(service.address.removeprefix("http://"))
    for method, path in (("GET", f"/v1/tasks/{name}"), ("DELETE", f"/v1/tasks/{name}")):
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == 422
        assert json.loads(answer.read())["error"]["code"] in ("invalid_name", "invalid_request")
    connection.close()


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
def test_bad_bodies_are_refused(service: Running, body: Any, status: int, code: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = httpx.post(f"{service.address}/v1/predict", content=data, headers={"Content-Type": "application/json"})
    assert (answer.status_code, code_of(answer)) == (status, code)


def test_arrays_are_never_unpickled(service: Running) -> None:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    headers = {"Content-Type": "application/x-npy"}
    answer = httpx.post(f"{service.address}/v1/predict?task=upright", content=file.getvalue(), headers=headers)
    assert (answer.status_code, code_of(answer)) == (422, "invalid_data")
    # A header that promises more than there is must not cost that much memory.
    huge = npy(np.zeros((1, 64))).replace(b"(1, 64)", b"(1, 9e9)".replace(b"9e9", b"64"))
    huge = huge[:10] + huge[10:128].replace(b"(1, 64), }", b"(9999999999999, 64), }")[:118] + huge[128:]
    answer = httpx.post(f"{service.address}/v1/predict?task=upright", content=huge, headers=headers)
    assert (answer.status_code, code_of(answer)) == (422, "invalid_data")


def test_unknown_addresses_and_kinds(service: Running) -> None:
    with httpx.Client(base_url=service.address) as http:
        assert code_of(http.get("/v2/nothing")) == "not_found"
        assert code_of(http.put("/v1/predict")) == "method_not_allowed"
        answer = http.post("/v1/predict", content=b"x", headers={"Content-Type": "application/x-pickle"})
        assert (answer.status_code, code_of(answer)) == (415, "unknown_content_type")
        assert code_of(http.get("/v1/tasks", params={"limit": 0})) == "invalid_request"
        assert code_of(http.get("/page/..%2Fapp.py")) == "not_found"


def test_uploads_are_checked_before_anything_is_stored(service: Running, learner: Learner) -> None:
    good = learner.context("upright").to_bytes()
    other = crwn.NeuroModNet(in_features=64, hidden=(128, 128), classes=10, seed=1)
    strange = Learner(other)
    x = np.random.default_rng(0).normal(size=(20, 64)).astype("float32")
    foreign = strange.learn("t", x, x[:, 0] > 0, batches=2, progress=False).to_bytes()
    kept = learner.context("upright")
    scaled = Context("s", kept.tensors, kept.classes, kept.model, info={"scaling": [0, 0]}).to_bytes()
    wordy = Context("s", kept.tensors, kept.classes, kept.model, info={"scaling": "no"}).to_bytes()
    crowded = Context("s", kept.tensors, tuple(range(11)), kept.model).to_bytes()
    headers = {"Content-Type": "application/vnd.safetensors"}
    damaged = good[:-5] + b"\x00\x00\x00\x00\x01"
    for data in (b"", b"x" * 100, good[:-1], damaged, foreign, scaled, wordy, crowded):
        answer = httpx.put(f"{service.address}/v1/tasks/new/context", content=data, headers=headers)
        assert (answer.status_code, code_of(answer)) == (422, "invalid_context")
    assert learner.tasks == ["mirrored", "upright"]


def test_requests_together_are_one_batch(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    names = ["upright", "mirrored"]
    wanted = {(i, name): learner.predict_proba(x[i : i + 1], name)[0] for i in range(40) for name in names}
    failures: list[str] = []

    def ask(number: int) -> None:
        with crwn.Client(service.address) as client:
            for i in range(number % 7, 40, 3):
                name = names[(i + number) % 2]
                if i % 10 == 9:
                    try:
                        client.predict(x[i : i + 1], "lost")
                        failures.append("a lost task was predicted")
                    except RemoteError as error:
                        if error.code != "unknown_task":
                            failures.append(str(error))
                got = client.predict(x[i : i + 1], name, probabilities=True).probabilities
                if got is None or np.abs(np.asarray(got[0]) - wanted[i, name]).max() > 1e-5:
                    failures.append(f"row {i} of {name} differs")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    metrics = httpx.get(f"{service.address}/metrics").text
    counts = {line.split(" ")[0]: float(line.split(" ")[1]) for line in metrics.splitlines() if line[0] != "#"}
    assert counts["crwn_batch_requests_sum"] > counts["crwn_batch_requests_count"], "no two requests shared a pass"


def test_two_services_see_each_other(learner: Learner, digits: tuple[Array, Array]) -> None:
    assert learner.folder is not None
    x, _ = digits
    with (
        Learner.load(learner.folder) as second,
        running(learner) as one,
        running(second) as two,
        crwn.Client(one.address) as first,
        crwn.Client(two.address) as other,
    ):
        before = other.predict(x[:20], "upright").labels
        swapped = first.get_context("mirrored")
        first.put_context(swapped, name="upright", replace=True)
        time.sleep(1.2)
        assert other.predict(x[:20], "upright").labels == other.predict(x[:20], "mirrored").labels != before
        first.forget("upright")
        time.sleep(1.2)
        with pytest.raises(RemoteError, match="not in the bank"):
            other.predict(x[:20], "upright")


def test_atlas(service: Running, learner: Learner) -> None:
    kept = learner.context("upright")
    generator = np.random.default_rng(0)
    for i in range(6):
        tensors = {
            key: value + 0.1 * torch.from_numpy(generator.normal(size=value.shape)).float()
            for key, value in kept.tensors.items()
        }
        learner.add(Context(f"near {i}", tensors, kept.classes, kept.model))
    atlas = httpx.get(f"{service.address}/v1/atlas").json()
    assert len(atlas["points"]) == atlas["total"] == 8
    assert 0 < atlas["explained"] <= 1
    assert all(-1 <= point["x"] <= 1 and -1 <= point["y"] <= 1 for point in atlas["points"])
    assert {len(httpx.get(f"{service.address}/v1/atlas", params={"limit": n}).json()["points"]) for n in (1, 2)} == {
        1,
        2,
    }


def test_openapi_has_examples(service: Running) -> None:
    described = httpx.get(f"{service.address}/openapi.json").json()
    body = described["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    assert "one task" in body["application/json"]["examples"]
    assert encoded("a/b") == "a%2Fb"
    for path in described["paths"].values():
        for operation in path.values():
            assert "HTTPValidationError" not in json.dumps(operation)
