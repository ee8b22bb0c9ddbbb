"""Do a run in its folder, or read it where it is finished. Importing this file does not import torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crwn.errors import CRWNError
from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.progress import RunProgress
from crwn.experiments.result import RunResult

if TYPE_CHECKING:
    from crwn.training.loop import Callback


class OutOfTime(CRWNError):
    """The time budget is used up; everything finished is stored."""


def run(
    config: RunConfig,
    folder: Path,
    *,
    progress: RunProgress | None = None,
    deadline: float | None = None,
    callbacks: Sequence[Callback] = (),
    watcher: RunProgress | None = None,
) -> RunResult:
    """Do a run in its folder, or what is left of it; a finished one is only read.

    Args:
        folder: the run's own folder (`.../seed-0`).
        progress: receives the progress (`watcher` is the argument's name in earlier versions).
        deadline: `time.monotonic()` after which no further task begins.
        callbacks: receive every training step, like those of `Learner.learn`.

    Raises:
        ConfigError: something in the config does not exist, or the folder is damaged or holds another run.
        OutOfTime: the deadline came; the same call resumes.
    """
    progress = progress or watcher or RunProgress()
    files = RunFolder(folder)
    done = files.result() if files.holds(config) else None
    if done is not None and not config.scenario.endswith(".toml"):
        return done
    from crwn.experiments.runner import Runner

    # Names and options are checked before any folder is made.
    record = files.record()
    runner = Runner(config, files, record, progress, deadline, callbacks)
    if done is not None:
        runner.check_data()  # the data of a TOML scenario are the user's files, and may have changed since
        return done
    with files.locked():
        # Another process may have been here while this one got ready.
        if files.holds(config) and (done := files.result()) is not None:
            return done
        found = files.record()
        if found != record:
            runner = Runner(config, files, found, progress, deadline, callbacks)
        return runner.run()


def with_size(config: RunConfig, progress: RunProgress | None = None) -> RunConfig:
    """The config with the method's default size filled in, which its folder is named after."""
    if config.size is not None:
        return config
    from crwn.experiments.experiment import build

    return config.model_copy(update={"size": build(config, fetch=(progress or RunProgress()).fetching).method.size})
