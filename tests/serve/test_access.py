"""Who may read and write: tokens, loopback, other web sites, read-only services."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.access import Access, read_token
from crwn.serve.app import make_app
from serving import refusal

TOKEN = "correct-horse-battery"
LOCAL = ("127.0.0.1", 5)
OUTSIDE = ("203.0.113.9", 5)
WRITES = pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/tasks/upright"),
        ("POST", "/v1/tasks/new/learn"),
        ("PUT", "/v1/tasks/new/context"),
        ("DELETE", "/v1/jobs/none"),
    ],
)


@WRITES
@pytest.mark.parametrize(
    "header", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer \xff"]
)
def test_writing_needs_the_token(learner: Learner, method: str, path: str, header: str | None) -> None:
    with TestClient(make_app(learner, token=TOKEN), client=LOCAL, base_url="http://127.0.0.1:8080") as http:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        response = http.request(method, path, headers=headers)  # type: ignore[arg-type]
        assert refusal(response) == (401, "token_needed")
        assert response.headers["www-authenticate"] == "Bearer"
        assert http.get("/v1/tasks").json()["total"] == 2


def test_the_right_token_writes_from_anywhere(learner: Learner) -> None:
    with TestClient(make_app(learner, token=TOKEN), client=OUTSIDE, base_url="http://example.org") as http:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert http.delete("/v1/tasks/upright", headers=headers).status_code == 204
        assert http.get("/v1/tasks", headers=headers).json()["total"] == 1


def test_the_host_is_checked_with_a_token_too(learner: Learner) -> None:
    """A web site whose DNS entry was changed to this machine reads nothing; addresses and allowed names may."""
    question = {"rows": [[0.0] * 64], "task": "upright"}
    with TestClient(make_app(learner, token=TOKEN, hosts=["Models.example.org"]), client=OUTSIDE) as http:
        for host in ("evil.example", "models.example.org.evil.example", "", "[::bad"):
            assert refusal(http.get("/v1/tasks", headers={"Host": host})) == (403, "wrong_host")
            assert refusal(http.post("/v1/predict", json=question, headers={"Host": host})) == (403, "wrong_host")
        for host in ("models.example.org:8080", "192.0.2.7:8080", "localhost", "[2001:db8::1]"):
            assert http.get("/v1/tasks", headers={"Host": host}).status_code == 200
            assert http.post("/v1/predict", json=question, headers={"Host": host}).status_code == 200
        wrong = {"Host": "evil.example", "Authorization": "Bearer guessed-guessed"}
        assert refusal(http.get("/v1/tasks", headers=wrong)) == (403, "wrong_host")


@pytest.mark.parametrize("token", [" " * 12, "with a space", "short", "tab\tbed-token", "ünïcödé-token", "a" * 7])
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="too weak"):
        Access(token).check_host("127.0.0.1")


def test_a_token_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    file.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        read_token(file)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_token(tmp_path / "none")


@WRITES
def test_without_a_token_only_this_machine_writes(learner: Learner, method: str, path: str) -> None:
    with TestClient(make_app(learner), client=OUTSIDE, base_url="http://127.0.0.1:8080") as http:
        assert refusal(http.request(method, path)) == (403, "not_loopback")
    with TestClient(make_app(learner), client=LOCAL, base_url="http://127.0.0.1:8080") as http:
        forwarded = {"X-Forwarded-For": "203.0.113.9"}
        assert refusal(http.request(method, path, headers=forwarded)) == (403, "not_loopback")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8080"):
            assert refusal(http.request(method, path, headers={"Origin": origin})) == (403, "cross_site")
        for site in ("cross-site", "same-site"):
            assert refusal(http.request(method, path, headers={"Sec-Fetch-Site": site})) == (403, "cross_site")
        own = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
        assert http.request(method, path, headers=own).status_code != 403
    assert "mirrored" in learner.tasks


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::bad"])
def test_host_names_of_other_machines_are_rejected(learner: Learner, host: str) -> None:
    with TestClient(make_app(learner), client=LOCAL) as http:
        for method, path in (("GET", "/v1/tasks"), ("DELETE", "/v1/tasks/upright")):
            assert refusal(http.request(method, path, headers={"Host": host})) == (403, "wrong_host")
        for own in ("localhost", "localhost:8080", "127.0.0.1", "[::1]:8080"):
            assert http.get("/v1/tasks", headers={"Host": own}).status_code == 200


@WRITES
def test_a_read_only_service_never_writes(learner: Learner, method: str, path: str) -> None:
    with TestClient(make_app(learner, read_only=True, token=TOKEN)) as http:
        response = http.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert refusal(response) == (403, "read_only")
    assert learner.tasks == ["mirrored", "upright"]


def test_no_cross_origin_requests_are_allowed(http: httpx.Client) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    response = http.options("/v1/tasks/upright", headers=headers)
    assert response.status_code == 405
    assert not [name for name in response.headers if name.startswith("access-control")]
