"""What the clients of the service share: requests, answers, errors, and when to try again."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from crwn.errors import CRWNError, MissingExtraError

try:
    import httpx
except ImportError:
    raise MissingExtraError("crwn.Client", "serve") from None

NPY = {"Content-Type": "application/x-npy"}
LONGEST_WAIT = 8.0


class RemoteError(CRWNError):
    """An error that the service returned: `status` is the HTTP status, `code` is stable, the text is human-readable."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Prediction(NamedTuple):
    """Labels in the order of the rows, their task (one, or one per row), and probabilities where requested."""

    labels: list[Any]
    task: str | list[str]
    probabilities: list[list[float]] | None


class Ranking(NamedTuple):
    """Tasks, best first, each `{"task", "score", "fit"}`; `none_of_these` is True when even the best does not fit."""

    ranking: list[dict[str, Any]]
    none_of_these: bool | None


class RowAnswer(NamedTuple):
    """The likeliest class of one row among those of all shared tasks, the task it is from, and its probability."""

    task: str
    label: Any
    probability: float


def http_settings(address: str, token: str | None, timeout: float) -> dict[str, Any]:
    """Arguments of the HTTP clients: where the service is, the token that writing needs, and how long to wait."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return {"base_url": address, "headers": headers, "timeout": timeout}


def array_of(x: Any) -> npt.NDArray[Any]:
    return x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)


def rows_request(x: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Body and headers of rows: raw numbers, which the service reads without a copy; other arrays as `.npy`."""
    array = array_of(x)
    if array.dtype.kind not in "biuf" or array.ndim == 0 or array.size == 0:
        return {"content": _npy(array), "headers": NPY}
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):  # infinite values are refused by the service, with their row
            array = array.astype("<f4", copy=False)
    first = b"" if names is None else json.dumps(list(names)).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Shape": ",".join(str(side) for side in array.shape),
        "X-Dtype": "uint8" if array.dtype == np.uint8 else "float32",
    }
    if first:
        headers["X-Tasks-Bytes"] = str(len(first))
    return {"content": first + array.tobytes(), "headers": headers}


def _npy(array: npt.NDArray[Any]) -> bytes:
    packed = io.BytesIO()
    np.save(packed, np.ascontiguousarray(array), allow_pickle=False)
    return packed.getvalue()


def predict_request(
    x: Any, task: str | Sequence[str] | None, *, probabilities: bool, candidates: Sequence[str] | None
) -> dict[str, Any]:
    """Arguments of the HTTP request that predicts."""
    one = task is None or isinstance(task, str)
    query: dict[str, Any] = {"probabilities": "true" if probabilities else "false"}
    query |= {"task": task} if isinstance(task, str) else {}
    query |= {} if candidates is None else {"candidate": list(candidates)}
    return rows_request(x, None if one else list(task or ())) | {"params": query}


def infer_request(x: Any, *, top: int, candidates: Sequence[str] | None) -> dict[str, Any]:
    """Arguments of the HTTP request that infers a task."""
    query: dict[str, Any] = {"top": top} | ({} if candidates is None else {"candidate": list(candidates)})
    return rows_request(x) | {"params": query}


def prediction_of(response: Mapping[str, Any]) -> Prediction:
    found = response["tasks"] if response["task"] is None else response["task"]
    return Prediction(response["labels"], found, response["probabilities"])


def labelled_request(x: Any, y: Any) -> dict[str, Any]:
    """Arguments of an HTTP request with rows and their labels."""
    return {"json": {"rows": array_of(x).tolist(), "labels": plain_labels(y)}}


def plain_labels(y: Any) -> list[Any]:
    """Labels as JSON takes them: arrays as numbers, sets of labels as lists."""
    values = y.tolist() if hasattr(y, "tolist") else y
    values = [one.item() if isinstance(one, np.generic) else one for one in values]
    return [sorted(one) if isinstance(one, set | frozenset) else one for one in values]


def answers_of(response: Mapping[str, Any]) -> list[RowAnswer]:
    return [RowAnswer(**one) for one in response["answers"]]


def task_address(task: str) -> str:
    return f"/v1/tasks/{quote(task, safe='')}"


def checked(response: httpx.Response) -> httpx.Response:
    """The response; raises RemoteError where it is an error."""
    if response.is_success:
        return response
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "unknown", response.text[:200]
    raise RemoteError(response.status_code, code, message)


def unreachable(base_url: object, error: Exception) -> RemoteError:
    return RemoteError(0, "unreachable", f"{base_url} cannot be reached: {error}")


def may_repeat(outcome: httpx.Response | httpx.TransportError, *, harmless: bool) -> bool:
    """Whether to send a request again.

    One that changes nothing (`harmless`) is repeated whenever that may help; any other only when it was refused
    before anything was done.
    """
    if isinstance(outcome, httpx.Response):
        return outcome.status_code == 429 or (outcome.status_code == 503 and harmless)
    return isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout) or (
        harmless and not isinstance(outcome, httpx.ReadTimeout)
    )


def wait_seconds(attempt: int, outcome: httpx.Response | httpx.TransportError) -> float:
    """How long to wait before trying again: twice as long each time, with jitter, or the service's Retry-After."""
    asked: str = outcome.headers.get("retry-after", "") if isinstance(outcome, httpx.Response) else ""
    wait: float = min(LONGEST_WAIT, 0.1 * 2**attempt) * (0.5 + random.random() / 2)
    return min(LONGEST_WAIT, max(wait, float(asked))) if asked.isdigit() else wait
