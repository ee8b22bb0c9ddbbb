"""Errors as clients see them: an HTTP status and JSON `{"error": {"code", "message"}}` with codes that never change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from crwn.errors import BankError, ConfigError, ContextError, CRWNError, DataError, TaskError

log = logging.getLogger("crwn.serve")


class ErrorDetail(BaseModel):
    code: str = Field(description="stable, for programs", examples=["unknown_task"])
    message: str = Field(description="one line, for people", examples=['task "lefd" is not in the bank (2 tasks)'])


class ErrorBody(BaseModel):
    """What every refused request is answered with."""

    error: ErrorDetail


_MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "Writing is not allowed from there, or at all.",
    404: "There is no such task, job or address.",
    405: "The address does not take this method.",
    408: "The body came too slowly.",
    409: "The task is there already, or is being learned.",
    413: "The body, or the number of rows, is over the limit.",
    415: "The content type is not one of those taken.",
    422: "Data, names or options that cannot be used.",
    429: "Too much is under way: ask again later.",
    500: "Something is wrong in the service itself.",
    503: "The service is too busy, stopping, or cannot reach its bank.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors an address may answer with, for the OpenAPI description."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in (*statuses, 500, 503)}


class ServeError(Exception):
    """A refusal with its status and code."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def as_refusal(error: CRWNError) -> ServeError:
    """The refusal for an error of crwn's own."""
    if isinstance(error, TaskError):
        return ServeError(404, "unknown_task", str(error))
    if isinstance(error, DataError):
        return ServeError(422, "invalid_data", str(error))
    if isinstance(error, ContextError):
        return ServeError(422, "invalid_context", str(error))
    if isinstance(error, ConfigError):
        return ServeError(422, "invalid_option", str(error))
    if isinstance(error, BankError):
        log.error("%s", error)
        return ServeError(503, "bank_unavailable", "the bank of contexts cannot be used now: ask again later")
    log.error("%s", error)
    return ServeError(500, "internal_error", "the service failed: its log says why")


def describe_invalid(error: ValidationError | RequestValidationError) -> str:
    """The first thing wrong with a request, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body", "path"))
    return f"{where or 'body'}: {first['msg']}"[:300]


def response(error: ServeError) -> JSONResponse:
    body = {"error": {"code": error.code, "message": _sendable(str(error))}}
    return JSONResponse(body, error.status, error.headers)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def add_handlers(app: FastAPI) -> None:
    """Make every error of this application JSON of one form."""

    @app.exception_handler(ServeError)
    async def _refused(_: Request, error: ServeError) -> JSONResponse:
        return response(error)

    @app.exception_handler(CRWNError)
    async def _own(_: Request, error: CRWNError) -> JSONResponse:
        return response(as_refusal(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return response(ServeError(422, "invalid_request", describe_invalid(error)))

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        return response(ServeError(error.status_code, code, str(error.detail), error.headers))


class LastResort:
    """Outermost layer: what nobody foresaw becomes a logged 500 without its insides."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            log.exception("unexpected failure answering %s %r", scope["method"], scope["path"])
            if not begun:
                failed = ServeError(500, "internal_error", "the service failed: its log says why")
                await response(failed)(scope, receive, send)
