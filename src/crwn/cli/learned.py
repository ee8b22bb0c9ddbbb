"""How `crwn learn` learns by default, and what it prints of a task that was learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crwn.cli.options import counted
from crwn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from crwn.contexts import Context


def is_table(x: Any, about: Mapping[str, Any]) -> bool:
    """Whether rows are those of a table: they have column names, or are flat and not the length of a usual image."""
    from crwn.models.constant import is_image_row

    if "columns" in about:
        return True
    return bool(x.ndim == 2 and x.dtype.kind == "f" and not is_image_row(x.shape[1]))


@dataclass(frozen=True)
class HowToLearn:
    """The options of `crwn learn` about labels and rows held out."""

    regression: bool
    multilabel: bool
    class_weight: str | None
    validation: float | None

    def __post_init__(self) -> None:
        if self.regression and self.multilabel:
            raise ConfigError("both --regression and --multilabel are given: give one of them")

    def options(self, x: Any, about: Mapping[str, Any]) -> dict[str, Any]:
        """Options of `Learner.learn`: the share held out fits the data where none is given."""
        from crwn.learner.tables import held_out_share

        table = is_table(x, about)
        share = held_out_share(len(x), table=table) if self.validation is None else self.validation or None
        if share is not None and self.validation is not None and not 0 < round(share * len(x)) < len(x):
            raise DataError(f"--validation {share} of {len(x)} rows leaves nothing to learn from or to check with")
        refit = table or self.validation is None  # a share that was asked for stops images early, as it always did
        kind = "regression" if self.regression else "multilabel" if self.multilabel else None
        return {"kind": kind, "class_weight": self.class_weight, "validation": share, "refit": refit}


@dataclass(frozen=True)
class ClosedForm:
    """The options of `crwn learn` about the closed form."""

    exact: bool
    newton: int | None
    keep_statistics: bool
    by_default: bool = False  # chosen for the model, not by the user: then rows are held out as usual

    def for_model(self, kind: str, how: HowToLearn, recipe: str, **length: int | None) -> ClosedForm:
        """The closed form where the model's features are those of a backbone, and nothing asks for batches."""
        asked = self.exact or how.regression or how.multilabel or recipe != "best"
        if kind != "backbone" or asked or any(value is not None for value in length.values()):
            return self
        return ClosedForm(True, self.newton, self.keep_statistics, by_default=True)

    def check(self, **length: int | None) -> None:
        """Raise ConfigError for options that contradict each other."""
        given = [name for name, value in length.items() if value is not None]
        if self.exact and given:
            raise ConfigError(f"--{given[0]} is for training by batches: leave it out with --exact")
        if not self.exact and (self.newton is not None or self.keep_statistics):
            option = "--newton" if self.newton is not None else "--keep-statistics"
            raise ConfigError(f"{option} is for --exact: give that too")

    def options(self, length: dict[str, Any], data: dict[str, Any], validation: float | None) -> dict[str, Any]:
        """Options of `Learner.learn`: the closed form has cross-validation, and holds rows out only where asked to."""
        if not self.exact:
            return length | data
        held = {"validation": data["validation"] if validation or self.by_default else None, "refit": False}
        own = {"method": "exact", "keep_statistics": self.keep_statistics}
        return data | held | own | ({} if self.newton is None else {"newton": self.newton})


def learned_facts(model: Path, context: Context, score: float, *, rows: int, tasks: int) -> dict[str, Any]:
    """What `crwn learn --json` prints."""
    info = context.info
    return {
        "model": str(model),
        "task": context.name,
        "kind": info.kind,
        "classes": list(context.classes),
        "rows": rows,
        "batches": info.batches,
        "training_accuracy": None if info.kind == "regression" else round(100 * score, 2),
        "accuracy": info.accuracy,
        "majority": info.majority,
        "balanced_accuracy": info.balanced_accuracy,
        "exact": None if info.exact is None else dict(info.exact),
        "r2": info.r2,
        "rmse": info.rmse,
        "held_out": info.held_out,
        "params_per_task": context.params,
        "params": context.params,  # name of earlier versions
        "bytes": sum(tensor.nbytes for tensor in context.tensors.values()),
        "seconds": info.seconds,
        "tasks": tasks,
    }


def learned_text(facts: Mapping[str, Any], context: Context) -> str:
    """What `crwn learn` prints: one figure, on rows held out where there are any, beside that of the majority."""
    from crwn.learner.judge import verdict

    held = facts["held_out"]
    what = "" if facts["kind"] == "regression" else "accuracy "
    where = "its training rows (none held out)" if held is None else f"{counted(held, 'row')} held out"
    count = len(context.classes)
    outputs = f"{count} {'labels' if facts['kind'] == 'multilabel' else 'classes'}"
    if facts["kind"] == "regression":
        outputs = f"predicts {counted(count, 'number')} per row"
    how = "closed form" if facts["exact"] is not None and not facts["batches"] else f"{facts['batches']:,} batches"
    again = "" if held is None or context.info.rows != facts["rows"] else ", then learned from all rows"
    return (
        f'learned "{context.name}": {counted(facts["rows"], "row")}, {outputs}, '
        f"{how} in {facts['seconds']:.1f} s\n"
        f"{what}{verdict(context.info, len(context.classes)).figures} on {where}{again}\n"
        f"saved {context.params:,} parameters ({facts['bytes']:,} bytes) in {facts['model']}, "
        f"which has {counted(facts['tasks'], 'task')} now"
    )


def learned_warnings(context: Context) -> list[str]:
    """What is wrong with a context that was learned."""
    from crwn.learner.judge import verdict

    found = verdict(context.info, len(context.classes)).warning
    if found is None:
        return []
    more = "; try --class-weight balanced, more rows or other columns" if context.info.kind == "classification" else ""
    return [f'"{context.name}" is {found}{more}']
