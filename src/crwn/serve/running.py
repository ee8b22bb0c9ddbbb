"""Running the service: a socket, uvicorn, and an orderly end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import uvicorn

from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.app import make_app
from crwn.serve.limits import Limits


class Server(uvicorn.Server):
    """Uvicorn, which also tells the service when the end begins, so that event streams do not hold it up."""

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
    log_level: str = "warning",
) -> Server:
    """A server ready to run; refused where others could reach it and there is no token."""
    limits = limits or Limits()
    Access(token, read_only).check_host(host)
    config = uvicorn.Config(
        make_app(learner, token=token, read_only=read_only, limits=limits),
        host=host,
        port=port,
        log_level=log_level,
        access_log=False,
        # Who asks is who connects: with a proxy in front, a token is needed.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.grace_seconds) + 5,
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=4096,
    )
    return Server(config)


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket, or one clear line why not."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}: choose another with --port") from None
    # Connections inherit it; without it an answer's second packet waits 40 ms for the first one's receipt.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(
    learner: Learner,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    read_only: bool = False,
    limits: Limits | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until interrupted; `ready` is told the address."""
    server = make_server(learner, host=host, port=port, token=token, read_only=read_only, limits=limits)
    with open_socket(host, port) as listening:
        actual = listening.getsockname()[1]
        # Uvicorn stops in order on these and raises them again when it is done: that is the end we want, not a failure.
        before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGINT, signal.SIGTERM)}
        ready(f"http://{f'[{host}]' if ':' in host else host}:{actual}/")
        try:
            server.run(sockets=[listening])
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
