"""The Python client of the service: predict, infer tasks, learn and exchange contexts over HTTP."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from crwn._utils import Closing
from crwn.errors import MissingExtraError
from crwn.serve.client_requests import (
    Prediction,
    Ranking,
    RemoteError,
    RowAnswer,
    answers_of,
    checked,
    http_settings,
    infer_request,
    labelled_request,
    may_repeat,
    plain_labels,
    predict_request,
    prediction_of,
    rows_request,
    task_address,
    unreachable,
    wait_seconds,
)

try:
    import httpx
except ImportError:
    raise MissingExtraError("crwn.Client", "serve") from None

if TYPE_CHECKING:
    from crwn.contexts import Context
    from crwn.contexts.kinds import Kind

__all__ = ["Client", "Learning", "Prediction", "Ranking", "RemoteError", "RowAnswer"]


class Learning:
    """A learning job of the service: iterate over its progress, or wait for its end."""

    def __init__(self, client: Client, facts: dict[str, Any]) -> None:
        self._client = client
        self.id: str = facts["id"]
        self.facts = facts

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields progress events, `{"state", "step", "steps", "loss", ...}`; the last one has the final state."""
        for line in self._client._lines(f"/v1/jobs/{self.id}/events"):
            if line.startswith("data: "):
                self.facts = json.loads(line[6:])
                yield self.facts

    def wait(self) -> dict[str, Any]:
        """Waits for the end and returns the task's facts; raises RemoteError when the job failed or was cancelled."""
        for _ in self:
            pass
        if self.facts["state"] != "done":
            raise RemoteError(200, f"learning_{self.facts['state']}", self.facts.get("message") or "learning ended")
        done: dict[str, Any] = self.facts["facts"]
        return done

    def cancel(self) -> None:
        """Cancels the job: nothing is stored."""
        self._client._request("DELETE", f"/v1/jobs/{self.id}")


