"""The asynchronous Python client of the service: predictions, task inference and added rows from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any, Self

from crwn.errors import MissingExtraError
from crwn.serve import client_requests as requests
from crwn.serve.client_requests import Prediction, Ranking, RowAnswer, task_address

try:
    import httpx
except ImportError:
    raise MissingExtraError("crwn.AsyncClient", "serve") from None


class AsyncClient:
    """Client of a running `crwn serve` for `async` code; arguments and errors as for `crwn.Client`."""

    def __init__(
        self,
        address: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        connections: int = 100,
    ) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.AsyncClient(**requests.http_settings(address, token, timeout), limits=limits)
        self.retries = retries

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def predict(
        self,
        x: Any,
        task: str | Sequence[str] | None = None,
        *,
        probabilities: bool = False,
        candidates: Sequence[str] | None = None,
    ) -> Prediction:
        """Predicts labels: of one task, of one task per row, or, without a task, of the one inferred for all rows."""
        asked = requests.predict_request(x, task, probabilities=probabilities, candidates=candidates)
        return requests.prediction_of(await self._json("POST", "/v1/predict", harmless=True, **asked))

    async def infer_task(self, x: Any, *, top: int = 10, candidates: Sequence[str] | None = None) -> Ranking:
        """Ranks the tasks by how well they fit these rows, and returns whether none does."""
        asked = requests.infer_request(x, top=top, candidates=candidates)
        found = await self._json("POST", "/v1/infer-task", harmless=True, **asked)
        return Ranking(found["ranking"], found["none_of_these"])

    async def extend(self, task: str, x: Any, y: Sequence[Hashable] | Any) -> dict[str, Any]:
        """Adds rows, of known or new classes, to a task that keeps its sums; returns its classes and what changed."""
        return await self._json("POST", f"{task_address(task)}/extend", **requests.labelled_request(x, y))

    async def share(self, task: str, x: Any, y: Sequence[Hashable] | Any) -> dict[str, Any]:
        """Adds rows of a task to one head over the classes of all tasks; returns its tasks and number of classes."""
        return await self._json("POST", f"{task_address(task)}/share", **requests.labelled_request(x, y))

    async def classify(self, x: Any) -> list[RowAnswer]:
        """Task and class of every row by the head that `share` adds to; no task is given."""
        found = await self._json("POST", "/v1/classify", harmless=True, **requests.rows_request(x))
        return requests.answers_of(found)

    async def tasks(self, prefix: str = "") -> AsyncIterator[dict[str, Any]]:
        """Yields the facts of all tasks whose names start with `prefix`, fetched page by page."""
        query: dict[str, Any] = {"prefix": prefix, "limit": 500}
        while True:
            page = await self._json("GET", "/v1/tasks", params=query)
            for facts in page["tasks"]:
                yield facts
            if page["next"] is None:
                return
            query["after"] = page["next"]

    async def task(self, name: str) -> dict[str, Any]:
        """Facts of one task."""
        return await self._json("GET", task_address(name))

    async def model(self) -> dict[str, Any]:
        """Facts of the model that all tasks share."""
        return await self._json("GET", "/v1/model")

    async def close(self) -> None:
        await self._http.aclose()

    async def _json(self, method: str, address: str, *, harmless: bool = False, **more: Any) -> dict[str, Any]:
        """The response to a request, sent again while that may help."""
        for attempt in range(self.retries + 1):
            outcome: httpx.Response | httpx.TransportError
            try:
                outcome = await self._http.request(method, address, **more)
            except httpx.TransportError as error:
                outcome = error
            if attempt == self.retries or not requests.may_repeat(outcome, harmless=harmless or method == "GET"):
                break
            await asyncio.sleep(requests.wait_seconds(attempt, outcome))
        if isinstance(outcome, httpx.TransportError):
            raise requests.unreachable(self._http.base_url, outcome) from None
        found: dict[str, Any] = requests.checked(outcome).json()
        return found
