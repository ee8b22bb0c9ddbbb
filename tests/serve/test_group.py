"""Several processes of one service: who answers what, and requests that one passes on to another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve import group
from crwn.serve.group import CLIENT, SECRET, Group, add_up
from crwn.serve.running import open_socket
from serving import Array, Running, refusal, running

KEY = "the secret of the group"


def scope(method: str, path: str) -> dict[str, Any]:
    return {"method": method, "path": path, "headers": [(SECRET, KEY.encode())]}


def test_changes_and_jobs_belong_to_the_first_process() -> None:
    first, second = Group(0, (1, 2), KEY), Group(1, (1, 2), KEY)
    for method, path, answered in (
        ("GET", "/v1/tasks", True),
        ("GET", "/healthz", True),
        ("POST", "/v1/predict", True),
        ("POST", "/v1/infer-task", True),
        ("GET", "/v1/jobs/x", False),
        ("DELETE", "/v1/tasks/x", False),
        ("POST", "/v1/tasks/x/learn", False),
    ):
        assert first.answers(scope(method, path))
        assert second.answers(scope(method, path)) is answered
    assert first.is_from_member(scope("GET", "/"))
    assert not Group(0, (1, 2), "another").is_from_member(scope("GET", "/"))


def test_metrics_are_added_up() -> None:
    one = "# TYPE crwn_rows counter\ncrwn_rows_total 2.0\ncrwn_tasks 7.0\ncrwn_rows_created 5.0\n"
    two = '# TYPE crwn_rows counter\ncrwn_rows_total 3.0\ncrwn_tasks 6.0\ncrwn_x{a="b c"} 1.0\ncrwn_rows_created 4.0\n'
    lines = add_up([one, two]).decode().splitlines()
    expected = ["crwn_rows_total 5.0", "crwn_tasks 7.0", "crwn_rows_created 5.0", 'crwn_x{a="b c"} 1.0']
    assert lines == ["# TYPE crwn_rows counter", *expected]


@pytest.fixture
def pair(learner: Learner, tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """Two services over one bank that know each other; each is reached at its own address."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(open_socket("127.0.0.1", 0)) for _ in range(2)]
        ports = tuple(one.getsockname()[1] for one in sockets)
        other = stack.enter_context(Learner.load(tmp_path / "digits.crwn"))
        yield (
            stack.enter_context(running(learner, group=Group(0, ports, KEY), listening=sockets[0])),
            stack.enter_context(running(other, group=Group(1, ports, KEY), listening=sockets[1])),
        )


def test_a_task_learned_through_one_is_served_by_the_other(
    pair: tuple[Running, Running], digits: tuple[Array, Array]
) -> None:
    x, y = digits
    first, second = pair
    with crwn.Client(second.address) as client:
        client.learn("again", x[:100], y[:100], batches=30).wait()  # its events come through the first one
        assert client.predict(x[:2], task="again").task == "again"
        began = time.monotonic()
        while "again" not in [one["task"] for one in client.infer_task(x[:8]).ranking]:
            assert time.monotonic() - began < 1.0
    assert first.service.metrics.jobs.labels("done")._value.get() == 1
    with httpx.Client(base_url=second.address) as http:
        assert http.get("/v1/jobs/unknown").status_code == 404
        assert http.delete("/v1/tasks/a%2Fb").json()["error"]["message"].startswith('task "a/b"')
        assert http.delete("/v1/tasks/again").status_code == 204
        total = [line for line in http.get("/metrics").text.splitlines() if line.startswith("crwn_learning_jobs_total")]
        assert total == ['crwn_learning_jobs_total{state="done"} 1.0']


def test_nobody_else_can_pass_requests_on(pair: tuple[Running, Running]) -> None:
    _, second = pair
    forged = {SECRET.decode(): "a guess", CLIENT.decode(): "127.0.0.1", "Host": "evil.example"}
    with httpx.Client(base_url=second.address) as http:
        assert refusal(http.delete("/v1/tasks/upright", headers=forged)) == (403, "wrong_host")
        web = {"Origin": "http://evil.example"}
        assert refusal(http.delete("/v1/tasks/upright", headers=web)) == (403, "cross_site")


def test_without_the_first_process_changes_are_refused_and_predictions_go_on(
    pair: tuple[Running, Running], digits: tuple[Array, Array]
) -> None:
    first, second = pair
    first.stop()
    with httpx.Client(base_url=second.address, timeout=60) as http:
        assert refusal(http.delete("/v1/tasks/upright")) == (503, "busy")
        assert http.get("/metrics").status_code == 200
        response = http.post("/v1/predict", json={"rows": digits[0][:1].tolist(), "task": "upright"})
        assert response.status_code == 200


def test_a_process_that_hangs_keeps_nobody_waiting(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process takes connections and answers nothing, as one that was stopped does."""
    monkeypatch.setattr(group, "MEASURE_SECONDS", 0.5)
    monkeypatch.setitem(group.TIMES, "read", 0.5)
    with open_socket("127.0.0.1", 0) as silent, open_socket("127.0.0.1", 0) as own:
        ports = (silent.getsockname()[1], own.getsockname()[1])
        with (
            running(learner, group=Group(1, ports, KEY), listening=own) as served,
            httpx.Client(base_url=served.address, timeout=20) as http,
        ):
            assert "crwn_tasks 2.0" in http.get("/metrics").text
            assert refusal(http.delete("/v1/tasks/upright")) == (503, "busy")
            assert http.get("/v1/tasks/upright").status_code == 200
