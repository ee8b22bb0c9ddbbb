"""Generated requests: no traceback, no 500, only responses that the OpenAPI description promises.

CRWN_FUZZ multiplies the number of generated requests (1 by default, about 600; 100 takes a night), and
CRWN_FUZZ_RECORD names a file for the number of responses by status:

    CRWN_FUZZ=20 CRWN_FUZZ_RECORD=results/bench/requests.json pytest tests/serve/test_fuzz.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from crwn.experiments.environment import machine, versions
from crwn.learner import Learner
from crwn.serve.limits import Limits
from serving import Running, running

MORE = int(os.environ.get("CRWN_FUZZ", "1"))
SETTINGS = settings(
    max_examples=15 * MORE,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=MORE == 1,
    database=None,
)


@pytest.fixture(scope="module")
def target(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fuzzed") / "digits.crwn"
    shutil.copytree(taught, folder)
    limits = Limits(learn_seconds=0.2, jobs=3, streams=1000, body_seconds=5)
    with Learner.load(folder) as learner, running(learner, limits=limits) as served:
        yield served


@pytest.fixture(scope="module")
def fuzzed(target: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=target.address, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def described(target: Running) -> Any:
    return schemathesis.openapi.from_url(f"{target.address}/openapi.json")


@schemathesis.serializer("application/x-npy", "application/x-npz", "application/vnd.safetensors", "text/csv")
def as_bytes(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def test_responses_are_as_described(described: Any) -> None:
    """Requests generated from the description, for every endpoint, get a response that it promises."""
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) >= 14
    for operation in operations:

        @SETTINGS
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            response = case.call(timeout=120)
            promised = [content_type_conformance, response_schema_conformance, status_code_conformance]
            case.validate_response(response, checks=[not_a_server_error, *promised])
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"code", "message"}
                assert "Traceback" not in response.text

        send()


ENDPOINTS = st.sampled_from(
    [
        ("POST", "/v1/predict"),
        ("POST", "/v1/infer-task"),
        ("POST", "/v1/tasks/new/learn"),
        ("PUT", "/v1/tasks/new/context"),
    ]
)
KINDS = st.sampled_from(
    ["application/json", "application/x-npy", "application/x-npz", "text/csv", "application/vnd.safetensors", "x"]
)
NUMBERS = st.one_of(st.floats(width=32), st.integers(-(10**40), 10**40), st.booleans(), st.none())
JSON = st.recursive(NUMBERS | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4), max_leaves=12)
BODIES = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=100).map(lambda tail: b"\x93NUMPY\x01\x00" + tail),
    st.binary(max_size=100).map(lambda tail: b"PK\x03\x04" + tail),
    st.text(max_size=100).map(lambda text: ("label,a\n" + text).encode("utf-8", "replace")),
    st.fixed_dictionaries(
        {"rows": JSON}, optional={"task": JSON, "probabilities": JSON, "top": JSON, "x": JSON, "y": JSON}
    ).map(lambda value: json.dumps(value).encode()),
    st.tuples(st.lists(NUMBERS, min_size=64, max_size=64), st.text(max_size=8) | st.just("upright")).map(
        lambda pair: json.dumps({"rows": [pair[0]], "task": pair[1]}).encode()
    ),
    st.tuples(st.lists(NUMBERS, min_size=64, max_size=64), JSON).map(
        lambda pair: json.dumps({"x": [pair[0]] * 2, "y": [pair[1], 1], "batches": 2}).encode()
    ),
)


@settings(SETTINGS, max_examples=150 * MORE)
@given(endpoint=ENDPOINTS, kind=KINDS, body=BODIES)
def test_raw_bodies(fuzzed: httpx.Client, endpoint: tuple[str, str], kind: str, body: bytes) -> None:
    headers = {"Content-Type": kind}
    response = fuzzed.request(*endpoint, content=body, headers=headers)
    assert response.status_code < 500 or response.json()["error"]["code"] in ("busy", "timeout")
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"code", "message"}
    fuzzed.delete("/v1/tasks/new")


@settings(SETTINGS, max_examples=60 * MORE)
@given(name=st.text(min_size=1, max_size=30), method=st.sampled_from(["GET", "DELETE"]))
def test_raw_names(fuzzed: httpx.Client, name: str, method: str) -> None:
    if name in ("upright", "mirrored"):
        return
    response = fuzzed.request(method, f"/v1/tasks/{quote(name, safe='', errors='replace')}")
    assert response.status_code in (404, 422, 405, 200)
    assert response.status_code != 200 or name in (".", "..", "/"), "only a path without a name is another endpoint"


def test_still_whole(target: Running) -> None:
    """After all requests the service runs, and its tasks and bank are unharmed."""
    left = {task["name"] for task in httpx.get(f"{target.address}/v1/tasks", timeout=120).json()["tasks"]}
    assert left <= {"upright", "mirrored", "new"} or MORE > 1
    assert httpx.get(f"{target.address}/healthz", timeout=120).status_code == 200
    assert target.learner.bank.verify() == []
    if record := os.environ.get("CRWN_FUZZ_RECORD"):
        Path(record).write_text(json.dumps(counts(target.address), indent=2) + "\n")


def counts(address: str) -> dict[str, Any]:
    """The number of responses by status, from the service's metrics."""
    by_status: dict[str, int] = {}
    for line in httpx.get(f"{address}/metrics", timeout=120).text.splitlines():
        if found := re.match(r'crwn_requests_total\{.*status="(\d+)".*\} ([0-9.e+]+)$', line):
            by_status[found[1]] = by_status.get(found[1], 0) + int(float(found[2]))
    return {
        "requests": sum(by_status.values()),
        "answers_500": by_status.get("500", 0),
        "by_status": dict(sorted(by_status.items())),
        "command": f"CRWN_FUZZ={MORE} pytest tests/serve/test_fuzz.py",
        "machine": machine(torch.get_num_threads()),
        "versions": versions(),
    }
