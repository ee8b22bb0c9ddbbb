"""What a run reports while it works."""

from pathlib import Path

import crwn.experiments
from crwn.experiments import RunProgress, make_config, run


class Recorded(RunProgress):
    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.tasks: list[str] = []

    def begins(self, config: crwn.experiments.RunConfig, tasks: int, done: int) -> None:
        self.begun.append((tasks, done))

    def learned(self, task: int, name: str, accuracy: float, seconds: float) -> None:
        self.tasks.append(name)


def test_a_run_reports_its_tasks_under_the_new_and_the_old_name(tmp_path: Path) -> None:
    assert crwn.experiments.Watcher is RunProgress
    config = make_config(scenario="rotated-digits", method="stl", size="8", tasks=2, batches=2, threads=1)
    new, old = Recorded(), Recorded()
    run(config, tmp_path / "new", progress=new)
    run(config, tmp_path / "old", watcher=old)
    assert new.begun == old.begun == [(2, 0)]
    assert new.tasks == old.tasks == ["rotate-000", "rotate-010"]
