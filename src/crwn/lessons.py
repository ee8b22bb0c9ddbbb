"""From what people hand over to what the loop learns from: rows checked, classes found, a plan made."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from crwn import inputs
from crwn.context import Context, check_name, now, plain_label
from crwn.errors import ConfigError, DataError
from crwn.inference import own_entropy
from crwn.models import Network
from crwn.prediction import accuracy, predict_logits
from crwn.recipe import Recipe, best_recipe, make_recipe
from crwn.rows import Rows, TaskRows, named_generator
from crwn.scaling import NO_SCALING, Scaling, Standardise, measure_scaling
from crwn.sketch import make_sketch
from crwn.stacking import in_groups, model_stack_size
from crwn.training import Callback, Learned, Step, replica
from crwn.trial import one_at_a_time

# Own rows looked at to remember how sure and how right a context is on them.
SAMPLE = 512

# What a context keeps of its own learning; people's own facts go by other names.
OWN_FACTS = frozenset(
    ("rows", "batches", "loss", "seconds", "scaling", "own_entropy", "sketch", "accuracy", "training_accuracy")
)

Known = tuple[tuple[Hashable, ...], Scaling]


@dataclass(frozen=True)
class Lesson:
    """One task ready to be learned, and how to make a context of what came of it."""

    task: TaskRows
    classes: tuple[Hashable, ...]
    scaling: Scaling
    info: dict[str, Any] = field(default_factory=dict)

    def context(self, learned: Learned, fingerprint: str, model: nn.Module) -> Context:
        """What came of it, with how sure (for `infer_task`) and how right it is on a sample of its own rows."""
        held = self.task.validation
        rows = self.task.rows if held is None else held
        sample = spread(rows, SAMPLE)
        logits = predict_logits(model, learned.tensors, sample, classes=self.task.classes)
        right = round(100 * accuracy(logits, sample.labels(slice(None))), 2)
        facts = {
            **self.info,
            "rows": len(self.task.rows),
            "batches": learned.steps,
            "loss": round(learned.loss, 6),
            "seconds": round(learned.seconds, 3),
            "scaling": list(self.scaling),
            "own_entropy": own_entropy(logits),
            "sketch": make_sketch(sample.inputs(slice(None))),
            "training_accuracy" if held is None else "accuracy": right,
        }
        return Context(self.task.name, learned.tensors, self.classes, fingerprint, now(), facts)


def spread(rows: Rows, count: int) -> Rows:
    """At most `count` rows spread over all: data that come sorted by class begin with one class only."""
    return rows.select(torch.arange(0, len(rows), max(1, len(rows) // count))[:count])


def facts_of(old: Context | None) -> dict[str, Any]:
    """People's own facts in a context that is gone on from."""
    return {} if old is None else {key: value for key, value in old.info.items() if key not in OWN_FACTS}


def checked_facts(info: Mapping[str, Any] | None) -> dict[str, Any]:
    """Facts that a context is to keep beside its own."""
    taken = sorted(OWN_FACTS & set(info or {}))
    if taken:
        raise ConfigError(f"info cannot hold {', '.join(taken)}: the context keeps its own")
    return dict(info or {})


def make_lesson(
    task: str,
    x: Any,
    y: Any,
    *,
    shape: Sequence[int] | None,
    outputs: int,
    sample_weight: Any = None,
    validation: Any = None,
    seed: int = 0,
    known: Known | None = None,
) -> Lesson:
    """Check one task's data; `known` are the classes and scaling of a task that is resumed."""
    check_name(task)
    rows, labels = _rows_and_labels(x, y)
    # Labels that a context cannot keep are refused now, not after learning.
    classes = known[0] if known else tuple(plain_label(label, task) for label in inputs.classes_of(labels))
    if len(classes) > outputs:
        raise DataError(f'task "{task}" has {len(classes)} classes, this model has {outputs} outputs: make a wider one')
    if isinstance(rows, Rows):
        scaling = NO_SCALING
        if sample_weight is not None:
            raise ConfigError("Rows carry weights of their own: pass them as Rows(weight=...)")
        ready = Rows(rows.x, inputs.indices(labels, classes, task), rows.index, rows.prepare, rows.augment, rows.weight)
    else:
        tensor = inputs.shaped(rows, shape)
        inputs.check_finite(tensor)
        if len(tensor) != len(labels):
            raise DataError(f"{len(tensor)} rows but {len(labels)} labels: there must be one for each row")
        if not len(tensor):
            raise DataError(f'task "{task}" has no rows: learning needs at least one')
        scaling = known[1] if known else measure_scaling(tensor)
        weight = None if sample_weight is None else _weights(sample_weight, len(tensor))
        prepare = Standardise(scaling)
        ready = Rows(tensor, inputs.indices(labels, classes, task), prepare=prepare, weight=weight)
    ready, held = _hold_out(ready, validation, task, classes, shape, scaling, seed)
    return Lesson(TaskRows(task, ready, len(classes), held), classes, scaling)


def _rows_and_labels(x: Any, y: Any) -> tuple[Rows | Tensor, list[Hashable]]:
    if isinstance(x, Rows):
        labels = x.labels(slice(None)) if y is None else y
        return x, inputs.plain_labels(labels)
    if y is None:
        if not isinstance(x, Dataset | DataLoader) and not hasattr(x, "__iter__"):
            raise DataError("labels are missing: pass them as y, or a Dataset or DataLoader of pairs as x")
        if not isinstance(x, Dataset | DataLoader):
            raise DataError("labels are missing: pass them as y")
        return inputs.collect(x)
    return inputs.as_tensor(x), inputs.plain_labels(y)


