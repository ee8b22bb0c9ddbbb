"""What a longer run can take over from a shorter one: tasks that were learned just as it would learn them."""

from __future__ import annotations

from typing import Any

from crwn.experiments.bench import Bench, groups
from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder

ALIKE = ("recipe", "stack_size", "threads")  # of what a run chose; any other value could change the numbers


def take_over(config: RunConfig, files: RunFolder, bench: Bench, record: dict[str, Any]) -> RunFolder | None:
    """Copy the tasks of the longest shorter run beside this one that is finished and has its state, if there is one.

    Only runs in folders with their usual names are looked at, and only what a fresh run would repeat bit for bit is
    taken: the same recipe, stacks, threads and versions.

    Returns:
        The shorter run, or None where nothing could be taken.
    """
    base = files.path.parent.parent.parent
    if bench.method.joint or config.folder(base) != files.path:
        return None
    for count in range(len(bench.scenario) - 1, 0, -1):
        shorter = config.model_copy(update={"tasks": count})
        other = RunFolder(shorter.folder(base))
        if (other.path / "result.json").exists() and _alike(shorter, other, bench, record) and _copy(other, files):
            return other
    return None


def _alike(shorter: RunConfig, other: RunFolder, bench: Bench, record: dict[str, Any]) -> bool:
    """Whether the shorter run is the beginning of this one."""
    there = other.record()
    if there is None or there["run"] != shorter.identity() or there["versions"] != record["versions"]:
        return False
    count, tasks = shorter.tasks or 0, list(bench.scenario)
    widths = [len(task.classes) for task in tasks]
    return (
        all(there["chosen"].get(name) == record["chosen"][name] for name in ALIKE)
        and there["chosen"]["tasks"] == [task.name for task in tasks[:count]]
        # The last stack may be a part of a larger one here, and wider tasks to come need a wider network.
        and count in {group[-1] + 1 for group in groups(bench, record["chosen"]["stack_size"])}
        and max(widths[:count]) == max(widths)
    )


def _copy(other: RunFolder, files: RunFolder) -> bool:
    """Copy states, then the lines that make them count; False where the states are gone (records without state)."""
    lines = other.lines()
    wanted = [(f"task-{i:03d}", line.get("state")) for i, line in enumerate(lines)]
    if (checksum := lines[-1].get("shared")) is not None:
        wanted.append((f"shared-{len(lines):03d}", checksum))
    if not all((other.state / f"{name}.safetensors").exists() for name, _ in wanted):
        return False
    for name, checksum in wanted:
        files.copy_state(name, checksum, other)
    files.append(lines)
    return True
