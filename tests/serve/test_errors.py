"""Error responses: one form, stable codes, for every kind of error."""

from __future__ import annotations

import httpx
import pytest

from crwn import errors
from crwn.serve.errors import ServeError
from serving import refusal


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.TaskError("x"), 404, "unknown_task"),
        (errors.TaskExistsError("x"), 409, "task_exists"),
        (errors.DataError("x"), 422, "invalid_data"),
        (errors.ContextError("x"), 422, "invalid_context"),
        (errors.ConfigError("x"), 422, "invalid_option"),
        (errors.BankError("path and password"), 503, "bank_unavailable"),
        (errors.ModelError("path and password"), 500, "internal_error"),
    ],
)
def test_library_errors_have_a_status_and_a_code(error: errors.CRWNError, status: int, code: str) -> None:
    made = ServeError.of(error)
    assert (made.status, made.code) == (status, code)
    assert "password" not in str(made)


def test_unknown_paths_methods_and_content_types(http: httpx.Client) -> None:
    assert refusal(http.get("/v2/nothing")) == (404, "not_found")
    assert refusal(http.put("/v1/predict")) == (405, "method_not_allowed")
    response = http.post("/v1/predict", content=b"x", headers={"Content-Type": "application/x-pickle"})
    assert refusal(response) == (415, "unknown_content_type")
    assert refusal(http.get("/v1/tasks", params={"limit": 0})) == (422, "invalid_request")
    assert refusal(http.get("/page/..%2Fapp.py")) == (404, "not_found")
    assert refusal(http.get("/page/none.js")) == (404, "not_found")
