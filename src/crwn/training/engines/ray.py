"""Work done on Ray: on a cluster of this machine's cores that is started for it, or on the one at an address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import torch

from crwn.engine.learning import as_learning, learn
from crwn.engine.packing import Packer, unpack
from crwn.engine.telling import TELL_SECONDS, Steps, Teller, tell_new
from crwn.engine.work import Done, Work, cores
from crwn.errors import CRWNError, MissingExtraError
from crwn.training import Callback

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Report = tuple[tuple[int, int], int, Steps]  # call and piece, how many steps came before, steps


class RayEngine:
    """Does pieces of work on the workers of a Ray cluster; one that dies is replaced and its work done again.

    Callbacks are told every step of every piece, in order within a piece, without `tensors`: contexts stay with
    the worker until they are learned. Used in a `with` block it keeps its cluster for several calls.

    Args:
        address: a running cluster ("host:6379", "auto"), by default that of RAY_ADDRESS, or a cluster of this
            machine's cores that ends with the work.
        threads: threads of one worker, by default those of this process: with as many the numbers are the same.
        workers: how many workers a cluster of our own has; by default as many as there are cores for.
        retries: how often the work of a worker that died is done again.
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

    def run(self, work: Sequence[Work], *, callbacks: Sequence[Callback] = ()) -> Done:
        return self.each(learn, [as_learning(one) for one in work], callbacks=callbacks)

    def each(
        self,
        do: Callable[[Piece, Sequence[Callback]], Result],
        pieces: Sequence[Piece],
        *,
        callbacks: Sequence[Callback] = (),
    ) -> Iterator[tuple[int, Result]]:
        """`do(piece, callbacks)` on workers: the number and result of each piece as it is done."""
        with self:
            yield from self._each(do, pieces, callbacks)

    def _each(
        self, do: Callable[[Any, Sequence[Callback]], Any], pieces: Sequence[Any], callbacks: Sequence[Callback]
    ) -> Iterator[tuple[int, Any]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        remote = ray.remote(num_cpus=self.threads, max_retries=self.retries)(_on_worker)
        reports = self._reports_of_workers() if callbacks else None
        self._calls += 1
        call = self._calls
        packer = Packer(ray.put)
        under_way: dict[Any, int] = {}
        waiting = iter(enumerate(pieces))
        # Enough to keep every worker busy; a million pieces are not packed at once.
        most = max(4, 2 * int(ray.cluster_resources().get("CPU", 1)))
        told: dict[int, int] = {}
        try:
            while True:
                while len(under_way) < most and (following := next(waiting, None)) is not None:
                    number, piece = following
                    packed = packer.pack((do, piece))
                    reference = remote.remote(packed.data, self.threads, reports, (call, number), *packed.large)
                    under_way[reference] = number
                if not under_way:
                    break
                done, _ = ray.wait(list(under_way), timeout=TELL_SECONDS if callbacks else None)
                if reports is not None:
                    self._tell(reports, call, told, callbacks)
                for reference in done:
                    number = under_way.pop(reference)
                    result, steps = ray.get(reference)
                    tell_new(told, callbacks, number, 0, steps)
                    yield number, result
        except RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, CRWNError) else CRWNError(f"a worker failed: {cause!r}") from error
        except RayError as error:
            message = str(error).strip().splitlines()[0]
            raise CRWNError(
                f"workers died {self.retries + 1} times over the same work ({message}): "
                "give them more memory, or learn with engine local"
            ) from error
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)

    def _reports_of_workers(self) -> Any:
        """One for all calls of this engine: starting it takes as long as importing torch."""
        import ray

        if self._reports is None:
            self._reports = ray.remote(num_cpus=0, max_restarts=-1)(_Reports).remote()
        return self._reports

    def _tell(self, reports: Any, call: int, told: dict[int, int], callbacks: Sequence[Callback]) -> None:
        import ray

        try:
            found: list[Report] = ray.get(reports.take.remote(), timeout=10)
        except ray.exceptions.RayError:
            return  # progress is told again later; the work does not depend on it
        for (of_call, number), first, steps in found:
            if of_call == call:
                tell_new(told, callbacks, number, first, steps)

    def __enter__(self) -> Self:
        if self._users == 0:
            self._start()
        self._users += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    do, piece = unpack(data, list(large))
    if reports is None:
        return do(piece, ()), []
    # It never waits for an answer: Ray gives the core of a worker that waits to the next piece of work, and the two
    # would then run on one core.
    teller = Teller(lambda sent, steps: reports.put.remote((number, sent, steps)))
    return do(piece, (teller,)), teller.steps


class _Reports:
    """Where workers leave what they have to tell, and the caller takes it."""

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
