"""Progress of runs on stderr: bars with rate and remaining time on a terminal, a line per task in log files."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from crwn._utils import Lines, display
from crwn.cli.options import counted
from crwn.experiments import RunConfig, RunProgress


class RunBars(RunProgress):
    """A bar per run on a terminal, plain lines elsewhere, nothing with `--quiet`."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.shown = display()
        self.lines = Lines()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=self.console,
            speed_estimate_period=600,
        )
        self.bar: TaskID | None = None
        self.fetches: dict[str, TaskID] = {}
        self.label = ""
        self.tasks = self.done = self.before = 0
        self.began = time.monotonic()

    def __enter__(self) -> RunBars:
        if self.shown == "bars":
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown == "bars":
            self.progress.stop()

    def fetching(self, what: str, done: int, total: int | None) -> None:
        self._now_and_then(what, done / total if total else None)
        if what not in self.fetches:
            self.fetches[what] = self.progress.add_task(what, total=total, rate="", last="")
        self.progress.update(self.fetches[what], completed=done, total=total)

    def begins(self, config: RunConfig, tasks: int, done: int) -> None:
        self.label = f"{config.scenario_name} {config.label} seed {config.seed}"
        self.tasks, self.done, self.before = tasks, done, done
        self.began = time.monotonic()
        self.bar = self.progress.add_task(self.label, total=tasks, completed=done, rate="", last="")
        before = f", {done} of them done before" if done else ""
        self._line(f"{self.label}: {counted(tasks, 'task')}{before}", instead_of_bars=True)

    def learning(self, first: int, last: int, done: float) -> None:
        if self.bar is not None:
            reached = first + done * (last + 1 - first)
            self.progress.update(self.bar, completed=reached, rate=self._rate(reached))
            which = f"task {first + 1}" if first == last else f"tasks {first + 1} to {last + 1}"
            self._now_and_then(f"{self.label}: {which} of {self.tasks}", done)

    def learned(self, task: int, name: str, accuracy: float, seconds: float) -> None:
        self.done = task + 1
        if self.bar is not None:
            self.progress.update(self.bar, completed=self.done, last=f"{name} {accuracy:.2f}%")
        text = f"{self.label}: task {task + 1} of {self.tasks}, {name}, {accuracy:.2f}%, {seconds:.1f} s"
        self._line(text, instead_of_bars=True)

    def evaluating(self, done: int, total: int) -> None:
        if self.bar is not None:
            self.progress.update(self.bar, last=f"evaluating {done} of {total}")

    def suite(self, share: float, finished: int, runs: int) -> None:
        if self.bar is None:
            self.began, self.tasks = time.monotonic(), runs
            self.bar = self.progress.add_task("all runs", total=1.0, rate="", last="")
        self.progress.update(self.bar, completed=min(share, 1.0), last=f"{finished} of {runs} runs finished")

    def note(self, text: str) -> None:
        self._line(f"note: {text}")

    def _rate(self, reached: float) -> str:
        passed = time.monotonic() - self.began
        gained = reached - self.before
        return f"{passed / gained:.1f} s per task" if gained > 0 and passed > 1 else ""

    def _line(self, text: str, *, instead_of_bars: bool = False) -> None:
        if self.shown == "lines" or (self.shown == "bars" and not instead_of_bars):
            # soft_wrap: a log line stays one line at any width of the terminal.
            self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def _now_and_then(self, what: str, share: float | None) -> None:
        if self.shown == "lines":
            self.lines.show(lambda: what if share is None else f"{what}, {share:.0%}")
