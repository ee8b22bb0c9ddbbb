"""Avalanche: crwn as one of its strategies, and its benchmarks as scenarios of crwn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from crwn.data.dataset import Rows
from crwn.errors import DataError, MissingExtraError
from crwn.integrations.torchvision_wheel import import_torchvision
from crwn.learner import Learner
from crwn.scenarios import Scenario, Task
from crwn.training.recipe import Recipe

try:
    import_torchvision()
    from avalanche.training.plugins.evaluation import default_evaluator
    from avalanche.training.templates import SupervisedTemplate
except ImportError:
    raise MissingExtraError("crwn as an Avalanche strategy", "avalanche") from None

ABSENT = -100.0  # the logit of classes a task does not have


class CRWN(SupervisedTemplate):  # type: ignore[misc]
    """A strategy with one context per task: `train` learns it with crwn's training loop, `eval` predicts with it.

    Task labels name the task of every row. With `infer_task` they are ignored: each experience becomes a task, and the
    task of a batch is inferred from its rows as a group. The contexts are in `learner`. Rows are read once: random
    transforms of a benchmark are not drawn again for every epoch.

    Args:
        model: one of crwn's networks, or a Learner; its outputs must cover the largest number of classes of a task.
        batches, epochs, recipe: length and recipe of training, as for `Learner.learn`.
        infer_task: for benchmarks without task labels (class-incremental ones).
        settings: further arguments of SupervisedTemplate: plugins, device.
    """

    def __init__(
        self,
        model: nn.Module | Learner,
        *,
        batches: int | None = None,
        epochs: int | None = None,
        recipe: Recipe | str | None = None,
        infer_task: bool = False,
        evaluator: Any = default_evaluator,
        eval_mb_size: int = 256,
        **settings: Any,
    ) -> None:
        self.learner = model if isinstance(model, Learner) else Learner(model)
        self.length: dict[str, Any] = {"batches": batches, "epochs": epochs, "recipe": recipe}
        self.infer_task = infer_task
        self.width = 0
        super().__init__(
            model=self.learner.model,
            optimizer=torch.optim.SGD(self.learner.model.parameters(), lr=0.0),  # required by Avalanche, not used
            criterion=nn.CrossEntropyLoss(),
            evaluator=evaluator,
            eval_mb_size=eval_mb_size,
            **settings,
        )

    def _train_exp(self, experience: Any, eval_streams: Any = None, **kwargs: Any) -> None:
        x, y, labels = read(experience.dataset)
        self.width = max(self.width, int(y.max()) + 1)
        if self.infer_task:
            self._learn(f"experience-{experience.current_experience}", x, y)
            return
        for label in sorted(set(labels.tolist())):
            self._learn(f"task-{label}", x[labels == label], y[labels == label])

    def _learn(self, name: str, x: Tensor, y: Tensor) -> None:
        self.learner.learn(name, x, y, resume=name in self.learner.bank, progress=False, **self.length)

    def forward(self) -> Tensor:
        """Logits of the batch over all classes seen so far, each row by its task."""
        x = self.mb_x.cpu()
        names = [f"task-{label}" for label in self.mb_task_id.tolist()]
        if self.infer_task:
            names = [self.learner.infer_task(x)[0].task] * len(x)
        self.width = max(self.width, int(self.mb_y.max()) + 1)
        logits = torch.full((len(x), self.width), ABSENT)
        for name in set(names):
            rows = torch.tensor([i for i, other in enumerate(names) if other == name])
            if name not in self.learner.bank:
                logits[rows] = 0.0  # a task that is not learned yet, which scripts may evaluate too
                continue
            classes = torch.tensor(self.learner.context(name).classes)
            probabilities = torch.from_numpy(np.asarray(self.learner.predict_proba(x[rows], task=name)))
            logits[rows[:, None], classes] = probabilities.clamp_min(1e-12).log()
        return logits.to(self.device)


def read(dataset: Any) -> tuple[Tensor, Tensor, Tensor]:
    """All rows, targets and task labels of an Avalanche dataset."""
    collate = getattr(dataset, "collate_fn", None)
    parts = [batch[:3] for batch in DataLoader(dataset, batch_size=512, collate_fn=collate)]
    if not parts:
        raise DataError("an experience has no rows: there is nothing to learn from")
    x, y, labels = (torch.cat([torch.as_tensor(part[i]) for part in parts]) for i in range(3))
    return x.float(), y.long(), labels.long()


def scenario_from(
    benchmark: Any, *, name: str = "avalanche", budget: Mapping[str, int] | None = None, flat: bool | None = None
) -> Scenario:
    """Convert an Avalanche benchmark to a scenario: every experience of its train stream with its test rows is a task.

    Args:
        flat: whether rows are flattened; by default all but colour images are.
    """
    tests = list(benchmark.test_stream)
    tasks: list[Task] = []
    shape: tuple[int, ...] = ()
    for i, experience in enumerate(benchmark.train_stream):
        x, y, labels = read(experience.dataset)
        classes: tuple[Hashable, ...] = tuple(sorted(set(y.tolist())))
        x_test, y_test, _ = read((tests[i] if len(tests) == len(benchmark.train_stream) else tests[0]).dataset)
        known = torch.isin(y_test, torch.tensor(classes))  # one test set for all has other tasks' classes too
        x_test, y_test = x_test[known], y_test[known]
        if not len(x_test):
            raise DataError(f"experience {i} has no test rows of its classes {list(classes)}")
        if flat or (flat is None and not (x.ndim == 4 and x.shape[1] == 3)):
            x, x_test = x.flatten(1), x_test.flatten(1)
        shape = tuple(x.shape[1:])
        factors = {"experience": i, "task_label": int(labels[0])}
        tasks.append(
            Task(f"experience-{i:03d}", _rows(x, y, classes), _rows(x_test, y_test, classes), classes, factors)
        )
    return Scenario(name, tasks, seed=0, input_shape=shape, budget=budget or {"batches": 1000})


def _rows(x: Tensor, y: Tensor, classes: Sequence[Hashable]) -> Rows:
    return Rows(x, torch.searchsorted(torch.tensor(list(classes)), y))
