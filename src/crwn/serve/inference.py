"""Task inference of requests: one at a time in a thread of its own, so that predictions never wait for its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from crwn.data.inputs import rows_of
from crwn.learner import Learner
from crwn.learner.ranking import TaskScore
from crwn.serve.body import Array
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits


class Inference:
    """Ranks tasks for groups of rows; the model is free for predictions between two stacks of contexts."""

    def __init__(self, learner: Learner, limits: Limits) -> None:
        self.learner = learner
        self.limits = limits
        self.waiting = 0
        self._thread = ThreadPoolExecutor(1, "crwn-inference")

    async def rank(self, x: Array, candidates: Sequence[str] | None) -> list[TaskScore]:
        """The candidates, or all tasks, ranked by how well they fit these rows as a group, best first.

        Raises:
            ServeError: there are no tasks, too many to search, or too many requests wait.
        """
        if self.waiting >= self.limits.inferences:
            raise ServeError.busy("too many groups of rows wait for their task")
        self.waiting += 1
        run = asyncio.get_running_loop().run_in_executor(self._thread, self._rank, x, candidates)
        run.add_done_callback(self._ended)
        seconds = self.limits.predict_seconds
        try:
            async with asyncio.timeout(seconds):
                return await run  # on a timeout it is cancelled, where it has not begun
        except TimeoutError:
            raise ServeError(503, "timeout", f"no task within {seconds:g} s: try again") from None

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ended(self, run: asyncio.Future[list[TaskScore]]) -> None:
        self.waiting -= 1
        if not run.cancelled():
            run.exception()

    def _rank(self, x: Array, candidates: Sequence[str] | None) -> list[TaskScore]:
        rows = rows_of(torch.from_numpy(x[: self.limits.inference_rows].copy()), shape=self.learner.input_shape)
        self.learner.refresh()
        count, most = len(self.learner.bank), self.limits.inference_tasks
        if not count:
            raise ServeError(404, "no_tasks", "there are no tasks yet: learn one first")
        if candidates is None and count > most:
            message = f"{count:,} tasks are too many to search, the limit is {most:,}: name candidates"
            raise ServeError(422, "candidates_needed", message)
        return self.learner.infer_task(rows, tasks=candidates)
