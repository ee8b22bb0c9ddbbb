"""The batcher: requests that share a pass get the outputs they would get alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from torch import nn

import crwn
from crwn.data.inputs import rows_of
from crwn.errors import DataError, TaskError
from crwn.learner import Learner
from crwn.serve.batcher import Batcher, Outputs
from crwn.serve.client import RemoteError
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from serving import Array, Running

Request = tuple[Array, str | list[str]]


def predict_together(batcher: Batcher, *requests: Request) -> list[Outputs | BaseException]:
    """The results of requests that are all queued before the batcher starts."""

    async def predict() -> list[Outputs | BaseException]:
        shape = batcher.learner.input_shape
        given = [(rows_of(x, shape=shape).x.numpy(), tasks) for x, tasks in requests]
        waiting = [asyncio.ensure_future(batcher.predict(x, tasks)) for x, tasks in given]
        await asyncio.sleep(0)
        batcher.start()
        return await asyncio.gather(*waiting, return_exceptions=True)

    try:
        return asyncio.run(predict())
    finally:
        batcher.stop()


def assert_as_alone(learner: Learner, request: Request, outputs: Outputs | BaseException) -> None:
    assert isinstance(outputs, Outputs)
    x, tasks = request
    names = [tasks] * len(x) if isinstance(tasks, str) else tasks
    assert outputs.tasks == names
    for row, name, logits in zip(x, names, outputs.logits, strict=True):
        wanted, _, classes = learner.logits(row[None], name)
        torch.testing.assert_close(logits[: len(classes[name])], wanted[0], atol=1e-4, rtol=1e-4)
        assert outputs.classes[name] == classes[name]


@pytest.fixture(scope="module")
def convolutional() -> Iterator[Learner]:
    """A learner whose model cannot take a context per row."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    model: Any = crwn.neuromodulate(module, seed=0)
    model.classes, model.input_shape = 3, (1, 8, 8)
    x = np.random.default_rng(0).normal(size=(40, 1, 8, 8)).astype(np.float32)
    with Learner(model) as learner:
        learner.learn("three", x, np.arange(40) % 3, batches=5, progress=False)
        learner.learn("two", x, np.arange(40) % 2, batches=5, progress=False)
        yield learner


def test_requests_of_different_tasks_share_one_pass(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    requests: list[Request] = [(x[:2], "upright"), (x[2:3], "mirrored"), (x[3:5], ["mirrored", "upright"])]
    metrics = Metrics()
    results = predict_together(Batcher(learner, Limits(), metrics), *requests)
    for request, outputs in zip(requests, results, strict=True):
        assert_as_alone(learner, request, outputs)
    text = metrics.text().decode()
    assert "crwn_batch_requests_sum 3.0" in text
    assert "crwn_batch_requests_count 1.0" in text
    assert "crwn_batch_rows_sum 5.0" in text


def test_convolutions_predict_task_by_task(convolutional: Learner) -> None:
    x = np.random.default_rng(1).normal(size=(6, 1, 8, 8)).astype(np.float32)
    requests: list[Request] = [(x[:2], "two"), (x[2:3], "two"), (x[3:], ["three", "two", "three"])]
    metrics = Metrics()
    results = predict_together(Batcher(convolutional, Limits(), metrics), *requests)
    for request, outputs in zip(requests, results, strict=True):
        assert_as_alone(convolutional, request, outputs)
    assert "crwn_batch_requests_count 2.0" in metrics.text().decode()


def test_one_bad_request_does_not_fail_the_others(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    requests: list[Request] = [(x[:1], "upright"), (x[:1], "lost"), (np.full((1, 64), 3e38, np.float32), "upright")]
    good, lost, large = predict_together(Batcher(learner, Limits(), Metrics()), *requests)
    assert_as_alone(learner, requests[0], good)
    assert isinstance(lost, TaskError)
    assert isinstance(large, DataError)


def test_a_full_queue_and_a_late_result_are_errors(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    limits = Limits(waiting_rows=3, predict_seconds=0.05)

    async def predict(batcher: Batcher) -> list[Outputs | BaseException]:
        return await asyncio.gather(*(batcher.predict(x[:2], "upright") for _ in range(2)), return_exceptions=True)

    # Nothing is predicted: the thread is not started.
    late, refused = asyncio.run(predict(Batcher(learner, limits, Metrics())))
    assert isinstance(late, ServeError)
    assert (late.status, late.code) == (503, "timeout")
    assert isinstance(refused, ServeError)
    assert (refused.status, refused.code, refused.headers) == (503, "busy", {"Retry-After": "1"})


def test_clients_at_once_share_passes(service: Running, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, _ = digits
    names = ["upright", "mirrored"]
    wanted = {(i, name): learner.predict_proba(x[i : i + 1], name)[0] for i in range(40) for name in names}
    failures: list[str] = []

    def ask(number: int) -> None:
        with crwn.Client(service.address) as client:
            for i in range(number % 7, 40, 3):
                name = names[(i + number) % 2]
                if i % 10 == 9:
                    try:
                        client.predict(x[i : i + 1], "lost")
                        failures.append("an unknown task was predicted")
                    except RemoteError as error:
                        if error.code != "unknown_task":
                            failures.append(str(error))
                got = client.predict(x[i : i + 1], name, probabilities=True).probabilities
                if got is None or np.abs(np.asarray(got[0]) - wanted[i, name]).max() > 1e-5:
                    failures.append(f"row {i} of {name} differs")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    metrics = httpx.get(f"{service.address}/metrics").text
    counts = {line.split(" ")[0]: float(line.split(" ")[1]) for line in metrics.splitlines() if line[0] != "#"}
    assert counts["crwn_batch_requests_sum"] > counts["crwn_batch_requests_count"], "no two requests shared a pass"
