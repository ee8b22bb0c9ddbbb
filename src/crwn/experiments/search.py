"""Search for settings of a method with Optuna, judged on held-out training rows; stopped searches resume."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crwn._utils import write_whole
from crwn.errors import ConfigError, MissingExtraError
from crwn.experiments.config import RunConfig
from crwn.experiments.experiment import accuracy, build, groups, learn_group
from crwn.experiments.metrics import average
from crwn.experiments.progress import RunProgress

if TYPE_CHECKING:
    import optuna

STUDY, SEARCH = "study.log", "search.json"
LOG = 10.0  # a range whose end is so many times its start is searched on a logarithmic scale


@dataclass(frozen=True)
class Range:
    """Values of one setting: from `low` to `high`, or one of `choices`."""

    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def suggest(self, trial: optuna.Trial, name: str) -> str:
        """The value of a trial, as `--set` takes it."""
        if self.choices:
            return str(trial.suggest_categorical(name, self.choices))
        log = self.low > 0 and self.high >= LOG * self.low
        if self.whole:
            return str(trial.suggest_int(name, int(self.low), int(self.high), log=log))
        return f"{trial.suggest_float(name, self.low, self.high, log=log):.4g}"


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and their accuracy in percent on held-out training rows, a mean over seeds."""

    number: int
    settings: dict[str, str]
    accuracy: float


def parse_ranges(settings: Mapping[str, str]) -> tuple[dict[str, Range], dict[str, str]]:
    """Ranges among `--set` options, and those with one value.

    >>> ranges, fixed = parse_ranges({"rate": "0.001..0.1", "optimizer": "adam,sgd", "weights": "hadamard"})
    >>> ranges["rate"], ranges["optimizer"].choices, fixed
    (Range(low=0.001, high=0.1, choices=()), ('adam', 'sgd'), {'weights': 'hadamard'})
    """
    ranges, fixed = {}, {}
    for name, text in settings.items():
        low, sign, high = text.partition("..")
        if sign:
            start, stop = _number(low), _number(high)
            if start is None or stop is None or not start < stop:
                raise ConfigError(f"--set {name}={text}: give a range of numbers like {name}=0.001..0.1")
            both = isinstance(start, int) and isinstance(stop, int)
            ranges[name] = Range(start, stop) if both else Range(float(start), float(stop))
        elif "," in text:
            ranges[name] = Range(choices=tuple(part.strip() for part in text.split(",") if part.strip()))
        else:
            fixed[name] = text
    if not ranges:
        raise ConfigError("there is nothing to search: give at least one range, like --set rate=0.001..0.1")
    return ranges, fixed


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def search(
    config: RunConfig,
    ranges: Mapping[str, Range],
    folder: Path,
    *,
    trials: int,
    seeds: Sequence[int] = (0,),
    share: float = 0.2,
    progress: RunProgress | None = None,
    show: Callable[[Trial], None] | None = None,
) -> list[Trial]:
    """Try settings until there are `trials` finished ones in the folder; all of them, best first.

    Args:
        config: the run, with the settings that are not searched.
        share: of every class's training rows, held out to judge by; test rows are not used.
        show: receives every trial as it finishes.

    Raises:
        ConfigError: the folder holds another search.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise MissingExtraError("crwn search", "search") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    _begin(folder, config, ranges, seeds, share)
    storage = JournalStorage(JournalFileBackend(str(folder / STUDY)))
    study = optuna.create_study(storage=storage, study_name="crwn", direction="maximize", load_if_exists=True)
    while len(done := _finished(study)) < trials:
        # A stopped search goes on with draws that it has not made yet.
        study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))
        trial = study.ask()
        settings = {name: choices.suggest(trial, name) for name, choices in ranges.items()}
        tried = config.model_copy(update={"settings": {**config.settings, **settings}})
        trial.set_user_attr("settings", settings)
        value = average([_judge(tried.model_copy(update={"seed": seed}), share, progress) for seed in seeds])
        study.tell(trial, value)
        if show is not None:
            show(Trial(len(done), settings, value))
    return sorted(done, key=lambda trial: -trial.accuracy)


def _finished(study: optuna.Study) -> list[Trial]:
    from optuna.trial import TrialState

    found = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return [Trial(at, dict(one.user_attrs["settings"]), float(one.value or 0.0)) for at, one in enumerate(found)]


def _judge(config: RunConfig, share: float, progress: RunProgress | None) -> float:
    """Learn all tasks without the held-out rows; the mean accuracy on those, after the last task."""
    fetch = (progress or RunProgress()).fetching
    experiment = build(config, fetch=fetch, hold_out=share)
    method = experiment.method
    for group in groups(experiment, method.stack_size):
        learn_group(experiment, group)
    return average([accuracy(method, task, task.test) for task in experiment.scenario])


def _begin(folder: Path, config: RunConfig, ranges: Mapping[str, Range], seeds: Sequence[int], share: float) -> None:
    """Write down what is searched, or compare it with what the folder says."""
    identity = config.identity()
    identity.pop("seed")
    wanted: dict[str, Any] = {
        "run": identity,
        "ranges": {name: list(one.choices) or [one.low, one.high] for name, one in sorted(ranges.items())},
        "seeds": list(seeds),
        "held_out": share,
    }
    path = folder / SEARCH
    if path.exists():
        there = json.loads(path.read_text())
        if there != json.loads(json.dumps(wanted)):
            different = next(key for key in wanted if there.get(key) != json.loads(json.dumps(wanted[key])))
            raise ConfigError(f"{folder} holds a search with other {different}: give another folder with --out")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(wanted, indent=2) + "\n").encode())
