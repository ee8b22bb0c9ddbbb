"""Task names in addresses: one percent-encoded part, so that names may hold slashes and any Unicode."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

from fastapi import Depends, Path
from starlette.types import ASGIApp, Receive, Scope, Send

from crwn.context import check_name
from crwn.errors import TaskError
from crwn.serve.errors import ServeError

_BEFORE = "/v1/tasks/"


class EncodedNames:
    """Routes by the address as it was sent: a slash inside a task's name (`%2F`) is not a slash between parts.

    Servers decode the path before routing, which would make `/v1/tasks/a%2Flearn` and `/v1/tasks/a/learn` the same.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_BEFORE):
            raw = scope.get("raw_path")
            if raw is not None:
                scope = {**scope, "path": raw.split(b"?", 1)[0].decode("latin-1")}
        await self.app(scope, receive, send)


def decoded_name(
    name: Annotated[
        str,
        Path(
            description="The task's name, percent-encoded as one part: a slash is `%2F`.",
            examples=["rotated%2F30"],
            min_length=1,
            max_length=2400,
        ),
    ],
) -> str:
    try:
        return checked_name(unquote_to_bytes(name).decode("utf-8"))
    except UnicodeDecodeError:
        raise ServeError(422, "invalid_name", "the task's name in the address is not UTF-8, percent-encoded") from None


def checked_name(name: str) -> str:
    """The name when a task may be called so."""
    if name in (".", ".."):
        raise ServeError(422, "invalid_name", f'a task named "{name}" cannot stand in an address: choose another name')
    try:
        return check_name(name)
    except TaskError as error:
        raise ServeError(422, "invalid_name", str(error)) from None


def encoded(name: str) -> str:
    """The name as it stands in an address.

    >>> encoded("rotated/30°")
    'rotated%2F30%C2%B0'
    """
    return quote(name, safe="")


TaskName = Annotated[str, Depends(decoded_name)]
