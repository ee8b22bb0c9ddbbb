"""The parsed form of a request to predict or to infer a task: its rows as one array, and its other fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import torch
from pydantic import ValidationError
from starlette.types import Receive, Scope

from crwn.data.inputs import shaped
from crwn.errors import DataError
from crwn.learner.ranking import TaskScore
from crwn.serve import body, photos
from crwn.serve.body import Array
from crwn.serve.errors import ServeError, describe_invalid
from crwn.serve.named_rows import are_named, encode_named
from crwn.serve.schemas import InferRequest, PredictRequest, RowsQuery
from crwn.serve.service import Service

Question = PredictRequest | InferRequest
_LISTS = ("task", "candidate")  # parameters of the query that may be repeated


@dataclass(slots=True)
class Asked:
    """A parsed request about rows, `x` `[rows, ...]` of the model's input shape, float32."""

    x: Array
    task: str | list[str] | None
    probabilities: bool
    top: int
    candidates: list[str] | None
    ranking: list[TaskScore] | None = None  # of rows by column name, which are encoded for the first task


async def read_question(service: Service, scope: Scope, receive: Receive, kind: type[Question]) -> Asked:
    """Reads and checks a question: rows and all else from a JSON body, or rows from the body and the rest from the URL.

    Raises:
        ServeError: the body cannot be read, or says something that is not allowed.
        DataError: the rows do not fit the model.
    """
    limits = service.limits
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    form = body.content_type(headers, body.JSON, body.NPY, body.RAW, *photos.TYPES)
    query = _query(scope["query_string"]) if scope["query_string"] else _NO_QUERY
    data = await body.read_body(receive, headers, limits.body_bytes, limits.body_seconds, service.bodies)
    if form == body.JSON:
        given, array = await _from_json(service, kind, data)
        if array is None:
            asked = _asked(_NO_ROWS, given)
            asked.x, asked.task, asked.ranking = await encode_named(service, given.rows, asked.task, asked.candidates)
        else:
            asked = _asked(array, given)
    elif form == body.NPY:
        asked = _from_query(body.parse_npy(data, limits.body_bytes), query)
    elif form in photos.TYPES:
        asked = _from_query(_NO_ROWS, query)
        asked.x = await photos.photo_row(service, data, asked.task)
    else:
        array, names = body.parse_raw(data, headers)
        asked = _from_query(array, query)
        asked.task = asked.task if names is None else names
    asked.x = _checked(asked.x, service)
    if isinstance(asked.task, list) and len(asked.task) != len(asked.x):
        raise DataError(f"{len(asked.x)} rows but {len(asked.task)} task names: give one name, or one for each row")
    if asked.candidates is not None and not 1 <= len(asked.candidates) <= limits.candidates:
        message = f"{len(asked.candidates):,} candidates: name between 1 and {limits.candidates:,}"
        raise ServeError(422, "invalid_option", message)
    return asked


async def _from_json(service: Service, kind: type[Question], data: bytes) -> tuple[Question, Array | None]:
    """The question, and its rows as an array; None where they are objects by column name."""
    if len(data) <= service.limits.parsed_here_bytes:
        given = body.parse_json(kind, data)
        return given, None if are_named(given.rows) else body.numbers(given.rows)
    rest, array = await service.parser.parse(data, "rows", service.limits.rows)
    if array is None:
        given = body.checked(kind, rest)
        return given, None if are_named(given.rows) else body.numbers(given.rows)
    return body.checked(kind, rest | {"rows": [None]}), array


def _asked(x: Array, given: Question) -> Asked:
    if isinstance(given, PredictRequest):
        return Asked(x, given.task, given.probabilities, 1, given.candidates)
    return Asked(x, None, False, given.top, given.candidates)


def _from_query(x: Array, query: RowsQuery) -> Asked:
    names = query.task
    task = names[0] if names is not None and len(names) == 1 else names
    return Asked(x, task, query.probabilities, query.top, query.candidate)


def _query(text: bytes) -> RowsQuery:
    found: dict[str, Any] = {}
    try:
        for key, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=20_000):
            if key in _LISTS:
                found.setdefault(key, []).append(value)
            else:
                found[key] = value
        return RowsQuery.model_validate(found)
    except ValidationError as error:
        raise ServeError(422, "invalid_request", describe_invalid(error)) from None
    except ValueError:
        raise ServeError(422, "invalid_request", "the URL has too many parameters") from None


_NO_QUERY = RowsQuery()
_NO_ROWS: Array = np.zeros((0, 1), dtype=np.float32)


def _checked(x: Array, service: Service) -> Array:
    """The rows as float32 in the model's input shape; whether they are finite is checked with the whole pass."""
    if x.ndim == 0 or len(x) == 0:
        raise DataError("there are no rows: send at least one")
    if len(x) > service.limits.rows:
        raise ServeError(413, "too_many_rows", f"{len(x):,} rows at once: send at most {service.limits.rows:,}")
    if x.dtype.kind not in "biuf":
        raise DataError(f"inputs must be numbers, got {x.dtype} of shape {x.shape}")
    if x.dtype != np.float32:
        with np.errstate(over="ignore"):
            x = x.astype(np.float32)
    shape = service.input_shape
    if shape is None or x.shape[1:] == shape:
        return x
    return shaped(torch.from_numpy(x if x.flags.writeable else x.copy()), shape).contiguous().numpy()
