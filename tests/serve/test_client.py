"""The Python client: errors of the service and of the connection are RemoteError."""

from __future__ import annotations

import socket
from collections.abc import Callable

import numpy as np
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.client import Learning, RemoteError
from serving import running

CALLS: dict[str, Callable[[crwn.Client], object]] = {
    "predict": lambda client: client.predict(np.zeros((1, 64)), "upright"),
    "tasks": lambda client: list(client.tasks()),
    "get_context": lambda client: client.get_context("upright"),
    "forget": lambda client: client.forget("upright"),
    "progress": lambda client: list(Learning(client, {"id": "none"})),
    "cancel": lambda client: Learning(client, {"id": "none"}).cancel(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_service_that_cannot_be_reached(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        crwn.Client(f"http://127.0.0.1:{port}") as client,
        pytest.raises(RemoteError, match="cannot be reached") as lost,
    ):
        CALLS[name](client)
    assert (lost.value.status, lost.value.code) == (0, "unreachable")


def test_the_token_is_sent(learner: Learner) -> None:
    with running(learner, token="a-long-token") as served:
        with crwn.Client(served.address) as client, pytest.raises(RemoteError) as refused:
            client.forget("upright")
        assert (refused.value.status, refused.value.code) == (401, "token_needed")
        with crwn.Client(served.address, token="a-long-token") as client:
            client.forget("upright")
    assert learner.tasks == ["mirrored"]


def test_errors_keep_their_status_and_code(client: crwn.Client) -> None:
    with pytest.raises(RemoteError) as unknown:
        list(Learning(client, {"id": "none"}))
    assert (unknown.value.status, unknown.value.code) == (404, "unknown_job")
    with pytest.raises(RemoteError, match="did you mean") as lost:
        client.task("uprigth")
    assert (lost.value.status, lost.value.code) == (404, "unknown_task")
