"""Work done on Ray: on a cluster of this machine's cores that is started for it, or on the one at an address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

import torch

from crwn._utils import cores
from crwn.errors import CRWNError, MissingExtraError
from crwn.training.engines.packing import Packer, unpack
from crwn.training.engines.progress import (
    REPORT_SECONDS,
    StepForwarder,
    StepReporter,
    Steps,
    worker_failed,
    workers_died,
)
from crwn.training.engines.work import Result, Work
from crwn.training.loop import Callback

Report = tuple[tuple[int, int], int, Steps]  # call and piece, how many steps came before, steps


class RayEngine:
    """Does pieces of work on the workers of a Ray cluster; one that dies is replaced and its work repeated.

    Callbacks receive every step of every piece, in order within a piece, without `tensors`: contexts stay in the
    worker until they are learned. Used in a `with` block the engine keeps its cluster for several calls.

    Args:
        address: a running cluster ("host:6379", "auto"), by default that of RAY_ADDRESS, or a cluster of this
            machine's cores that ends with the work.
        threads: threads of one worker, by default those of this process: with as many the numbers are the same.
        workers: how many workers a cluster of our own has; by default as many as there are cores for.
        retries: how often the work of a worker that died is repeated.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        threads: int | None = None,
        workers: int | None = None,
        retries: int = 5,
    ) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS")
        self.threads = threads or torch.get_num_threads()
        self.workers = workers
        self.retries = retries
        self._users = 0
        self._started = False
        self._reports: Any = None
        self._calls = 0

    def run(self, work: Sequence[Work[Result]], *, callbacks: Sequence[Callback] = ()) -> Iterator[tuple[int, Result]]:
        with self:
            yield from self._run(work, callbacks)

    def _run(self, work: Sequence[Work[Result]], callbacks: Sequence[Callback]) -> Iterator[tuple[int, Result]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        remote = ray.remote(num_cpus=self.threads, max_retries=self.retries)(_on_worker)
        reports = self._reports_of_workers() if callbacks else None
        self._calls += 1
        call = self._calls
        packer = Packer(ray.put)
        under_way: dict[Any, int] = {}
        waiting = iter(enumerate(work))
        # Enough to keep every worker busy; a million pieces are not packed at once.
        most = max(4, 2 * int(ray.cluster_resources().get("CPU", 1)))
        steps_of = StepForwarder(callbacks)
        try:
            while True:
                while len(under_way) < most and (following := next(waiting, None)) is not None:
                    position, piece = following
                    packed = packer.pack(piece)
                    reference = remote.remote(packed.data, self.threads, reports, (call, position), *packed.large)
                    under_way[reference] = position
                if not under_way:
                    break
                done, _ = ray.wait(list(under_way), timeout=REPORT_SECONDS if callbacks else None)
                if reports is not None:
                    self._forward(reports, call, steps_of)
                for reference in done:
                    position = under_way.pop(reference)
                    result, steps = ray.get(reference)
                    steps_of.forward(position, 0, steps)
                    yield position, result
        except RayTaskError as error:
            raise worker_failed(getattr(error, "cause", None)) from error
        except RayError as error:
            raise workers_died(self.retries + 1, str(error).strip().splitlines()[0]) from error
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)

    def _reports_of_workers(self) -> Any:
        """One for all calls of this engine: starting it takes as long as importing torch."""
        import ray

        if self._reports is None:
            self._reports = ray.remote(num_cpus=0, max_restarts=-1)(_Reports).remote()
        return self._reports

    def _forward(self, reports: Any, call: int, steps_of: StepForwarder) -> None:
        import ray

        try:
            found: list[Report] = ray.get(reports.take.remote(), timeout=10)
        except ray.exceptions.RayError:
            return  # steps come again with the result; the work does not depend on them
        for (of_call, position), first, steps in found:
            if of_call == call:
                steps_of.forward(position, first, steps)

    def __enter__(self) -> Self:
        if self._users == 0:
            self._start()
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if self._users:
            return
        import ray

        if self._reports is not None:
            with suppress(ray.exceptions.RayError):
                ray.kill(self._reports)
            self._reports = None
        if self._started:
            self._started = False
            ray.shutdown()

    def _start(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the Ray engine", "ray") from None
        if ray.is_initialized():
            return
        where: dict[str, Any] = {"address": self.address}
        if self.address is None:
            count = self.workers * self.threads if self.workers else max(cores(), self.threads)
            where = {"address": "local", "num_cpus": count, "include_dashboard": False}
        try:
            ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            place = "on this machine" if self.address is None else f"at {self.address}"
            raise CRWNError(f"there is no Ray cluster {place}: {str(error).splitlines()[0]}") from None
        self._started = True
        _notices_to_stderr()


def _on_worker(data: bytes, threads: int, reports: Any, number: tuple[int, int], *large: Any) -> tuple[Any, Steps]:
    """The result, and all steps: those that were sent on the way may still be on it."""
    torch.set_num_threads(threads)
    work = unpack(data, list(large))
    if reports is None:
        return work.do(), []
    # It never waits for a reply: Ray gives the core of a worker that waits to the next piece of work, and the two
    # would then run on one core.
    reporter = StepReporter(lambda sent, steps: reports.put.remote((number, sent, steps)))
    return work.do((reporter,)), reporter.steps


class _Reports:
    """Holds the steps that workers report until the caller takes them."""

    def __init__(self) -> None:
        self.kept: list[Report] = []

    def put(self, report: Report) -> None:
        self.kept.append(report)

    def take(self) -> list[Report]:
        taken, self.kept = self.kept, []
        return taken


def _notices_to_stderr() -> None:
    """Ray prints its notices of dead workers on stdout, where results go, and has no setting for it."""
    from ray._private import worker

    original = getattr(worker, "print_to_stdstream", None)
    if original is not None and not getattr(original, "by_crwn", False):

        def to_stderr(data: dict[str, Any], *rest: Any, **more: Any) -> None:
            first = [str(line).split(". ")[0] for line in data.get("lines", ())]  # of a screenful
            original({**data, "lines": first, "is_err": True}, *rest, **more)

        to_stderr.by_crwn = True  # type: ignore[attr-defined]
        worker.print_to_stdstream = to_stderr
