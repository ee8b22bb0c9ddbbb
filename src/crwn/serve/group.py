"""Several processes that serve one address together: which requests each answers, and which the first one answers.

Predictions, inferred tasks and reads of the bank are answered by the process that got them. Everything that changes
tasks goes on to the first process, and so do learning jobs, which live in its memory: limits on jobs, streams and
changes are those of one service. `/metrics` adds up all processes.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crwn.serve.errors import ServeError, error_response
from crwn.serve.middleware import HttpMiddleware

SECRET = b"x-crwn-secret"
CLIENT = b"x-crwn-client"
_OWN = frozenset({SECRET, CLIENT})
_OF_ONE_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"trailer"})
_ANYWHERE = ("/v1/predict", "/v1/infer-task")
_READS = ("GET", "HEAD", "OPTIONS")
CONNECT_SECONDS = 10.0
MEASURE_SECONDS = 5.0  # for another process to give its metrics
# A process may be stopped or hang. The longest silence of one that works is while it parses an upload.
TIMES: dict[str, float | None] = {"connect": CONNECT_SECONDS, "read": 300.0, "write": 60.0, "pool": CONNECT_SECONDS}


@dataclass(frozen=True)
class Group:
    """The processes of one service, as one of them knows them.

    Args:
        place: position of this process; the first one, 0, makes all changes.
        ports: loopback ports, on each of which one process alone listens.
        secret: what the processes recognize each other by.
    """

    place: int
    ports: tuple[int, ...]
    secret: str

    def answers(self, scope: Scope) -> bool:
        """Whether this process answers a request, instead of the first one."""
        path: str = scope["path"]
        if self.place == 0 or path in _ANYWHERE:
            return True
        return scope["method"] in _READS and not path.startswith("/v1/jobs")

    def is_from_member(self, scope: Scope) -> bool:
        given = next((value for key, value in scope["headers"] if key == SECRET), b"")
        return hmac.compare_digest(given, self.secret.encode())


class Grouped(HttpMiddleware):
    """Passes requests on to the process that answers them, and takes those that others pass on."""

    def __init__(self, app: ASGIApp, group: Group) -> None:
        super().__init__(app)
        self.group = group
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=5.0)
        self._others = httpx.AsyncHTTPTransport(limits=limits, retries=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":  # it lasts as long as the service
                await self._others.aclose()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.group.is_from_member(scope):
            client = dict(scope["headers"]).get(CLIENT, b"").decode("latin-1")
            kept = [(key, value) for key, value in scope["headers"] if key not in _OWN]
            await self.app({**scope, "headers": kept, "client": (client, 0) if client else None}, receive, send)
        elif scope["path"] == "/metrics" and scope["method"] == "GET":
            await self._measure(scope, receive, send)
        elif self.group.answers(scope):
            await self.app(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = asyncio.Event()
        try:
            response = await self._others.handle_async_request(self._request(0, scope, _body(receive, sent)))
        except (httpx.HTTPError, OSError):
            problem = ServeError.busy("the process that makes changes cannot be reached")
            await error_response(problem)(scope, receive, send)
            return
        headers = [(key.lower(), value) for key, value in response.headers.raw]
        headers = [(key, value) for key, value in headers if key not in _OF_ONE_CONNECTION]
        leaving = asyncio.create_task(_until_left(receive, sent))
        try:
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            parts = asyncio.create_task(_send_parts(response, send))
            await asyncio.wait((parts, leaving), return_when=asyncio.FIRST_COMPLETED)
            if parts.done():
                parts.result()
            else:
                parts.cancel()
        finally:
            leaving.cancel()
            await response.aclose()

    def _request(self, place: int, scope: Scope, content: AsyncIterator[bytes] | None = None) -> httpx.Request:
        client = scope["client"]
        kept = [(key, value) for key, value in scope["headers"] if key not in _OWN | {b"connection"}]
        own = [(SECRET, self.group.secret.encode()), (CLIENT, client[0].encode() if client else b"")]
        path = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            path = path.partition(b"?")[0] + b"?" + scope["query_string"]
        # `target` sends the path as it came: encoded task names must stay as they are.
        url = f"http://127.0.0.1:{self.group.ports[place]}/"
        return httpx.Request(
            scope["method"], url, headers=[*kept, *own], content=content, extensions={"target": path, "timeout": TIMES}
        )

    async def _measure(self, scope: Scope, receive: Receive, send: Send) -> None:
        texts = await asyncio.gather(*(self._metrics_of(place, scope) for place in range(len(self.group.ports))))
        if not any(texts):
            await self.app(scope, receive, send)
            return
        data = add_up([text for text in texts if text])
        headers = [(b"content-type", b"text/plain; version=0.0.4"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _metrics_of(self, place: int, scope: Scope) -> str:
        try:
            async with asyncio.timeout(MEASURE_SECONDS):
                response = await self._others.handle_async_request(self._request(place, scope))
                try:
                    text = (await response.aread()).decode()
                finally:
                    await response.aclose()
        except (httpx.HTTPError, OSError, TimeoutError):
            return ""
        return text if response.status_code == 200 else ""


async def _body(receive: Receive, sent: asyncio.Event) -> AsyncIterator[bytes]:
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise httpx.ReadError("the client left")
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            sent.set()
            return


async def _until_left(receive: Receive, sent: asyncio.Event) -> None:
    """Returns when the client closes the connection, once its body was read."""
    await sent.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_parts(response: httpx.Response, send: Send) -> None:
    async for part in response.aiter_raw():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def add_up(texts: list[str]) -> bytes:
    """The metrics of several processes as those of one, in Prometheus' text format; all have the same tasks.

    >>> add_up(["# TYPE a counter\\na 1.0\\ncrwn_tasks 2.0\\n", "# TYPE a counter\\na 3.0\\ncrwn_tasks 2.0\\n"])
    b'# TYPE a counter\\na 4.0\\ncrwn_tasks 2.0\\n'
    """
    found: dict[str, float | None] = {}  # lines without a value as they are
    for text in texts:
        for line in text.splitlines():
            if line.startswith("#"):
                found.setdefault(line, None)
                continue
            key, _, value = line.rpartition(" ")
            before = found.get(key) or 0.0
            latest = key == "crwn_tasks" or key.partition("{")[0].endswith("_created")
            found[key] = max(before, float(value)) if latest else before + float(value)
    lines = [key if value is None else f"{key} {orjson.dumps(value).decode()}" for key, value in found.items()]
    return ("\n".join(lines) + "\n").encode()
