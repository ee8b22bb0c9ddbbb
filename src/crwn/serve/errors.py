"""Errors over HTTP: a status and JSON `{"error": {"code", "message"}}`; codes never change, messages may."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from crwn.errors import BankError, ConfigError, ContextError, CRWNError, DataError, TaskError, TaskExistsError

log = logging.getLogger("crwn.serve")


class ErrorDetail(BaseModel):
    code: str = Field(description="stable, for programs", examples=["unknown_task"])
    message: str = Field(description="one line, for people", examples=['task "lefd" is not in the bank (2 tasks)'])


class ErrorBody(BaseModel):
    """The body of every response with a status of 400 or more."""

    error: ErrorDetail


_DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "This client may not write, the service is read-only, or the Host header is not allowed.",
    404: "There is no such task, job or path.",
    405: "The path does not support this method.",
    408: "The body was sent too slowly.",
    409: "The task exists already, or is being learned.",
    413: "The body or the number of rows exceeds the limit.",
    415: "The content type is not supported.",
    422: "The data, a name or an option is invalid.",
    429: "Too many jobs or event streams: try again later.",
    500: "An internal error of the service.",
    503: "The service is too busy, is stopping, or cannot reach its bank.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these error statuses of an endpoint, and for 500 and 503."""
    return {status: {"model": ErrorBody, "description": _DESCRIPTIONS[status]} for status in (*statuses, 500, 503)}


class ServeError(Exception):
    """An error with its HTTP status, code and headers."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str]]:
        """The body of the response; characters that UTF-8 cannot encode are replaced."""
        return {"error": {"code": self.code, "message": str(self).encode("utf-8", "replace").decode("utf-8")}}

    @classmethod
    def internal(cls) -> ServeError:
        """The error for failures whose cause only the log names."""
        return cls(500, "internal_error", "the service failed: see its log for the reason")

    @classmethod
    def stopping(cls) -> ServeError:
        return cls(503, "stopping", "the service is stopping: use another one")

    @classmethod
    def busy(cls, what: str) -> ServeError:
        return cls(503, "busy", f"{what}: try again later", {"Retry-After": "1"})

    @classmethod
    def bank_hangs(cls, seconds: float) -> ServeError:
        message = f"the bank of contexts did not return within {seconds:g} s: try again later"
        return cls(503, "bank_unavailable", message)

    @classmethod
    def of(cls, error: CRWNError) -> ServeError:
        """The HTTP error for an error raised by the library."""
        for kind, (status, code) in _STATUSES.items():
            if isinstance(error, kind):
                return cls(status, code, str(error))
        log.error("%s", error)
        if isinstance(error, BankError):
            return cls(503, "bank_unavailable", "the bank of contexts cannot be used now: try again later")
        return cls.internal()


# The first class that matches is used: subclasses come before their parents.
_STATUSES: dict[type[CRWNError], tuple[int, str]] = {
    TaskExistsError: (409, "task_exists"),
    TaskError: (404, "unknown_task"),
    DataError: (422, "invalid_data"),
    ContextError: (422, "invalid_context"),
    ConfigError: (422, "invalid_option"),
}


def describe_invalid(error: ValidationError | RequestValidationError) -> str:
    """The first problem of a request, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body", "path"))
    return f"{where or 'body'}: {first['msg']}"[:300]


def error_response(error: ServeError) -> JSONResponse:
    """The JSON response for an error."""
    return JSONResponse(error.body(), error.status, error.headers)


def add_handlers(app: FastAPI) -> None:
    """Makes every error of this application JSON of one form."""

    @app.exception_handler(ServeError)
    async def _serve_error(_: Request, error: ServeError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(CRWNError)
    async def _library_error(_: Request, error: CRWNError) -> JSONResponse:
        return error_response(ServeError.of(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(ServeError(422, "invalid_request", describe_invalid(error)))

    @app.exception_handler(HTTPException)
    async def _http_error(_: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        return error_response(ServeError(error.status_code, code, str(error.detail), error.headers))
