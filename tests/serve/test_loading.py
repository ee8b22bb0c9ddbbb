"""A bank that hangs: tasks in memory are predicted as before, and everything else is an error after a while."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import torch

import crwn
from crwn.contexts import Context
from crwn.contexts.bank import Bank, open_bank
from crwn.learner import Learner
from crwn.serve.limits import Limits
from serving import Array, refusal, running, wait_until

STATISTICS = ("sketch", "own_entropy")  # what makes task inference choose candidates


class Hanging:
    """A bank whose every method hangs while `hangs` is set, as a database server does that was stopped."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self.hangs = threading.Event()
        self.goes_on = threading.Event()
        self.waiting = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bank, name)
        return self._hang(found) if callable(found) else found

    def __len__(self) -> int:
        count: int = self._hang(lambda: len(self._bank))()
        return count

    def _hang(self, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.hangs.is_set():
                self.waiting += 1
                self.goes_on.wait()
            return method(*args, **kwargs)

        return call


def test_a_bank_that_hangs_stops_nothing_that_is_in_memory(learner: Learner, digits: tuple[Array, Array]) -> None:
    x = digits[0][:4]
    hanging: Any = Hanging(open_bank(None, model=learner.fingerprint))
    hanging.put_many([learner.context(name) for name in learner.tasks])
    limits = Limits(refresh_seconds=0.01, bank_seconds=0.2)
    with Learner(learner.model, bank=hanging) as second, running(second, limits=limits) as served:
        try:
            with crwn.Client(served.address) as client:
                wanted = client.predict(x, "upright").labels
                hanging.hangs.set()
                wait_until(lambda: hanging.waiting > 0, "somebody waits for the bank")
                for _ in range(20):
                    assert client.predict(x, "upright").labels == wanted
                cold = httpx.post(f"{served.address}/v1/predict", json={"rows": x.tolist(), "task": "mirrored"})
                assert refusal(cold) == (503, "bank_unavailable")
                for path in ("/healthz", "/v1/tasks", "/v1/tasks/upright", "/v1/model"):
                    assert refusal(httpx.get(f"{served.address}{path}")) == (503, "bank_unavailable")
                assert client.predict(x, "upright").labels == wanted
                hanging.hangs.clear()
                hanging.goes_on.set()
                wait_until(lambda: httpx.get(f"{served.address}/healthz").status_code == 200, "the bank is used again")
                assert client.predict(x, "mirrored").labels == learner.predict(x, "mirrored").tolist()
        finally:
            hanging.hangs.clear()
            hanging.goes_on.set()


def many_tasks(learner: Learner, count: int, task: str = "upright", left_out: Sequence[str] = STATISTICS) -> list[str]:
    """Store copies of a context under many names, without some of its facts."""
    kept = learner.context(task)
    names = [f"copy {i:05}" for i in range(count)]
    bare = {key: value for key, value in kept.info.items() if key not in left_out}
    learner.bank.put_many(Context(name, kept.tensors, kept.classes, kept.model, info=bare) for name in names)
    return names


def test_inferring_among_many_tasks_lets_predictions_through(learner: Learner, digits: tuple[Array, Array]) -> None:
    many_tasks(learner, 3000)
    x = digits[0][:64]
    ended: list[str] = []

    def infer() -> None:
        learner.infer_task(x, method="exhaustive")
        ended.append("inference")

    learner.predict(x[:1], "upright")
    thread = threading.Thread(target=infer)
    thread.start()
    while not learner._busy.locked() and thread.is_alive():
        pass
    for _ in range(3):
        learner.predict(x[:1], "upright")
    ended.append("predictions")
    thread.join()
    assert ended[0] == "predictions"


def test_inference_has_a_queue_candidates_and_a_limit(learner: Learner, digits: tuple[Array, Array]) -> None:
    x = digits[0][:32]
    names = many_tasks(learner, 100)
    limits = Limits(inference_tasks=50, candidates=3, inferences=2)
    with running(learner, limits=limits) as served, httpx.Client(base_url=served.address, timeout=60) as http:

        def ask(candidates: Sequence[str] | None, path: str = "/v1/infer-task") -> httpx.Response:
            return http.post(path, json={"rows": x.tolist(), "candidates": candidates})

        assert refusal(ask(None)) == (422, "candidates_needed")
        assert refusal(ask(None, "/v1/predict")) == (422, "candidates_needed")
        assert refusal(ask(names)) == (422, "invalid_option")
        assert refusal(ask([])) == (422, "invalid_option")
        assert refusal(ask(["lost"])) == (404, "unknown_task")
        found = ask(["mirrored", "upright"]).json()
        assert [one["task"] for one in found["ranking"]] == ["upright", "mirrored"]
        assert ask(["mirrored", "upright"], "/v1/predict").json()["task"] == "upright"
        served.service.inference.waiting = limits.inferences
        assert refusal(ask(["upright"])) == (503, "busy")
        assert http.post("/v1/predict", json={"rows": x.tolist(), "task": "upright"}).status_code == 200


def test_inference_sees_what_another_service_changed(learner: Learner, digits: tuple[Array, Array]) -> None:
    assert learner.folder is not None
    x = digits[0][:64]
    turned = x.reshape(-1, 8, 8).transpose(0, 2, 1).reshape(-1, 64).copy()
    many_tasks(learner, 70, "mirrored", left_out=())  # enough for sketches
    with Learner.load(learner.folder) as second, running(second) as served, crwn.Client(served.address) as client:
        assert client.infer_task(x).ranking[0]["task"] == "upright"
        learner.learn("turned", turned, digits[1][:64], batches=200, progress=False)
        assert client.infer_task(turned).ranking[0]["task"] == "turned"
        learner.forget("turned")
        assert "turned" not in [one["task"] for one in client.infer_task(turned, top=1000).ranking]


@pytest.mark.parametrize("per_column", [False, True])
def test_likely_tasks_are_those_of_all_sketches(
    learner: Learner, digits: tuple[Array, Array], per_column: bool
) -> None:
    """The index of sketches, kept up to date, chooses the same tasks as reading every context does."""
    generator = torch.Generator().manual_seed(0)
    x, y = digits
    kept = learner.context("upright")
    for i in range(70):
        order = torch.randperm(64, generator=generator).numpy()
        scale = 1 + 99 * (torch.arange(64).numpy() % 2) if per_column else 1
        learner.learn(f"p{i:02}", x[:40, order] * scale, y[:40], batches=1, progress=False)
    wanted = [one.task for one in learner.infer_task(x[:32], tasks=learner.tasks, method="sketch", keep=5)]
    assert [one.task for one in learner.infer_task(x[:32], method="sketch", keep=5)] == wanted
    assert kept.name in wanted
    for name in wanted[:2]:
        learner.forget(name)
    wanted = [one.task for one in learner.infer_task(x[:32], tasks=learner.tasks, method="sketch", keep=5)]
    assert [one.task for one in learner.infer_task(x[:32], method="sketch", keep=5)] == wanted
