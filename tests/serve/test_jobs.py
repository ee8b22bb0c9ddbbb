"""Learning jobs: cancelled, stopped, or finished when the service stops."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import crwn
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from crwn.serve.errors import ServeError
from crwn.serve.jobs import STOPPED, Job, Jobs
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from crwn.training.loop import Step
from serving import Array, mirrored, running, wait_until


class Steps:
    """A learn function that takes one step, waits until it may go on, and takes the last one."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.may_end = threading.Event()

    def __call__(self, job: Job) -> Mapping[str, Any]:
        for step in (1, self.steps):
            job.callback(Step(step, self.steps, ("task",), torch.tensor([0.5]), 0.1, {}))
            assert self.may_end.wait(60)
        return {"rows": 1}


def test_a_stop_waits_for_a_job_that_is_nearly_done_and_cancels_the_rest() -> None:
    jobs = Jobs(Limits(grace_seconds=600), Metrics())
    jobs.start()
    learn = Steps(2)
    first, second = jobs.add("first", learn), jobs.add("second", Steps(2))
    wait_until(lambda: first.step == 1, "the first job runs")
    jobs.begin_stop()
    assert (first.state, second.state, second.message) == ("learning", "cancelled", STOPPED)
    with pytest.raises(ServeError) as refused:
        jobs.add("third", Steps(2))
    assert (refused.value.status, refused.value.code) == (503, "stopping")
    learn.may_end.set()
    jobs.stop()
    assert (first.state, first.step, first.facts) == ("done", 2, {"rows": 1})


def test_a_stop_cancels_a_job_that_would_take_too_long() -> None:
    jobs = Jobs(Limits(grace_seconds=5), Metrics())
    jobs.start()
    learn = Steps(10**12)
    job = jobs.add("task", learn)
    wait_until(lambda: job.step == 1, "the job runs")
    jobs.begin_stop()
    assert not job.ended  # it ends at its next step
    learn.may_end.set()
    jobs.stop()
    assert (job.state, job.message, job.facts) == ("cancelled", STOPPED, {})


def test_jobs_that_ended_long_ago_are_dropped() -> None:
    jobs = Jobs(Limits(kept_jobs=2), Metrics())
    jobs.start()
    made = []
    for i in range(4):
        learn = Steps(1)
        learn.may_end.set()
        made.append(jobs.add(f"task {i}", learn))
        wait_until(lambda: made[-1].ended, "the job ends")
    assert [jobs.get(job.id).state for job in made[1:]] == ["done"] * 3
    with pytest.raises(ServeError, match="no such job"):
        jobs.get(made[0].id)
    jobs.stop()


def test_learning_that_takes_too_long(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(learn_seconds=0.5)) as served, crwn.Client(served.address) as client:
        with pytest.raises(RemoteError) as ended:
            client.learn("slow", x, y, batches=100_000).wait()
        assert ended.value.code == "learning_failed"
        assert "use fewer batches" in str(ended.value)
    assert "slow" not in learner.tasks


def test_the_service_stops_in_the_middle_of_learning(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    seen: list[dict[str, Any]] = []
    with running(learner, limits=Limits(grace_seconds=1.0)) as served, crwn.Client(served.address) as client:
        long = client.learn("long", x, y, batches=200_000)
        waiting = client.learn("waiting", x, y, batches=200_000)
        watcher = threading.Thread(target=lambda: seen.extend(long))
        watcher.start()
        jobs = served.service.jobs
        wait_until(lambda: jobs.get(long.id).step > 3, "the first job runs")
        served.stop()
        watcher.join(60)
        assert not watcher.is_alive(), "the event stream did not end with the service"
        assert (seen[-1]["state"], seen[-1]["message"]) == ("cancelled", STOPPED)
        assert 3 < jobs.get(long.id).step < 200_000
        never = jobs.get(waiting.id)
        assert (never.state, never.message, never.step) == ("cancelled", STOPPED, 0)
    assert learner.tasks == ["mirrored", "upright"]


def test_learning_that_is_nearly_done_finishes(learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    with running(learner, limits=Limits(grace_seconds=600.0)) as served, crwn.Client(served.address) as client:
        job = client.learn("quick", mirrored(x[:200]), y[:200], batches=1000)
        wait_until(lambda: served.service.jobs.get(job.id).step > 3, "the job runs")
        served.stop()
        done = served.service.jobs.get(job.id)
        assert (done.state, done.step) == ("done", 1000)
    assert "quick" in learner.tasks
