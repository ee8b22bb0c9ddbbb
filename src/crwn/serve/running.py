"""Runs the service: opens a socket, runs uvicorn on it, and stops in order."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.app import make_app
from crwn.serve.limits import Limits


class Server(uvicorn.Server):
    """Uvicorn that cancels long jobs before it waits for open responses: event streams end with their jobs."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.service.begin_stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def make_server(
    learner: Learner,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    read_only: bool = False,
    limits: Limits | None = None,
) -> Server:
    """Builds a server that is ready to run.

    Raises:
        ConfigError: the token is too weak, or missing although other machines can reach the host.
    """
    limits = limits or Limits()
    Access(token, read_only).check_host(host)
    config = uvicorn.Config(
        make_app(learner, token=token, read_only=read_only, limits=limits),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        # The client's address is that of the connection: behind a proxy, a token is needed.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.grace_seconds) + 5,
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=4096,
    )
    return Server(config)


def open_socket(host: str, port: int) -> socket.socket:
    """Opens a listening socket; raises ConfigError with the reason where that is not possible."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}: choose another with --port") from None
    # Connections inherit it; without it the second packet of a response waits 40 ms for the first one's receipt.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(
    learner: Learner,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    ready: Callable[[str], None] = lambda _: None,
    **settings: Any,
) -> None:
    """Serves until SIGINT or SIGTERM; `ready` is called with the URL, `settings` are further ones of `make_server`."""
    server = make_server(learner, host=host, port=port, **settings)
    with open_socket(host, port) as listening:
        actual = listening.getsockname()[1]
        # Uvicorn stops in order on these signals and raises them again afterwards, which would kill the process.
        before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGINT, signal.SIGTERM)}
        ready(f"http://{f'[{host}]' if ':' in host else host}:{actual}/")
        try:
            server.run(sockets=[listening])
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
