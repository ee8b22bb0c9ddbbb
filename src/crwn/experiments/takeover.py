"""What a longer run can take over from a shorter one: tasks that were learned just as it would learn them."""

from __future__ import annotations

from typing import Any

from crwn.errors import CRWNError
from crwn.experiments.config import RunConfig
from crwn.experiments.experiment import Experiment, changed_defaults, groups
from crwn.experiments.folder import RunFolder

ALIKE = ("recipe", "stack_size", "threads")  # of what a run chose; any other value could change the results


def take_over(config: RunConfig, files: RunFolder, experiment: Experiment, record: dict[str, Any]) -> RunFolder | None:
    """Copy the tasks of the longest shorter run beside this one that is finished and has its state, if there is one.

    Only runs in folders with their usual names are looked at, and only what a fresh run would repeat bit for bit is
    taken: the same data, recipe, stacks, threads and versions.

    Returns:
        The shorter run, or None where nothing could be taken.
    """
    if experiment.method.joint:
        return None
    for count in range(len(experiment.scenario) - 1, 0, -1):
        shorter = config.model_copy(update={"tasks": count})
        other = RunFolder(shorter.folder(files.base))
        if not (other.path / "result.json").exists():
            continue
        try:
            if _alike(shorter, other, experiment, record):
                _copy(other, files, count)
                return other
        except CRWNError:
            continue  # damaged, or a record without its state: a fresh run needs nothing of it
    return None


def _alike(shorter: RunConfig, other: RunFolder, experiment: Experiment, record: dict[str, Any]) -> bool:
    """Whether the shorter run is the beginning of this one."""
    there = other.record()
    if there is None or there["run"] != shorter.identity() or there.get("versions") != record["versions"]:
        return False
    count, tasks = shorter.tasks or 0, list(experiment.scenario)
    widths = [len(task.classes) for task in tasks]
    theirs, ours = there["chosen"], record["chosen"]
    return (
        all(theirs.get(name) == ours[name] for name in ALIKE)
        and not changed_defaults(theirs, experiment.method)
        and theirs.get("tasks") == ours["tasks"][:count]
        and theirs.get("data", ours["data"][:count]) == ours["data"][:count]
        # The last stack may be a part of a larger one here, and wider tasks to come need a wider network.
        and count in {group[-1] + 1 for group in groups(experiment, ours["stack_size"])}
        and max(widths[:count]) == max(widths)
    )


def _copy(other: RunFolder, files: RunFolder, count: int) -> None:
    """Copy states, then the lines that make them count."""
    lines = other.lines()
    if len(lines) != count:
        other.damaged(f"it has {len(lines)} lines for {count} tasks")
    record = other.record()
    assert record is not None
    files.states.copy(lines, record["chosen"]["tasks"], other.states)
    files.append(lines)
