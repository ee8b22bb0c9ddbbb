"""What a learner says of rows whose task is not given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crwn.contexts.bank import Bank
from crwn.learner.contexts import nearest_tasks
from crwn.learner.density_ranking import FALSE_ALARMS
from crwn.learner.encode import given_rows
from crwn.learner.model_facts import ModelFacts
from crwn.learner.predict import Predictor
from crwn.learner.ranking import Ranking, TaskScore
from crwn.learner.task_inference import Method


class Inferring(ModelFacts):
    """The part of a `Learner` that infers tasks."""

    bank: Bank
    _predictor: Predictor

    def infer_task(
        self,
        x: Any,
        *,
        tasks: Sequence[str] | None = None,
        method: Method = "auto",
        keep: int = 24,
        false_alarms: float = FALSE_ALARMS,
    ) -> Ranking:
        """Tasks ranked by their score for these rows as a group, best first; its `none_of_these` is whether none fits.

        Scores are by the density of the task's rows and the certainty of its outputs, with a calibrated `probability`;
        contexts of earlier versions have no density: there the similarity to the mean training row counts. "exhaustive"
        evaluates every context, "sketch" the `keep` tasks whose training rows are most similar to these, "one-shot" the
        `keep` tasks with the largest gradients in a mixture of all contexts; "auto" compares densities, or,
        without them, is exhaustive for few tasks and uses sketches for many. Other predictions come in between.

        `false_alarms` is the share of groups of a task's own rows for which `none_of_these` may be true, by a threshold
        calibrated on training rows that the density did not learn from. It applies to "auto" with densities; otherwise
        the threshold is that of about one group in fifty.
        """
        rows = given_rows(x, self.input_shape)
        names = None if tasks is None else list(tasks)
        return Ranking(self._predictor.infer_task(rows, names, method=method, keep=keep, false_alarms=false_alarms))

    def nearest(self, task: str, count: int = 5) -> list[tuple[str, float]]:
        """The tasks whose contexts are most like this one's, with their similarity (cosine, mean context removed).

        With few tasks the mean is largely the tasks themselves: among n, unrelated ones have about -1 / (n - 1).
        """
        return nearest_tasks(self.bank, task, count)

    def infer_rows(
        self, x: Any, *, tasks: Sequence[str] | None = None, false_alarms: float = FALSE_ALARMS
    ) -> list[TaskScore]:
        """The likeliest task of every row on its own, with its probability and how usual the row is for it (`fit`).

        Rows are compared with the densities of up to 1,024 tasks, and with the outputs of the likeliest few. About
        `false_alarms` of a task's own rows are called `strange` to it.

        >>> import numpy as np, crwn
        >>> rows = np.random.default_rng(0).normal(size=(200, 8)).astype("float32")
        >>> learner = crwn.Learner(crwn.NeuroModNet(in_features=8, hidden=(64,), classes=2, seed=0))
        >>> for name, moved in (("low", rows - 3), ("high", rows + 3)):
        ...     _ = learner.learn(name, moved, rows[:, 0] > 0, batches=20, progress=False)
        >>> [one.task for one in learner.infer_rows([[3.0] * 8, [-3.0] * 8])]
        ['high', 'low']
        """
        return self._predictor.infer_rows(given_rows(x, self.input_shape), tasks, false_alarms=false_alarms)
