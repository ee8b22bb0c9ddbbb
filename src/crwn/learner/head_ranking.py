"""Tasks ranked by the head over the classes of all tasks, where tasks have no densities: photos on a backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from crwn.data.dataset import Rows
from crwn.learner.density_ranking import LIKELY, cost_of_share
from crwn.learner.ranking import TaskScore, ranking_score

# Log-probabilities `[rows, tasks]` of tasks by the shared head; None where one of them has not shared its rows.
HeadScores = Callable[[Rows, Sequence[str]], Tensor | None]


def ranked_by_head(names: Sequence[str], scores: Tensor, by_outputs: Sequence[TaskScore]) -> list[TaskScore]:
    """The tasks for these rows as one group, likeliest first.

    Args:
        scores: log-probabilities `[rows, tasks]`.
        by_outputs: the likeliest tasks with the certainty of their outputs, and how usual such rows are for them.
    """
    known = {one.task: one for one in by_outputs}
    shares = scores.double().sum(dim=0).softmax(dim=0)
    found = []
    for at in shares.argsort(descending=True).tolist():
        one, share = known.get(names[at], TaskScore(names[at], 0.0)), float(shares[at])
        score = ranking_score(cost_of_share(share), strange=one.strange, likely=share > LIKELY)
        found.append(one._replace(score=score, probability=share))
    return found


def ranked_rows_by_head(names: Sequence[str], scores: Tensor) -> list[TaskScore]:
    """The likeliest task of every row on its own, with its probability. Whether rows are strange is not known."""
    shares, best = scores.double().softmax(dim=1).max(dim=1)
    return [
        TaskScore(names[at], ranking_score(cost_of_share(share), strange=False), None, 0.0, share)
        for at, share in zip(best.tolist(), shares.tolist(), strict=True)
    ]
