"""Task names in URLs: one percent-encoded path segment, so that names may contain slashes and any Unicode."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Path

from crwn.contexts import check_name
from crwn.errors import TaskError
from crwn.serve.errors import ServeError

TASKS_PATH = "/v1/tasks/"


def decode_name(
    name: Annotated[
        str,
        Path(
            description="The task's name, percent-encoded as one path segment: a slash is `%2F`.",
            examples=["rotated%2F30"],
            min_length=1,
            max_length=2400,
        ),
    ],
) -> str:
    """FastAPI dependency: the decoded task name, or an error with code `invalid_name`."""
    try:
        decoded = unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        raise ServeError(422, "invalid_name", "the task name in the URL is not percent-encoded UTF-8") from None
    if decoded in (".", ".."):
        raise ServeError(422, "invalid_name", f'a task named "{decoded}" cannot be part of a URL: choose another name')
    try:
        return check_name(decoded)
    except TaskError as error:
        raise ServeError(422, "invalid_name", str(error)) from None


TaskName = Annotated[str, Depends(decode_name)]
