"""The Python client: what a learner does, asked of a service."""

from __future__ import annotations

import io
import json
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from crwn.closing import Closing
from crwn.errors import CRWNError, MissingExtraError

try:
    import httpx
except ImportError:
    raise MissingExtraError("crwn.Client", "serve") from None

if TYPE_CHECKING:
    from crwn.context import Context


class RemoteError(CRWNError):
    """The service refused; `code` is stable, the text is for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Prediction(NamedTuple):
    """Labels in the order of the rows, and whose they are: one task, or one per row."""

    labels: list[Any]
    task: str | list[str]
    probabilities: list[list[float]] | None


class Ranking(NamedTuple):
    """Tasks that fit, best first, each `{"task", "score", "fit"}`; `none_of_these` when even the best does not."""

    ranking: list[dict[str, Any]]
    none_of_these: bool | None


class Learning:
    """A task being learned by the service: iterate over its progress, or wait for its end."""

    def __init__(self, client: Client, facts: dict[str, Any]) -> None:
        self._client = client
        self.id: str = facts["id"]
        self.facts = facts

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Progress as it comes: `{"state", "step", "steps", "loss", ...}`; the last one is how it ended."""
        with self._client._http.stream("GET", f"/v1/jobs/{self.id}/events", timeout=httpx.Timeout(60.0)) as response:
            if response.status_code != 200:
                response.read()
                _check(response)
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.facts = json.loads(line[6:])
                    yield self.facts

    def wait(self) -> dict[str, Any]:
        """The task's facts once it is learned; RemoteError when it failed or was cancelled."""
        for _ in self:
            pass
        if self.facts["state"] != "done":
            raise RemoteError(200, f"learning_{self.facts['state']}", self.facts.get("message") or "learning ended")
        done: dict[str, Any] = self.facts["facts"]
        return done

    def cancel(self) -> None:
        """Drop it: nothing is stored."""
        _check(self._client._http.delete(f"/v1/jobs/{self.id}"))


class Client(Closing):
    """Asks a running `crwn serve`.

    Args:
        address: like `http://127.0.0.1:8080`.
        token: what the service asks of those who write.
        timeout: seconds to wait for an answer.
    """

    def __init__(
        self, address: str = "http://127.0.0.1:8080", *, token: str | None = None, timeout: float = 60.0
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout)

    def predict(self, x: Any, task: str | Sequence[str] | None = None, *, probabilities: bool = False) -> Prediction:
        """Labels of these rows: of one task, one task per row, or, without any, of the task inferred for them."""
        names = task if task is None or isinstance(task, str) else list(task)
        if isinstance(names, list):
            given = {"rows": np.asarray(x).tolist(), "task": names, "probabilities": probabilities}
            answer = self._json("POST", "/v1/predict", json=given)
        else:
            query = {"probabilities": "true" if probabilities else "false"} | ({} if names is None else {"task": names})
            answer = self._json("POST", "/v1/predict", content=_npy(x), headers=_NPY, params=query)
        whose = answer["tasks"] if answer["task"] is None else answer["task"]
        return Prediction(answer["labels"], whose, answer["probabilities"])

    def infer_task(self, x: Any, *, top: int = 10) -> Ranking:
        """The tasks that fit these rows best, and whether none does."""
        answer = self._json("POST", "/v1/infer-task", content=_npy(x), headers=_NPY, params={"top": top})
        return Ranking(answer["ranking"], answer["none_of_these"])

    def tasks(self, prefix: str = "") -> Iterator[dict[str, Any]]:
        """Facts of all tasks whose names start so, fetched page by page."""
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
        return self._json("GET", _address(name))

    def learn(
        self,
        task: str,
        x: Any,
        y: Sequence[Hashable] | Any,
        *,
        batches: int | None = None,
        epochs: int | None = None,
        validation: float | None = None,
        replace: bool = False,
        resume: bool = False,
    ) -> Learning:
        """Start learning a task; iterate over what this gives to see its progress, or `wait()` for the end."""
        options = {"batches": batches, "epochs": epochs, "validation": validation, "replace": replace, "resume": resume}
        options = {key: value for key, value in options.items() if value is not None and value is not False}
        labels = np.asarray(y) if not isinstance(y, list | tuple) or len({type(one) for one in y}) == 1 else None
        address = f"{_address(task)}/learn"
        if labels is not None and labels.ndim == 1 and labels.dtype.kind in "biuU":
            packed = io.BytesIO()
            np.savez(packed, x=np.asarray(x), y=labels)
            query = {key: str(value).lower() for key, value in options.items()}
            headers = {"Content-Type": "application/x-npz"}
            facts = self._json("POST", address, content=packed.getvalue(), headers=headers, params=query)
        else:
            facts = self._json("POST", address, json={"x": np.asarray(x).tolist(), "y": list(y), **options})
        return Learning(self, facts)

    def forget(self, task: str) -> None:
        """Drop a task for good."""
        _check(self._http.delete(_address(task)))

    def get_context(self, task: str) -> Context:
        """What a task learned."""
        from crwn.context import Context

        answer = _check(self._http.get(f"{_address(task)}/context"))
        return Context.from_bytes(answer.content, source=f"the answer of {self._http.base_url}")

    def put_context(self, context: Context, *, name: str | None = None, replace: bool = False) -> int:
        """Store a context that the service's model learned elsewhere; gives its version."""
        headers = {"Content-Type": "application/vnd.safetensors"}
        address = f"{_address(name or context.name)}/context"
        query = {"replace": "true"} if replace else {}
        stored = self._json("PUT", address, content=context.to_bytes(), headers=headers, params=query)
        version: int = stored["version"]
        return version

    def model(self) -> dict[str, Any]:
        """The model that all tasks share."""
        return self._json("GET", "/v1/model")

    def close(self) -> None:
        self._http.close()

    def _json(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        try:
            answer = _check(self._http.request(method, address, **more))
        except httpx.TransportError as error:
            raise RemoteError(0, "unreachable", f"{self._http.base_url} does not answer: {error}") from None
        found: dict[str, Any] = answer.json()
        return found


_NPY = {"Content-Type": "application/x-npy"}


def _npy(x: Any) -> bytes:
    array = x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)
    packed = io.BytesIO()
    np.save(packed, np.ascontiguousarray(array), allow_pickle=False)
    return packed.getvalue()


def _address(task: str) -> str:
    return f"/v1/tasks/{quote(task, safe='')}"


def _check(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "unknown", answer.text[:200]
    raise RemoteError(answer.status_code, code, message)
