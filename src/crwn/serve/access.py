"""Access rules: writing needs a bearer token; without a token, only this machine and no other web site may write."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers

from crwn.errors import ConfigError
from crwn.serve.errors import ServeError

SHORTEST_TOKEN = 8
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def is_loopback(host: str) -> bool:
    """Whether this host name or address means this machine itself.

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
    """Which requests may read and which may write."""

    token: str | None = None
    read_only: bool = False

    def check_host(self, host: str) -> None:
        """Raises ConfigError for a weak token, and for a host that other machines can reach without any token."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise ConfigError(f"the token is too weak: use at least {SHORTEST_TOKEN} letters and digits")
        if self.token is None and not is_loopback(host):
            raise ConfigError(
                f"host {host} can be reached from other machines: give a token with --token or CRWN_TOKEN, "
                "or use --host 127.0.0.1"
            )

    def check_read(self, headers: Headers) -> None:
        """Without a token, only Host headers of this machine pass; otherwise a web site could reach it through DNS."""
        if self.token is None and not is_loopback(_host_name(headers.get("host", ""))):
            raise ServeError(403, "wrong_host", "without a token this service can only be used as localhost")

    def check_write(self, headers: Headers, client: str | None) -> None:
        """Raises ServeError unless a request with these headers from this client address may write."""
        if self.read_only:
            raise ServeError(403, "read_only", "this service is read-only: start it without --read-only to write")
        if self.token is not None:
            self._check_token(headers.get("authorization", ""))
            return
        if client is None or not is_loopback(client) or any(name in headers for name in _FORWARDED):
            raise ServeError(403, "not_loopback", "without a token, only this machine itself may write")
        origin = headers.get("origin", f"http://{headers.get('host', '')}")
        site = headers.get("sec-fetch-site", "same-origin")
        if origin != f"http://{headers.get('host', '')}" or site not in ("same-origin", "none"):
            raise ServeError(403, "cross_site", "requests from other web sites may not write")

    def _check_token(self, authorization: str) -> None:
        scheme, _, given = authorization.partition(" ")
        # Compared even when the scheme is wrong, so that the response time reveals nothing.
        correct = hmac.compare_digest(given.strip().encode("utf-8", "replace"), (self.token or "").encode())
        if not correct or scheme.lower() != "bearer":
            raise ServeError(
                401,
                "token_needed",
                "writing needs the header `Authorization: Bearer TOKEN` with the right token",
                {"WWW-Authenticate": "Bearer"},
            )


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def check_writer(request: Request) -> None:
    """FastAPI dependency of every endpoint that writes."""
    access: Access = request.app.state.service.access
    access.check_write(request.headers, request.client.host if request.client else None)


Writer = Annotated[None, Depends(check_writer)]
