"""Tasks ranked by the densities of their rows, for a group of rows or for every row on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from crwn.contexts import ContextInfo
from crwn.contexts.density import Densities, Density, described, read_density, stacked
from crwn.data.standardize import standardize_per_task
from crwn.learner.ranking import STRANGER, TaskScore, ranking_score

SIZE = 256  # tasks that are scored at once
# Weight of a row's normalised output entropy beside its log-likelihood: how much likelier a task without any
# uncertainty is than one with all of it, as a logarithm. Found on held-out training rows (docs/unknown-tasks.md).
ENTROPY = 4.0
OVERSTATED = 1.75  # where probabilities of tasks are those with which they are right, found on the same rows
# New rows differ a little from those a density was measured on: this share of their deviation is tolerated.
TOLERANCE = 0.1
FALSE_ALARMS = 0.05  # share of a task's own groups that may be called strange
LIKELY = 1e-3  # a task of a lower probability is not among those that the rows may be of


@lru_cache(maxsize=4096)
def _opened(key: tuple[object, ...]) -> Density | None:
    inputs, tree, scale, spread, surprise, rows = key
    usual = list(surprise) if isinstance(surprise, tuple) else None
    return read_density(
        {"inputs": inputs, "tree": tree, "scale": scale, "spread": spread, "surprise": usual, "rows": rows}
    )


def density_of(info: ContextInfo) -> Density | None:
    """The density of a task; None where its context has none, as those of earlier versions."""
    stored = info.density
    if stored is None or info.kind != "classification":
        return None
    usual = stored.get("surprise")
    key = (*(stored.get(name) for name in ("inputs", "tree", "scale", "spread")), usual, stored.get("rows"))
    try:
        return _opened(tuple(tuple(part) if isinstance(part, list) else part for part in key))
    except TypeError:  # a damaged record: its values cannot be compared
        return None


@dataclass(frozen=True)
class Evidence:
    """What densities say of rows: log-likelihood and surprise `[rows, tasks]`, and what is usual for each task.

    `false_alarms` is the share of the rows or groups of a task that may be called strange to it.
    """

    names: Sequence[str]
    likelihood: Tensor
    surprise: Tensor
    densities: Sequence[Density]
    false_alarms: float = FALSE_ALARMS

    @property
    def temperature(self) -> float:
        """What log-likelihoods are divided by to be calibrated.

        The inputs of a row are less independent than the tree assumes, so that its log-likelihood varies more from
        row to row. The factor is measured on rows held out; evidence is overstated by it, and a little more.
        """
        spreads = torch.tensor([one.spread for one in self.densities])
        return max(1.0, OVERSTATED * float(spreads.median()))

    def logits(self) -> Tensor:
        """Calibrated log-probabilities of the tasks of every row, up to a constant: `[rows, tasks]`."""
        return self.likelihood.double() / self.temperature

    def fits(self) -> Tensor:
        """How usual such a group is for each task, `[tasks]`: below `STRANGER` for `false_alarms` of its own groups.

        It is the probability that a group of the task's rows is at least as surprising, times a factor.
        """
        return self._usual(self.surprise.double().mean(dim=0), len(self.surprise))

    def row_fits(self, at: Tensor) -> Tensor:
        """The same of every row for its task, `[rows]`."""
        return self._usual(self.surprise.double(), 1)[torch.arange(len(at)), at]

    def _usual(self, found: Tensor, rows: int) -> Tensor:
        mean, deviation = torch.tensor([one.surprise for one in self.densities], dtype=torch.float64).T
        measured = torch.tensor([float(max(one.rows, 1)) for one in self.densities], dtype=torch.float64)
        error = deviation.clamp_min(1e-6) * (1 / rows + 1 / measured + TOLERANCE**2).sqrt()
        tail: Tensor = torch.special.erfc((found - mean) / (error * math.sqrt(2)))
        return tail / 2 * (STRANGER / self.false_alarms)


def evidence(
    names: Sequence[str],
    infos: Sequence[ContextInfo],
    x: Tensor,
    scalings: Tensor,
    *,
    false_alarms: float = FALSE_ALARMS,
) -> Evidence | None:
    """What the densities of these tasks say of raw rows `[rows, ...]`; None unless all tasks have one for such rows.

    Args:
        scalings: of every task, `[tasks, 2, 1]` or `[tasks, 2, columns]`.
        false_alarms: of `Evidence`.
    """
    inputs = x[0].numel()
    found = [density_of(info) for info in infos]
    known = [one for one in found if one is not None and one.inputs == inputs]
    if not known or len(known) != len(found):
        return None
    some = described(inputs)
    flat = x.flatten(1).float()
    parts = [
        _score(stacked(known[at : at + SIZE]), flat, some, scalings[at : at + SIZE])
        for at in range(0, len(known), SIZE)
    ]
    likelihood, surprise = (torch.cat(list(part), dim=1) for part in zip(*parts, strict=True))
    return Evidence(names, likelihood, surprise, known, false_alarms)


def _score(densities: Densities, x: Tensor, some: Tensor, scalings: Tensor) -> tuple[Tensor, Tensor]:
    wide = scalings
    if scalings.shape[-1] > 1:  # an image channel's scaling is that of all of its pixels
        wide = scalings.repeat_interleave(x.shape[1] // scalings.shape[-1], dim=-1)[..., some]
    chosen = x[:, some]
    if bool((wide == wide[:1]).all()):
        return densities.score((chosen - wide[0, 0]) / wide[0, 1])
    likelihood, surprise = densities.score(standardize_per_task(chosen[None], wide, row_ndim=1))
    # The density of raw rows: that of the standardized ones divided by the deviation of every input.
    volume = wide[:, 1].log().expand(-1, len(some)).sum(dim=1)
    return likelihood - volume, surprise


def ranked(found: Evidence, by_outputs: Sequence[TaskScore]) -> list[TaskScore]:
    """The tasks for these rows as one group, likeliest first.

    Args:
        by_outputs: the likeliest tasks with the certainty of their outputs, and how usual that is for rows of the task.
    """
    known = {one.task: one for one in by_outputs}
    certainty = torch.tensor([known[name].certainty if name in known else 0.0 for name in found.names]).double()
    logits = found.logits().sum(dim=0) + ENTROPY * len(found.likelihood) * certainty
    shares = logits.softmax(dim=0)
    fits = found.fits()
    # Densities see how inputs go together, outputs what they mean: each notices strangers that the other does not.
    others = [1.0 if name not in known or (fit := known[name].fit) is None else fit for name in found.names]
    # That of the outputs is below `STRANGER` for so many of the task's own groups, by measurements on training rows.
    allowed = min(1.0, found.false_alarms / STRANGER)
    fits = torch.minimum(fits, torch.tensor(others, dtype=torch.float64) / allowed)
    order = logits.argsort(descending=True).tolist()
    best = TaskScore(found.names[order[0]], 0.0, float(fits[order[0]]))
    return [
        TaskScore(
            found.names[at],
            ranking_score(cost_of_share(float(shares[at])), strange=best.strange, likely=float(shares[at]) > LIKELY),
            float(fits[at]),
            float(certainty[at]),
            float(shares[at]),
        )
        for at in order
    ]


def ranked_rows(found: Evidence, entropies: Tensor | None = None) -> list[TaskScore]:
    """The likeliest task of every row on its own, with its probability.

    Args:
        entropies: normalised output entropies `[rows, tasks]`; NaN where not computed.
    """
    logits = found.logits()
    certainty = torch.zeros_like(logits)
    if entropies is not None:
        certainty = (1.0 - entropies.double()).nan_to_num(0.0)
        logits = logits + ENTROPY * certainty
    share, best = logits.softmax(dim=1).max(dim=1)
    fits = found.row_fits(best)
    scores = []
    for row, at in enumerate(best.tolist()):
        one = TaskScore(found.names[at], 0.0, float(fits[row]), float(certainty[row, at]), float(share[row]))
        cost = cost_of_share(float(share[row]))
        scores.append(one._replace(score=ranking_score(cost, strange=one.strange)))
    return scores


def cost_of_share(share: float) -> float:
    """The cost that `ranking_score` takes, of a task with this probability."""
    return max(0.01, -math.log(max(share, 1e-300)))
