"""Runs the service: opens a socket, runs uvicorn on it, and stops in order."""

from __future__ import annotations

import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn

from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.app import make_app
from crwn.serve.connections import bounded_protocol
from crwn.serve.group import Group
from crwn.serve.limits import Limits
from crwn.serve.logs import limit_logs

# Seconds until a thread that computes lets another one run. The thread of the model asks for Python's lock after every
# operation: with Python's default of 5 ms it would wait longer for the thread of the requests than it computes.
SWITCH_SECONDS = 0.0005
SPARE_FILES = 128  # of the bank, the parser and the libraries
FEWEST = 64  # connections that a service is worth starting for


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
    hosts: Iterable[str] = (),
    group: Group | None = None,
) -> Server:
    """Builds a server that is ready to run; `hosts` are further host names that requests may use.

    `group` has the other processes that serve the same address.

    Raises:
        ConfigError: the token is too weak, or missing although other machines can reach the host.
    """
    limits = limits or Limits()
    Access(token, read_only).check_host(host)
    limit_logs()
    named = [*hosts, host, socket.gethostname()]
    config = uvicorn.Config(
        make_app(learner, token=token, read_only=read_only, limits=limits, hosts=named, group=group),
        host=host,
        port=port,
        http=bounded_protocol(limits),
        ws="none",
        log_level="warning",
        access_log=False,
        # The client's address is that of the connection: behind a proxy, a token is needed.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(limits.idle_seconds) + 1,  # connections are closed before, by `connections`
        timeout_graceful_shutdown=int(limits.grace_seconds) + 5,
        h11_max_incomplete_event_size=limits.head_bytes,
        limit_concurrency=limits.connections + SPARE_FILES,
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


def address_of(host: str, listening: socket.socket) -> str:
    """The URL of what is served on a socket of this host."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"


def within_open_files(limits: Limits) -> Limits:
    """The limits with as many connections as this process may have open; raises the system's soft limit where it can.

    Raises:
        ConfigError: not even `FEWEST` connections are left.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + SPARE_FILES
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return limits
    if hard == resource.RLIM_INFINITY or hard >= needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return limits
    left = hard - SPARE_FILES
    if left < FEWEST:
        raise ConfigError(
            f"{FEWEST} connections need {FEWEST + SPARE_FILES} open files, the limit is {hard}: raise `ulimit -n`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    warnings.warn(
        f"at most {left} connections at once instead of {limits.connections}: the limit of open files is {hard} "
        "(`ulimit -n`)",
        stacklevel=3,
    )
    return limits.with_connections(left)


def serve(
    learner: Learner,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    ready: Callable[[str], None] = lambda _: None,
    listening: socket.socket | None = None,
    private: socket.socket | None = None,
    **settings: Any,
) -> None:
    """Serves until SIGINT or SIGTERM; `ready` is called with the URL, `settings` are further ones of `make_server`.

    `listening` is an open socket to serve on, instead of a new one; `private` is one for the other workers of a group.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    settings["limits"] = within_open_files(settings.get("limits") or Limits())
    server = make_server(learner, host=host, port=port, **settings)

    def stop(*_: object) -> None:
        server.should_exit = True

    # From here on a signal stops the service in order, also while it starts. Uvicorn raises the signals that it got
    # again afterwards, which would kill the process.
    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        with listening or open_socket(host, port) as opened:
            ready(address_of(host, opened))
            server.run(sockets=[opened] if private is None else [opened, private])
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
