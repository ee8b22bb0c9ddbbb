"""The ASGI middlewares: headers, paths with encoded names, request metrics, unexpected errors."""

from __future__ import annotations

import logging

import httpx
import pytest
from fastapi.testclient import TestClient

import crwn
from crwn.learner import Learner
from crwn.serve.app import make_app
from serving import refusal


def test_every_response_has_security_headers(http: httpx.Client) -> None:
    for path in ("/", "/v1/tasks", "/v1/tasks/lost", "/nothing"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_an_encoded_slash_does_not_separate_path_segments(http: httpx.Client, client: crwn.Client) -> None:
    client.put_context(client.get_context("upright"), name="a/context")
    assert http.get("/v1/tasks/a%2Fcontext").json()["name"] == "a/context"
    assert refusal(http.get("/v1/tasks/a/context")) == (404, "unknown_task")


def test_requests_are_counted_by_route_not_by_path(http: httpx.Client) -> None:
    http.get("/v1/tasks/upright")
    http.get("/v1/tasks/a%2Fb")
    http.get("/no/such/path")
    text = http.get("/metrics").text
    for route, status in (("/v1/tasks/{name}", 200), ("/v1/tasks/{name}", 404), ("none", 404)):
        assert f'crwn_requests_total{{method="GET",route="{route}",status="{status}"}} 1.0' in text
    assert "upright" not in text
    assert "such" not in text


def test_unexpected_errors_are_logged_and_reveal_nothing(learner: Learner, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("the secret reason")

    app = make_app(learner)
    app.add_api_route("/fail", fail)
    with (
        caplog.at_level(logging.ERROR, logger="crwn.serve"),
        TestClient(app, base_url="http://localhost") as http,
    ):
        response = http.get("/fail")
        assert 'route="/fail",status="500"} 1.0' in http.get("/metrics").text
    assert refusal(response) == (500, "internal_error")
    assert "secret" not in response.text
    assert "the secret reason" in caplog.text
