"""The Python client: errors of the service and of the connection are RemoteError."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.client import Learning, RemoteError
from serving import Array, running

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
        crwn.Client(f"http://127.0.0.1:{port}", retries=1) as client,
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


class Busy(BaseHTTPRequestHandler):
    """A service that refuses the first requests and then answers; what it was sent is kept on the server."""

    protocol_version = "HTTP/1.1"
    refusals: ClassVar[list[int]] = []
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Busy.asked.append(f"{self.path} {self.headers['Content-Type']}")
        status = Busy.refusals.pop(0) if Busy.refusals else 200
        found: dict[str, object] = {"labels": [7], "task": "a", "tasks": None, "probabilities": None, "id": "job"}
        data = json.dumps(found if status == 200 else {"error": {"code": "busy", "message": "busy"}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def busy() -> Iterator[str]:
    Busy.refusals, Busy.asked = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_busy_service_is_asked_again(busy: str) -> None:
    with crwn.Client(busy, retries=2) as client:
        Busy.refusals = [503, 429]
        assert client.predict(np.zeros((1, 64)), "a").labels == [7]
        assert Busy.asked == ["/v1/predict?probabilities=false&task=a application/octet-stream"] * 3
        Busy.refusals = [503] * 3
        with pytest.raises(RemoteError, match="busy"):
            client.predict(np.zeros((1, 64)), "a")
        # What writes is only sent again when nothing can have been done.
        Busy.asked, Busy.refusals = [], [429]
        client.learn("a", np.zeros((2, 64)), [0, 1])
        assert len(Busy.asked) == 2
        Busy.asked, Busy.refusals = [], [503]
        with pytest.raises(RemoteError, match="busy"):
            client.learn("a", np.zeros((2, 64)), [0, 1])
        assert len(Busy.asked) == 1


def test_the_asynchronous_client(learner: Learner, digits: tuple[Array, Array], busy: str) -> None:
    x = digits[0][:32]
    names = ["upright", "mirrored"] * 16

    async def ask(address: str) -> None:
        async with crwn.AsyncClient(address) as client:
            several = await asyncio.gather(*(client.predict(x[i : i + 1], "upright") for i in range(32)))
            assert [one.labels[0] for one in several] == learner.predict(x, "upright").tolist()
            mixed = await client.predict(x, names, probabilities=True)
            assert mixed.labels == learner.predict(x, names).tolist()
            assert (await client.infer_task(x, candidates=["mirrored"])).ranking[0]["task"] == "mirrored"
            assert [one["name"] async for one in client.tasks()] == ["mirrored", "upright"]
            assert (await client.task("upright"))["name"] == "upright"
            assert (await client.model())["tasks"] == 2
        Busy.refusals = [503]
        async with crwn.AsyncClient(busy) as client:
            assert (await client.predict(x, "a")).labels == [7]
        with pytest.raises(RemoteError, match="cannot be reached"):
            async with crwn.AsyncClient("http://127.0.0.1:9", retries=0) as client:
                await client.model()

    with running(learner) as served:
        asyncio.run(ask(served.address))


def test_both_clients_add_rows_and_classify(learner: Learner, digits: tuple[Array, Array], busy: str) -> None:
    x, y = digits[0].astype("float32"), digits[1]
    for name, chosen in (("low", y < 5), ("high", y >= 5)):
        learner.learn(name, x[chosen][:300], y[chosen][:300], method="exact", keep_statistics=True, progress=False)

    async def later(address: str) -> None:
        async with crwn.AsyncClient(address) as client:
            shared = await client.share("high", x[y >= 5][:300], y[y >= 5][:300])
            assert shared == {"tasks": ["low", "high"], "classes": 10}
            answers = await client.classify(x[600:700])
            assert np.mean([one.label == label for one, label in zip(answers, y[600:700], strict=True)]) > 0.8
            done = await client.extend("high", x[y == 1][:20], [np.int64(1)] * 20)
            assert (done["rows"], done["new_classes"]) == (20, [1])
        # Rows that are added twice count twice: nothing is sent again that may have been done.
        Busy.asked, Busy.refusals = [], [503]
        async with crwn.AsyncClient(busy) as client:
            with pytest.raises(RemoteError, match="busy"):
                await client.share("a", x[:2], [0, 1])
        assert len(Busy.asked) == 1

    with running(learner) as served, crwn.Client(served.address) as client:
        with pytest.raises(RemoteError) as nothing:
            client.classify(x[:2])
        assert nothing.value.status == 404
        assert client.share("low", x[y < 5][:300], y[y < 5][:300]) == {"tasks": ["low"], "classes": 5}
        assert {one.task for one in client.classify(x[:10])} == {"low"}
        done = client.extend("low", x[y == 7][:50], y[y == 7][:50])
        assert (done["new_classes"], done["classes"]) == ([7], [0, 1, 2, 3, 4, 7])
        with pytest.raises(RemoteError, match="labels") as short:
            client.extend("low", x[:2], [1])
        assert short.value.status == 422
        asyncio.run(later(served.address))
