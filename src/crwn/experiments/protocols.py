"""Accuracy without the task: class- and domain-incremental, as the field reports them, for every method.

`class`: the answer is one class among those of all tasks. `domain`: tasks have the same classes (rotated digits), and
the answer is right where the class is, whatever the task. A method with one head over all classes answers directly;
where predictions need a task, it is inferred for every row on its own, among all tasks learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.experiments.config import Protocol
from crwn.learner.fit import sample_positions
from crwn.methods import Method
from crwn.scenarios import Task

MOST_ROWS = 500  # test rows of a task whose tasks are inferred, spread over all of them


def evaluate_protocol(
    protocol: Protocol, method: Method, tasks: Sequence[Task], *, show: Callable[[int], None] = lambda done: None
) -> dict[str, float]:
    """Percent of test rows with the right class and, where a task is inferred, with the right task; means over tasks.

    Returns:
        `accuracy`, `rows_per_task`, and `task_accuracy` where the task is inferred.
    """
    classes: list[float] = []
    found_tasks: list[float] = []
    counts: list[int] = []
    for at, task in enumerate(tasks):
        rows = _rows(method, tasks, task)
        labels = rows.labels(slice(None))
        right, right_task = _right(protocol, method, tasks, at, rows, labels)
        classes.append(100.0 * float(right.double().mean()))
        counts.append(len(rows))
        if right_task is not None:
            found_tasks.append(100.0 * float(right_task.double().mean()))
        show(at + 1)
    found = {"accuracy": sum(classes) / len(classes), "rows_per_task": sum(counts) / len(counts)}
    return found | ({"task_accuracy": sum(found_tasks) / len(found_tasks)} if found_tasks else {})


def _rows(method: Method, tasks: Sequence[Task], task: Task) -> Rows:
    """All test rows of a task; where every row is tried with every task, at most `MOST_ROWS` of them."""
    rows = task.test
    if method.one_head or len(rows) <= MOST_ROWS or method.answers_without_task:
        return rows
    return rows.select(sample_positions(len(rows), MOST_ROWS))


def _right(
    protocol: Protocol, method: Method, tasks: Sequence[Task], at: int, rows: Rows, labels: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Whether the class of every row is right, and whether its task is, where one is inferred."""
    if method.one_head:
        # Batch norm of the task learned last: nothing says which task the rows are of.
        return method.logits(tasks[-1], rows).argmax(dim=1) == labels, None
    joint = method.joint_logits(tasks, rows)
    if joint is not None:
        sizes = torch.tensor([len(task.classes) for task in tasks])
        starts = sizes.cumsum(0) - sizes
        best = joint.argmax(dim=1)
        chosen = torch.searchsorted(starts, best, right=True) - 1
        predicted = best - starts[chosen]
    else:
        chosen = method.task_scores(tasks, rows).argmax(dim=1)
        predicted = torch.zeros(len(rows), dtype=torch.long)
        for one in sorted(set(chosen.tolist())):
            mine = (chosen == one).nonzero()[:, 0]
            predicted[mine] = method.logits(tasks[one], rows.select(mine)).argmax(dim=1)
    right = predicted == labels
    return (right & (chosen == at) if protocol == "class" else right), chosen == at
