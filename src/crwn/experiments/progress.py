"""Progress of runs: what a run reports while it works. The class here ignores everything."""

from __future__ import annotations

from crwn.experiments.config import RunConfig


class RunProgress:
    """Receives the progress of a run; override the methods of interest."""

    def fetching(self, what: str, done: int, total: int | None) -> None:
        """Data is being fetched."""

    def begins(self, config: RunConfig, tasks: int, done: int) -> None:
        """The run has this many tasks, of which some were done before."""

    def learning(self, first: int, last: int, done: float) -> None:
        """Tasks first..last are being learned; `done` is the share of their batches."""

    def learned(self, task: int, name: str, accuracy: float, seconds: float) -> None:
        """A task is learned and stored, with its accuracy right after learning."""

    def evaluating(self, done: int, total: int) -> None:
        """All tasks are being evaluated at the end."""

    def suite(self, share: float, finished: int, runs: int) -> None:
        """Several runs are under way at once: the share of all their batches, and how many are finished."""

    def note(self, text: str) -> None:
        """A line the user should see."""
