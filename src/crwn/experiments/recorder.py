"""What came of a group of tasks, written down: contexts or states first, then the lines of metrics.jsonl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crwn.contexts import now
from crwn.experiments.environment import peak_memory
from crwn.experiments.experiment import Experiment, LearnedTask, accuracy
from crwn.experiments.folder import RunFolder
from crwn.experiments.progress import RunProgress
from crwn.methods.contextual import Contextual


@dataclass(frozen=True)
class Recorder:
    """Writes the records of one run.

    Args:
        setup_seconds: every task's share of the time it took to make the method.
        matrix: whether every line has the accuracies of all tasks so far.
    """

    experiment: Experiment
    files: RunFolder
    progress: RunProgress
    setup_seconds: float
    matrix: bool

    def write(self, found: list[LearnedTask], *, before: float | None = None) -> list[dict[str, Any]]:
        """Store what a group learned, and return its lines of metrics.jsonl.

        Args:
            before: the accuracy of the group's only task before it was learned, where it is measured.
        """
        method, states = self.experiment.method, self.files.states
        rows = self._matrix_rows(found) if self.matrix else {}
        contexts = [learned.context for learned in found if learned.context is not None]
        checksums = iter(states.write_contexts(method.model, contexts) if contexts else [])
        lines = []
        for learned in found:
            line: dict[str, Any] = {
                "task": learned.task,
                "name": self.experiment.scenario[learned.task].name,
                "accuracy": learned.accuracy,
                "setup_seconds": self.setup_seconds,
                "training_seconds": learned.training_seconds,
                "evaluation_seconds": learned.evaluation_seconds,
                "together_with": len(found) - 1,
                "peak_memory_bytes": peak_memory(),
                "finished": now(),
            }
            if learned.context is not None:
                line["context"] = next(checksums)
            else:
                line["state"] = states.write(f"task-{learned.task:03d}", learned.state)
            if rows:
                line |= {"row": rows[learned.task], "accuracy_before": before}
            lines.append(line)
        name = f"shared-{found[-1].task + 1:03d}"
        if shared := method.shared_state():
            lines[-1]["shared"] = states.write(name, shared)
        self.files.append(lines)
        states.drop_shared(but=name)
        for line in lines:
            seconds = self.setup_seconds + line["training_seconds"] + line["evaluation_seconds"]
            self.progress.learned(line["task"], line["name"], line["accuracy"], seconds)
        return lines

    def store_old_contexts(self, lines: list[dict[str, Any]]) -> None:
        """Store tasks in the bank that an earlier version of crwn kept as files of `state/`."""
        method = self.experiment.method
        old = [line for line in lines if "context" not in line]
        if not old or not isinstance(method, Contextual):
            return
        contexts = []
        for line in old:
            task = self.experiment.scenario[line["task"]]
            steps, seconds = self.experiment.recipe.steps(len(task.train)), float(line["training_seconds"])
            contexts.append(method.adopted(task, steps=steps, seconds=seconds, accuracy=line["accuracy"]))
        for line, checksum in zip(old, self.files.states.write_contexts(method.model, contexts), strict=True):
            line["context"] = checksum
        self.files.keep(lines)

    def _matrix_rows(self, found: list[LearnedTask]) -> dict[int, list[float]]:
        """Accuracies of all tasks so far after each task of the group."""
        experiment, fresh = self.experiment, [learned.accuracy for learned in found]
        earlier = [accuracy(experiment.method, task, task.test) for task in experiment.scenario[: found[0].task]]
        return {learned.task: earlier + fresh[: place + 1] for place, learned in enumerate(found)}
