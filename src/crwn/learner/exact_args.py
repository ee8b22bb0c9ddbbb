"""Options of the closed form as `Learner.learn` takes them, and the facts that a context keeps about it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

from crwn._utils import validated
from crwn.contexts import Context
from crwn.data import inputs
from crwn.data.standardize import Scaling, read_scaling
from crwn.errors import ConfigError, DataError
from crwn.learner.prepare import DataArgs
from crwn.training.exact import ExactSettings, Solution, Statistics
from crwn.training.exact.learn import ClassWeight


class ExactArgs(DataArgs, total=False):
    """Options of `method="exact"`, with those of the data.

    Args:
        ridge: relative to the mean diagonal of the normal matrix; by default chosen by cross-validation.
        newton: steps towards the minimum of cross-entropy after the closed form.
        keep_statistics: keep the sums that rows can be added to and taken from.
        scaling: `(mean, deviation)` of raw rows; by default a constant for bytes, and measured on the rows otherwise.
        classes: all classes of the task, where these rows may not have them all.
    """

    ridge: float | None
    newton: int
    keep_statistics: bool
    scaling: Scaling | None
    classes: Sequence[Hashable] | None


def split_options(method: str, options: ExactArgs, **gradient: object) -> tuple[DataArgs, ExactArgs | None]:
    """The options of the data, and those of the closed form where it is asked for, else None.

    Raises:
        ConfigError: an unknown method, options of the other one, or a task that is no classification.
    """
    if method not in ("gradient", "exact"):
        raise ConfigError(f'unknown method "{method}": choose "gradient" or "exact"')
    own = {name: value for name, value in options.items() if name not in DataArgs.__annotations__}
    wrong = [name for name, value in gradient.items() if value is not None] if method == "exact" else list(own)
    if wrong:
        other = "gradient" if method == "exact" else "exact"
        raise ConfigError(f'{wrong[0]} is an option of method="{other}", not of method="{method}": leave it out')
    data = cast(DataArgs, {name: value for name, value in options.items() if name not in own})
    if method == "gradient":
        return data, None
    if (kind := data.get("kind") or "classification") != "classification":
        raise ConfigError(f'method="exact" learns classes: use method="gradient" for {kind}')
    weights = data.pop("class_weight", None)
    return data, cast(ExactArgs, own | {"class_weight": weights})


def exact_settings(exact: ExactArgs) -> ExactSettings:
    """The settings of the closed form among these options.

    Raises:
        ConfigError: a value that is not allowed.
    """
    given = {name: value for name, value in exact.items() if name in ExactSettings.model_fields}
    return validated(ExactSettings, given)


def check_added(settings: ExactSettings) -> None:
    """Raise ConfigError for settings that need all rows at once, where rows are added to earlier ones."""
    if settings.newton:
        raise ConfigError("newton steps need all rows at once: they cannot follow added rows")
    if settings.class_weight == "balanced":
        raise ConfigError('class_weight="balanced" depends on all rows: give a weight for every class to add rows')


def check_as_begun(
    task: str,
    begun: tuple[Sequence[Hashable], Scaling],
    classes: Sequence[Hashable] | None,
    scaling: Scaling | None,
) -> None:
    """Raise DataError where rows are added to a task with other classes or another scaling than it was begun with."""
    known, before = begun
    new = [] if classes is None else [one for one in inputs.plain_labels(classes) if one not in known]
    if new:
        raise DataError(
            f'task "{task}" was begun without the class {new[0]!r}: a closed form keeps the classes of its first call'
        )
    if scaling is not None and read_scaling(scaling) != read_scaling(before):
        raise DataError(
            f'task "{task}" was begun with scaling={str(before)[:60]}, got {str(scaling)[:60]}: leave it out, or begin '
            "another task"
        )


def solution_facts(solution: Solution, statistics: Statistics, ridge: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "ridge": solution.ridge,
        "cross_validation": float(f"{solution.gcv:.6g}"),
        "freedom": round(solution.freedom, 1),
        "precision": statistics.precision,
        "statistics_bytes": statistics.nbytes,
    }
    return facts if ridge is None else facts | {"given_ridge": ridge}


def class_weight_of(context: Context) -> ClassWeight:
    stored = (context.info.exact or {}).get("class_weight")
    if stored == "balanced":
        raise ConfigError(
            f'task "{context.name}" was learned with class_weight="balanced", whose weights depended on all rows: '
            "learn it with a weight for every class to take rows back"
        )
    return None if stored is None else {key: float(value) for key, value in stored}
