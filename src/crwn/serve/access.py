"""Access rules: writing needs a bearer token; without a token, only this machine and no other web site may write."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers

from crwn.errors import ConfigError
from crwn.serve.errors import ServeError

SHORTEST_TOKEN = 8
_VISIBLE = re.compile(r"[!-~]+")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


@lru_cache(maxsize=256)
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
    hosts: frozenset[str] = frozenset()  # further names of this machine, in lower case

    def check_host(self, host: str) -> None:
        """Raises ConfigError for a weak token, and for a host that other machines can reach without any token."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not _VISIBLE.fullmatch(self.token)):
            raise ConfigError(f"the token is too weak: use at least {SHORTEST_TOKEN} letters and digits, no spaces")
        if self.token is None and not is_loopback(host):
            raise ConfigError(
                f"host {host} can be reached from other machines: give a token with --token-file "
                "or CRWN_TOKEN, or use --host 127.0.0.1"
            )

    def check_read(self, host: str, authorization: str) -> None:
        """Raises ServeError for a Host header of another machine: a web site could get here by changing its DNS entry.

        With a token this machine has other addresses and names too: numbers, its host name, those that are allowed,
        and any name in a request with the token, which no web site has.
        """
        name = host_name(host)
        if is_loopback(name) or (self.token is not None and (is_number(name) or name in self.hosts)):
            return
        if self.token is None:
            raise ServeError(403, "wrong_host", "without a token this service can only be used as localhost")
        if not self._has_token(authorization):
            message = "this service is not known by that host name: allow it with --allow-host, or send the token"
            raise ServeError(403, "wrong_host", message)

    def check_write(self, headers: Headers, client: str | None) -> None:
        """Raises ServeError unless a request with these headers from this client address may write."""
        if self.read_only:
            raise ServeError(403, "read_only", "this service is read-only: start it without --read-only to write")
        if self.token is not None:
            if not self._has_token(headers.get("authorization", "")):
                message = "writing needs the header `Authorization: Bearer TOKEN` with the right token"
                raise ServeError(401, "token_needed", message, {"WWW-Authenticate": "Bearer"})
            return
        if client is None or not is_loopback(client) or any(name in headers for name in _FORWARDED):
            raise ServeError(403, "not_loopback", "without a token, only this machine itself may write")
        origin = headers.get("origin", f"http://{headers.get('host', '')}")
        site = headers.get("sec-fetch-site", "same-origin")
        if origin != f"http://{headers.get('host', '')}" or site not in ("same-origin", "none"):
            raise ServeError(403, "cross_site", "requests from other web sites may not write")

    def _has_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # Compared even when the scheme is wrong, so that the response time reveals nothing.
        correct = hmac.compare_digest(given.strip().encode("utf-8", "replace"), (self.token or "").encode())
        return correct and scheme.lower() == "bearer"


def read_token(path: Path) -> str:
    """The token in a file, whose first line it is; raises ConfigError where there is none."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the token file {path} cannot be read: {reason}") from None
    if not lines or not lines[0].strip():
        raise ConfigError(f"the token file {path} is empty: write the token into its first line")
    return lines[0].strip()


def host_and_authorization(headers: Sequence[tuple[bytes, bytes]]) -> tuple[str, str]:
    """These headers of a request, "" for those that it has not.

    Raises:
        ServeError: it names several hosts: a proxy may have checked another one than this service would.
    """
    hosts = [value for key, value in headers if key == b"host"]
    if len(hosts) > 1:
        raise ServeError(400, "bad_request", "the request has several Host headers: send one")
    given = next((value for key, value in headers if key == b"authorization"), b"")
    return (hosts[0] if hosts else b"").decode("latin-1"), given.decode("latin-1")


@lru_cache(maxsize=256)
def host_name(host: str) -> str:
    """The name in a Host header, in lower case and without its port.

    >>> host_name("Example.org:8080"), host_name("[::1]:8080"), host_name("[::bad")
    ('example.org', '::1', '')
    """
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_number(host: str) -> bool:
    """Whether this is an address in numbers, which no DNS entry can redirect."""
    try:
        ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    return True


def check_writer(request: Request) -> None:
    """FastAPI dependency of every endpoint that writes."""
    access: Access = request.app.state.service.access
    access.check_write(request.headers, request.client.host if request.client else None)


Writer = Annotated[None, Depends(check_writer)]
