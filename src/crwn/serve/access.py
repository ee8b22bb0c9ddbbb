"""Who may do what: a bearer token for everything that writes; without one, only this machine, and no other web site."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from crwn.errors import ConfigError
from crwn.serve.errors import ServeError, response

SHORTEST_TOKEN = 8
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("localhost.evil.org")
    (True, True, False, False)
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """What is asked of those who write."""

    token: str | None = None
    read_only: bool = False

    def check_host(self, host: str) -> None:
        """Refuse to start open to others without a token."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise ConfigError(f"the token is too weak: use at least {SHORTEST_TOKEN} letters and digits")
        if self.token is None and not is_loopback(host):
            raise ConfigError(
                f"host {host} can be reached from other machines: give a token with --token or CRWN_TOKEN, "
                "or use --host 127.0.0.1"
            )

    def check_read(self, headers: Headers) -> None:
        """Without a token the service speaks only to names of this machine, or a web site could reach it by DNS."""
        if self.token is None and not is_loopback(_name_of(headers.get("host", ""))):
            raise ServeError(403, "wrong_host", "without a token this service answers only as localhost")

    def check_write(self, headers: Headers, client: str | None) -> None:
        if self.read_only:
            raise ServeError(403, "read_only", "this service only reads: start it without --read-only to write")
        if self.token is not None:
            self._check_token(headers.get("authorization", ""))
            return
        if client is None or not is_loopback(client) or any(name in headers for name in _FORWARDED):
            raise ServeError(403, "not_loopback", "without a token, writing is allowed only from this machine itself")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise ServeError(403, "cross_site", "another web site may not write here")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise ServeError(403, "cross_site", "another web site may not write here")

    def _check_token(self, authorization: str) -> None:
        kind, _, given = authorization.partition(" ")
        # Compared even when the kind is wrong, so that the time says nothing.
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), (self.token or "").encode())
        if not right or kind.lower() != "bearer":
            raise ServeError(
                401,
                "token_needed",
                "writing needs the header `Authorization: Bearer TOKEN` with the right token",
                {"WWW-Authenticate": "Bearer"},
            )


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class OwnHost:
    """Checks the Host header of every request."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self.access.check_read(Headers(scope=scope))
            except ServeError as error:
                await response(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def may_write(request: Request) -> None:
    """Dependency of every address that writes."""
    access: Access = request.app.state.service.access
    access.check_write(request.headers, request.client.host if request.client else None)


Writer = Annotated[None, Depends(may_write)]