def _weights(sample_weight: Any, count: int) -> Tensor:
    weight = inputs.as_tensor(sample_weight, "sample weights").float()
    if weight.shape != (count,):
        raise DataError(f"sample weights have shape {tuple(weight.shape)}, expected ({count},): one for each row")
    if not bool(torch.isfinite(weight).all()) or bool((weight < 0).any()) or float(weight.sum()) == 0:
        raise DataError("sample weights must be finite, not negative, and not all zero")
    return weight


def _hold_out(
    rows: Rows,
    validation: Any,
    task: str,
    classes: tuple[Hashable, ...],
    shape: Sequence[int] | None,
    scaling: Scaling,
    seed: int,
) -> tuple[Rows, Rows | None]:
    if validation is None:
        return rows, None
    if isinstance(validation, tuple | list | Rows | Dataset | DataLoader):
        return rows, _given(validation, task, classes, shape, scaling)
    if isinstance(validation, bool) or not isinstance(validation, int | float) or not 0 < validation < 1:
        what = validation if isinstance(validation, int | float | str) else type(validation).__name__
        raise ConfigError(f"validation must be a share between 0 and 1, or data like (x, y), got {what!r}")
    order = torch.from_numpy(named_generator("validation", seed, task).permutation(len(rows)))
    count = round(len(rows) * validation)
    if not 0 < count < len(rows):
        raise DataError(f"a share of {validation} of {len(rows)} rows leaves nothing to learn from or to check with")
    held = rows.select(order[:count])
    return rows.select(order[count:]), Rows(held.x, held.y, held.index, held.prepare, None, held.weight)


def _given(
    validation: Any,
    task: str,
    classes: tuple[Hashable, ...],
    shape: Sequence[int] | None,
    scaling: Scaling,
) -> Rows:
    """Validation rows of their own, with the scaling of the task they check."""
    if isinstance(validation, tuple | list) and len(validation) != 2:
        raise ConfigError(f"validation data must be (x, y), got {len(validation)} parts")
    x, y = validation if isinstance(validation, tuple | list) else (validation, None)
    found, labels = _rows_and_labels(x, y)
    rows = inputs.rows_of(found, shape=shape, scaling=scaling)
    if not len(rows):
        raise DataError(f'the validation data of task "{task}" has no rows')
    return Rows(rows.x, inputs.indices(labels, classes, task), rows.index, rows.prepare, None, rows.weight)


def plan(model: nn.Module, recipe: Recipe | str | None, *, batches: int | None, epochs: int | None) -> Recipe:
    """The recipe to learn by: a named one ("paper" or "best"), or the caller's, with its length overridden."""
    length = {key: value for key, value in (("batches", batches), ("epochs", epochs)) if value is not None}
    if len(length) == 2:
        raise ConfigError(f"both batches ({batches}) and epochs ({epochs}) are given: give one of them")
    if isinstance(recipe, Recipe):
        chosen = recipe.model_dump()
    elif recipe in (None, "best", "paper"):
        chosen = _named(model, recipe or "best")
    else:
        raise ConfigError(f'unknown recipe "{recipe}": choose "paper", "best", or pass a Recipe')
    if length:
        chosen |= {"batches": None, "epochs": None} | length
    return make_recipe(**chosen)


def _named(model: nn.Module, name: str) -> dict[str, Any]:
    if getattr(model, "kind", "") in ("neuromodnet", "flynet"):
        if name == "paper":
            return {"optimizer": "rmsprop", "rate": 0.01}
        return dict(best_recipe(normed=getattr(model, "norm", "none") != "none"))
    return {"optimizer": "adam", "rate": getattr(model, "suggested_rate", 0.1), "schedule": "cosine"}


def grouped(model: nn.Module, made: list[Lesson], batch_size: int) -> list[list[Lesson]]:
    """Lessons that can be learned at once: equally many rows, all or none with validation rows.

    A module that draws random numbers, or cannot be computed for several tasks at once, learns one at a time.
    """
    size = model_stack_size(model, batch_size=batch_size)
    if size > 1 and len(made) > 1 and not isinstance(model, Network):
        few = made[0].task.rows.inputs(slice(0, 2))
        size = 1 if one_at_a_time(replica(model), few) else size
    alike = [(len(one.task.rows), one.task.rows.x.shape[1:], one.task.validation is None) for one in made]
    return in_groups(made, alike, size)


@contextmanager
def progress_bar(groups: list[list[Lesson]], plan: Recipe, *, shown: bool) -> Iterator[Callback]:
    """A callback that shows one bar over all groups on stderr, with rate and time left."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} batches, {task.fields[rate]} ms each, loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    total = sum(len(group) * plan.steps(len(group[0].task.rows)) for group in groups)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown_task = bar.add_task("learning", total=total, loss="", rate="")

        def tell(step: Step) -> None:
            if step.step % 10 == 0 or step.step == step.steps:
                speed = bar.tasks[0].speed
                bar.update(
                    shown_task,
                    description=step.names[0] if len(step.names) == 1 else f"{len(step.names)} tasks",
                    loss=f"{float(step.losses.mean()):.3f}",
                    rate=f"{1000 / speed:.1f}" if speed else "",
                )
            bar.advance(shown_task, len(step.names))

        yield tell