class Client(Closing):
    """Client of a running `crwn serve`.

    Args:
        address: URL of the service, such as `http://127.0.0.1:8080`.
        token: the token that the service was started with; only writing needs it.
        timeout: seconds to wait for a response.
        retries: how often a request is sent again, with growing waits, when the service is busy or cannot be reached;
            one that writes only when it was refused before anything was done.

    Raises:
        RemoteError: from every method, when the service returns an error or cannot be reached.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        self._http = httpx.Client(**http_settings(address, token, timeout))
        self.retries = retries

    def predict(
        self,
        x: Any,
        task: str | Sequence[str] | None = None,
        *,
        probabilities: bool = False,
        candidates: Sequence[str] | None = None,
    ) -> Prediction:
        """Predicts labels: of one task, of one task per row, or, without a task, of the one inferred for all rows.

        `candidates` are the tasks among which it is inferred; all of them by default.
        """
        asked = predict_request(x, task, probabilities=probabilities, candidates=candidates)
        return prediction_of(self._json("POST", "/v1/predict", harmless=True, **asked))

    def infer_task(self, x: Any, *, top: int = 10, candidates: Sequence[str] | None = None) -> Ranking:
        """Ranks the tasks by how well they fit these rows, and returns whether none does."""
        asked = infer_request(x, top=top, candidates=candidates)
        response = self._json("POST", "/v1/infer-task", harmless=True, **asked)
        return Ranking(response["ranking"], response["none_of_these"])

    def tasks(self, prefix: str = "") -> Iterator[dict[str, Any]]:
        """Yields the facts of all tasks whose names start with `prefix`, fetched page by page."""
        after: str | None = None
        while True:
            query: dict[str, Any] = {"prefix": prefix, "limit": 500} | ({} if after is None else {"after": after})
            page = self._json("GET", "/v1/tasks", params=query)
            yield from page["tasks"]
            after = page["next"]
            if after is None:
                return

    def task(self, name: str) -> dict[str, Any]:
        """Facts of one task."""
        return self._json("GET", task_address(name))

    def learn(
        self,
        task: str,
        x: Any,
        y: Sequence[Hashable] | Any,
        *,
        batches: int | None = None,
        epochs: int | None = None,
        validation: float | None = None,
        kind: Kind | None = None,
        class_weight: str | None = None,
        replace: bool = False,
        resume: bool = False,
    ) -> Learning:
        """Starts a learning job; iterate over the result for its progress, or call its `wait()`."""
        given: dict[str, Any] = {"batches": batches, "epochs": epochs, "validation": validation, "kind": kind}
        given |= {"class_weight": class_weight, "replace": replace, "resume": resume}
        options = {key: value for key, value in given.items() if value is not None and value is not False}
        alike = not isinstance(y, list | tuple) or len({type(one) for one in y}) == 1
        labels = np.asarray(y) if alike and kind in (None, "classification") else None
        address = f"{task_address(task)}/learn"
        if labels is not None and labels.ndim == 1 and labels.dtype.kind in "biuU":
            packed = io.BytesIO()
            np.savez(packed, x=np.asarray(x), y=labels)
            query = {key: str(value).lower() for key, value in options.items()}
            headers = {"Content-Type": "application/x-npz"}
            facts = self._json("POST", address, content=packed.getvalue(), headers=headers, params=query)
        else:
            facts = self._json("POST", address, json={"x": np.asarray(x).tolist(), "y": plain_labels(y), **options})
        return Learning(self, facts)

    def extend(self, task: str, x: Any, y: Sequence[Hashable] | Any) -> dict[str, Any]:
        """Adds rows, of known or new classes, to a task that keeps its sums; returns its classes and what changed.

        No old rows are needed: `mean_change` and `largest_change` say how far the scores of old rows moved.
        """
        return self._json("POST", f"{task_address(task)}/extend", **labelled_request(x, y))

    def share(self, task: str, x: Any, y: Sequence[Hashable] | Any) -> dict[str, Any]:
        """Adds rows of a task to one head over the classes of all tasks; returns its tasks and number of classes."""
        return self._json("POST", f"{task_address(task)}/share", **labelled_request(x, y))

    def classify(self, x: Any) -> list[RowAnswer]:
        """Task and class of every row by the head that `share` adds to; no task is given."""
        return answers_of(self._json("POST", "/v1/classify", harmless=True, **rows_request(x)))

    def forget(self, task: str) -> None:
        """Deletes a task and its context."""
        self._request("DELETE", task_address(task))

    def get_context(self, task: str) -> Context:
        """Downloads the context of a task."""
        from crwn.contexts import Context

        response = self._request("GET", f"{task_address(task)}/context")
        return Context.from_bytes(response.content, source=f"the response of {self._http.base_url}")

    def put_context(self, context: Context, *, name: str | None = None, replace: bool = False) -> int:
        """Stores a context of the service's model that was learned elsewhere; returns its version."""
        headers = {"Content-Type": "application/vnd.safetensors"}
        address = f"{task_address(name or context.name)}/context"
        query = {"replace": "true"} if replace else {}
        stored = self._json("PUT", address, content=context.to_bytes(), headers=headers, params=query)
        version: int = stored["version"]
        return version

    def model(self) -> dict[str, Any]:
        """Facts of the model that all tasks share."""
        return self._json("GET", "/v1/model")

    def close(self) -> None:
        self._http.close()

    def _request(self, method: str, address: str, *, harmless: bool = False, **more: Any) -> httpx.Response:
        for attempt in range(self.retries + 1):
            outcome: httpx.Response | httpx.TransportError
            try:
                outcome = self._http.request(method, address, **more)
            except httpx.TransportError as error:
                outcome = error
            if attempt == self.retries or not may_repeat(outcome, harmless=harmless or method == "GET"):
                break
            time.sleep(wait_seconds(attempt, outcome))
        if isinstance(outcome, httpx.TransportError):
            raise unreachable(self._http.base_url, outcome) from None
        return checked(outcome)

    def _json(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._request(method, address, **more).json()
        return found

    def _lines(self, address: str) -> Iterator[str]:
        with self._reaching(), self._http.stream("GET", address, timeout=httpx.Timeout(60.0)) as response:
            if not response.is_success:
                response.read()
            yield from checked(response).iter_lines()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turns failures of the connection into RemoteError."""
        try:
            yield
        except httpx.TransportError as error:
            raise unreachable(self._http.base_url, error) from None
