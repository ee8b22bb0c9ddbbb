"""Requests with rows and their labels in one JSON body: read, and parsed elsewhere where they are large."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request

from crwn.serve import body
from crwn.serve.body import Array
from crwn.serve.errors import ServeError
from crwn.serve.schemas import RowsRequest
from crwn.serve.service import service_of

Labelled = TypeVar("Labelled", bound=RowsRequest)


async def read_labelled(request: Request, kind: type[Labelled], most: int) -> tuple[Labelled, Array]:
    """The request, and its rows as an array.

    Raises:
        ServeError: the body cannot be read, or has more than `most` rows.
        DataError: the rows are no lists of numbers.
    """
    service = service_of(request)
    limits = service.limits
    body.content_type(request.headers, body.JSON)
    data = await body.read_body(
        request.receive, request.headers, limits.body_bytes, limits.body_seconds, service.bodies
    )
    if len(data) > limits.parsed_here_bytes:
        rest, array = await service.parser.parse(data, "rows", most)
        if array is not None:
            return body.checked(kind, rest | {"rows": [None]}), array
        given = body.checked(kind, rest)
    else:
        given = body.parse_json(kind, data)
    if len(given.rows) > most:
        raise ServeError(413, "too_many_rows", f"{len(given.rows):,} rows: send at most {most:,}")
    return given, body.numbers(given.rows, "rows")
