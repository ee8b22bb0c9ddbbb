"""Endpoints of learning jobs: progress, cancelling, and their number."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import httpx
import numpy as np
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from crwn.serve.limits import Limits
from serving import Array, refusal, running, wait_until


def test_cancel_and_too_many(learner: Learner, small_limits: Limits, digits: tuple[Array, Array]) -> None:
    x, y = digits
    rows = x[:200].astype(np.uint8)
    with running(learner, limits=small_limits) as served, crwn.Client(served.address) as client:
        first = client.learn("first", rows, y[:200], batches=100_000)
        second = client.learn("second", rows, y[:200], batches=100_000)
        with pytest.raises(RemoteError) as crowded:
            client.learn("third", rows, y[:200])
        assert (crowded.value.status, crowded.value.code) == (429, "too_many_jobs")
        for event in first:
            if event["step"] > 5:
                break
        with pytest.raises(RemoteError) as busy:
            client.put_context(client.get_context("upright"), name="first")
        assert (busy.value.status, busy.value.code) == (409, "being_learned")
        second.cancel()
        assert httpx.get(f"{served.address}/v1/jobs/{second.id}").json()["state"] == "cancelled"
        # Predictions continue while a task is learned.
        assert client.predict(x[:3], "upright").task == "upright"
        first.cancel()
        assert list(first)[-1]["state"] == "cancelled"
        with pytest.raises(RemoteError, match="cancelled on request"):
            first.wait()
        assert sorted(task["name"] for task in client.tasks()) == ["mirrored", "upright"]
        client.learn("third", rows, y[:200], batches=3).wait()


def test_a_job_that_ended_stays_as_it_is(client: crwn.Client, http: httpx.Client, digits: tuple[Array, Array]) -> None:
    x, y = digits
    job = client.learn("short", x[:50], y[:50], batches=3)
    assert job.wait()["name"] == "short"
    job.cancel()
    state = http.get(f"/v1/jobs/{job.id}").json()
    assert (state["state"], state["step"], state["steps"]) == ("done", 3, 3)
    assert [event["state"] for event in job] == ["done"]


def test_a_burst_of_streams_stays_within_the_limit(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(streams=4)) as served, crwn.Client(served.address) as client:
        job = client.learn("task", x, y, batches=100_000)
        path = f"{served.address}/v1/jobs/{job.id}/events"

        async def watch(count: int) -> list[int]:
            async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as http:

                async def status() -> httpx.Response:
                    return await http.send(http.build_request("GET", path), stream=True)

                responses = await asyncio.gather(*(status() for _ in range(count)))
                for response in responses:
                    await response.aclose()
            return [response.status_code for response in responses]

        found = asyncio.run(watch(40))
        assert (found.count(200), found.count(429)) == (4, 36)
        wait_until(lambda: served.service.streams == 0, "all streams have ended")
        assert asyncio.run(watch(1)) == [200]
        job.cancel()


def test_only_streams_are_refused_when_they_are_too_many(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(streams=1)) as served, crwn.Client(served.address) as client:
        job = client.learn("task", x, y, batches=100_000)
        events = f"/v1/jobs/{job.id}/events"
        with httpx.Client(base_url=served.address, timeout=60) as http, http.stream("GET", events) as first:
            assert first.status_code == 200
            refused = http.get(events)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
            assert refused.headers["x-content-type-options"] == "nosniff"
            assert http.get(events, headers={"Host": "evil.example"}).status_code == 403
            assert http.get("/v1/jobs/none/events").status_code == 404
            assert http.get(f"/v1/jobs/{job.id}").json()["id"] == job.id
            assert http.get("/v1/jobs/none").status_code == 404
            lines = [line for line in http.get("/metrics").text.splitlines() if "requests" in line and "429" in line]
            assert any('"/v1/jobs/{job}/events"' in line and line.endswith(" 1.0") for line in lines), lines
        job.cancel()


def test_uploads_that_are_being_read_count_as_jobs(learner: Learner) -> None:
    head = b"POST /v1/tasks/%d/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"
    with running(learner, limits=Limits(jobs=2)) as served, ExitStack() as stack:
        port = int(served.address.rpartition(":")[2])
        for i in range(2):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            line.sendall(head % i)
        third = {"x": [[0.0] * 64] * 2, "y": [0, 1], "batches": 1}
        address = f"{served.address}/v1/tasks/third/learn"
        wait_until(lambda: served.service.jobs._reserved == 2, "both are counted")
        assert refusal(httpx.post(address, json=third)) == (429, "too_many_jobs")
        stack.close()
        wait_until(
            lambda: httpx.post(address, json=third | {"replace": True}).status_code == 202, "there is room again"
        )


def test_unknown_jobs_and_too_many_streams(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(streams=0)) as served, crwn.Client(served.address) as client:
        job = client.learn("task", x[:50], y[:50], batches=3)
        assert refusal(httpx.get(f"{served.address}/v1/jobs/{job.id}/events")) == (429, "too_many_streams")
        for path in ("/v1/jobs/none", "/v1/jobs/none/events"):
            assert refusal(httpx.get(served.address + path)) == (404, "unknown_job")
