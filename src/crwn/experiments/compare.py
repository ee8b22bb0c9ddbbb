"""Several methods on one scenario with the same seeds, side by side: means, deviations and paired tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crwn.errors import ConfigError
from crwn.experiments.config import RunConfig
from crwn.experiments.metrics import average, deviation
from crwn.experiments.progress import RunProgress
from crwn.experiments.result import RunResult
from crwn.experiments.run import run, with_size


@dataclass(frozen=True)
class Compared:
    """One method's runs, and how they differ from those of the first method with the same seeds.

    Args:
        config: the run, with any seed.
        results: one for each seed, in the order of the seeds.
        folders: of the results.
        difference: mean difference in average accuracy from the first method; None for the first method itself.
        p_value: of the two-sided paired t-test over the seeds; None for one seed or where all differences are equal.
    """

    config: RunConfig
    results: list[RunResult]
    folders: list[Path]
    difference: float | None = None
    p_value: float | None = None

    @property
    def label(self) -> str:
        """The method, its size and its settings."""
        settings = [f"{key}={value}" for key, value in sorted(self.config.settings.items())]
        return " ".join([self.config.method_name, self.config.size or "", *settings]).replace("  ", " ").strip()

    @property
    def accuracies(self) -> list[float]:
        """Average accuracy of every seed."""
        return [result.average_accuracy for result in self.results]

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return average(self.accuracies)

    @property
    def accuracy_std(self) -> float | None:
        """Sample standard deviation over the seeds; None for one seed."""
        return deviation(self.accuracies) if len(self.results) > 1 else None

    @property
    def forgetting(self) -> float | None:
        """Mean over the seeds; None where tasks are learned jointly."""
        found = [result.forgetting for result in self.results if result.forgetting is not None]
        return average(found) if found else None


def compare(
    configs: Sequence[RunConfig],
    seeds: Sequence[int],
    base: Path,
    *,
    progress: RunProgress | None = None,
) -> list[Compared]:
    """Do every run with every seed, or read it where it is finished, and compare all with the first.

    Args:
        configs: one for each method; their seeds are ignored.
        base: folder of the runs; finished ones, also of `crwn run`, are read, stopped ones resumed.
    """
    sized = [with_size(config, progress) for config in configs]
    labels = [config.label for config in sized]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ConfigError(f"{twice} is given twice: name every method once, or give sizes like flynet@20d")
    found = []
    for config in sized:
        runs = [config.model_copy(update={"seed": seed}) for seed in seeds]
        folders = [one.folder(base) for one in runs]
        results = [run(one, folder, progress=progress) for one, folder in zip(runs, folders, strict=True)]
        found.append(Compared(config, results, folders))
    first = found[0]
    return [first, *(_against(first, other) for other in found[1:])]


def _against(first: Compared, other: Compared) -> Compared:
    differences = [mine - theirs for mine, theirs in zip(other.accuracies, first.accuracies, strict=True)]
    return Compared(other.config, other.results, other.folders, average(differences), paired_test(differences))


def paired_test(differences: Sequence[float]) -> float | None:
    """The p-value of a two-sided paired t-test; None for fewer than two differences, or if all are equal.

    >>> round(paired_test([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    from scipy.stats import t

    if len(differences) < 2 or math.isclose(spread := deviation(differences), 0.0, abs_tol=1e-12):
        return None
    statistic = average(differences) / (spread / math.sqrt(len(differences)))
    return float(2 * t.sf(abs(statistic), len(differences) - 1))


def parse_method(text: str) -> tuple[str, str | None]:
    """A method and its size from the command line.

    >>> parse_method("flynet@20d"), parse_method("ewc"), parse_method("mine.py:Mine@256")
    (('flynet', '20d'), ('ewc', None), ('mine.py:Mine', '256'))
    """
    name, sign, size = text.partition("@")
    if not name or (sign and not size):
        raise ConfigError(f"{text!r} is no method: write NAME or NAME@SIZE, like flynet@20d")
    return name, size or None
