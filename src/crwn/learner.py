"""The learner: one frozen model and the contexts of all its tasks, the object most users hold."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from crwn import inputs, lessons, model_folder
from crwn.answering import Answering
from crwn.bank import Bank, ResidentStack, open_bank
from crwn.closing import Closing
from crwn.context import Context, Store, check_model
from crwn.convert.kept import stamp
from crwn.engine import Engine, make_engine
from crwn.errors import ConfigError, ContextError, DataError, TaskError
from crwn.inference import METHODS, Method, TaskScore, infer_task
from crwn.layers import context_tensors
from crwn.merge import merged
from crwn.models import fingerprint
from crwn.own_modules import check_kind, converted
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.scaling import NO_SCALING, check_scaling, scaling_of
from crwn.similarity import flatten, nearest
from crwn.teaching import Start, Teaching
from crwn.training import Callback


class Learner(Closing):
    """Teaches one frozen model any number of tasks; what each task learned is its context, kept in a bank.

    Args:
        model: one of crwn's networks, or any module made by `crwn.neuromodulate`.
        bank: None keeps contexts in memory; a path is a model folder, made where there is none; an address
            (`postgresql://...`) is a bank on a server.
        store: how contexts are kept: "float32", "float16" or "int8".
        resident: how many recently used tasks stay ready in memory.
        seed: batch order; the model's own seed makes everything else.

    >>> import numpy as np, crwn
    >>> rows = np.random.default_rng(0).normal(size=(200, 8)).astype("float32")
    >>> learner = Learner(crwn.NeuroModNet(in_features=8, hidden=(64,), classes=2, seed=0))
    >>> learner.learn("sign", rows, rows[:, 0] > 0, batches=50, progress=False).name
    'sign'
    >>> learner.tasks
    ['sign']
    """

    def __init__(
        self,
        model: nn.Module,
        bank: str | Path | Bank | None = None,
        *,
        store: Store | None = None,
        resident: int = 1024,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self.model = model.eval()
        self.seed = seed
        self.device = torch.device(device)
        if converted(model):
            check_kind(model)
            stamp(model)  # it may have been changed since it was converted
        self.fingerprint = fingerprint(model)
        self.folder: Path | None = None
        self.bank = self._open(bank, store)
        self._start = {name: tensor.clone() for name, tensor in context_tensors(model).items()}
        self._shapes = {name: tuple(tensor.shape) for name, tensor in self._start.items()}
        self.resident = ResidentStack(self.bank, self._shapes, capacity=resident)
        self._forgotten: set[str] = set()
        self._busy = threading.Lock()
        self._answering = Answering(self.model, self.resident, self.device, self._busy)
        self._teaching = Teaching(
            self.model, self.fingerprint, self.bank, self.resident, self.seed, self.device, self._busy
        )

    def _open(self, bank: str | Path | Bank | None, store: Store | None) -> Bank:
        if bank is not None and not isinstance(bank, str | Path):
            return bank
        if bank is None or "://" in str(bank):
            return open_bank(None if bank is None else str(bank), store=store, model=self.fingerprint)
        self.folder = Path(bank)
        kept = self.folder / model_folder.BANK
        if kept.exists() and not (self.folder / model_folder.DESCRIPTION).exists():
            # A bank of another model is refused before anything is written beside it.
            open_bank(kept, model=self.fingerprint).close()
        model_folder.write_description(self.folder, self.model)
        return open_bank(kept, store=store, model=self.fingerprint)

    @property
    def tasks(self) -> list[str]:
        """Names of all tasks."""
        return self.bank.names()

    @property
    def outputs(self) -> int:
        """How many classes a task can have at most."""
        classes = getattr(self.model, "classes", None)
        if isinstance(classes, int):
            return classes
        raise ConfigError("this module does not say how many outputs it has: set module.classes = N")

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        return getattr(self.model, "input_shape", None)

    def learn(
        self,
        task: str,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        batches: int | None = None,
        epochs: int | None = None,
        recipe: Recipe | str | None = None,
        start: str | None = None,
        resume: bool = False,
        replace: bool = False,
        progress: bool = True,
        callbacks: Sequence[Callback] = (),
        info: Mapping[str, Any] | None = None,
    ) -> Context:
        """Learn one task and keep its context; labels may be text, numbers, True, False, None, or tuples of these.

        Args:
            x, y: rows and labels: arrays, tensors, or a Dataset or DataLoader of pairs as `x` alone.
            validation: a share of the rows (0.1), or `(x, y)`: stops early and keeps the best context.
            recipe: "paper", "best", or a Recipe; `batches` or `epochs` overrides its length.
            start: "nearest" starts from the context that fits the data best, a task's name from that task's.
            resume: go on from the context the task has. replace: start anew in its place.
            info: facts of your own that the context keeps beside its own (`context.info`), and hands on when resumed.
        """
        self._check_free([task], resume=resume, replace=replace)
        old = self.bank.get(task) if resume else None
        facts = lessons.facts_of(old) | lessons.checked_facts(info)
        lesson = dataclasses.replace(self._lesson(task, x, y, sample_weight, validation, old), info=facts)
        plan = lessons.plan(self.model, recipe, batches=batches, epochs=epochs)
        begin = self._beginning(lesson, start, old)
        (context,) = self._teaching.teach(
            [[lesson]],
            plan,
            [begin],
            replace=resume or replace,
            engine=make_engine("local"),
            progress=progress,
            callbacks=callbacks,
        )
        return context

    def learn_many(
        self,
        tasks: Mapping[str, Any],
        *,
        batches: int | None = None,
        epochs: int | None = None,
        recipe: Recipe | str | None = None,
        validation: float | None = None,
        replace: bool = False,
        progress: bool = True,
        callbacks: Sequence[Callback] = (),
        engine: str | Engine = "local",
    ) -> list[Context]:
        """Learn several tasks in one go, `{name: (x, y)}`: the same contexts as one after another, in less time.

        Tasks with equally many rows are stacked; every finished stack is kept at once, so an interruption loses
        only what was under way.
        """
        self._check_free(list(tasks), resume=False, replace=replace)
        made = []
        for name, data in tasks.items():
            if isinstance(data, tuple | list) and len(data) != 2:
                raise DataError(f'task "{name}" must be (x, y), got {len(data)} parts')
            x, y = data if isinstance(data, tuple | list) else (data, None)
            made.append(self._lesson(name, x, y, None, validation, None))
        plan = lessons.plan(self.model, recipe, batches=batches, epochs=epochs)
        groups = lessons.grouped(self.model, made, plan.batch_size)
        kept = self._teaching.teach(
            groups,
            plan,
            [None] * len(groups),
            replace=replace,
            engine=make_engine(engine),
            progress=progress,
            callbacks=callbacks,
        )
        by_name = {context.name: context for context in kept}
        return [by_name[name] for name in tasks]

    def _lesson(
        self, task: str, x: Any, y: Any, sample_weight: Any, validation: Any, old: Context | None
    ) -> lessons.Lesson:
        return lessons.make_lesson(
            task,
            x,
            y,
            shape=self.input_shape,
            outputs=self.outputs,
            sample_weight=sample_weight,
            validation=validation,
            seed=self.seed,
            known=None if old is None else (old.classes, scaling_of(old.info)),
        )

    def check_lesson(self, task: str, x: Any, y: Any, *, validation: Any = None, resume: bool = False) -> None:
        """Raise what `learn` would raise about these data, without learning."""
        self._lesson(task, x, y, None, validation, self.bank.get(task) if resume else None)

    def _check_free(self, names: Sequence[str], *, resume: bool, replace: bool) -> None:
        if resume and replace:
            raise ConfigError("both resume and replace are asked for: resume goes on, replace starts anew")
        if resume or replace:
            return
        for name in names:
            if name in self.bank:
                raise TaskError(f'task "{name}" is there already: resume=True goes on, replace=True starts anew')

    def _beginning(self, lesson: lessons.Lesson, start: str | None, old: Context | None) -> Start:
        if old is not None:
            if start is not None:
                raise ConfigError(f'both resume and start="{start}" are asked for: resume goes on from its own context')
            return [old.tensors]
        if start is None:
            return None
        if start == "nearest":
            found = self.best_start(lesson.task.rows)
            return None if found is None else [self.bank.get(found).tensors]
        return [self.bank.get(start).tensors]

    def predict(self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: bool = False) -> npt.NDArray[Any]:
        """The labels of these rows: all of one task, one task per row, or of the task inferred for them as a group."""
        logits, names, classes = self.logits(x, task, infer_task=infer_task)
        best = logits.argmax(dim=1).numpy()
        if isinstance(names, str):
            return inputs.label_array(classes[names], best)
        labels: list[Hashable] = [classes[name][i] for name, i in zip(names, best, strict=True)]
        return inputs.label_array(labels, np.arange(len(labels)))

    def predict_proba(
        self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: bool = False
    ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """Probabilities over the task's classes, `[rows, classes]`; for mixed tasks a list, each row over its own."""
        logits, names, classes = self.logits(x, task, infer_task=infer_task)
        if isinstance(names, str):
            return logits.softmax(dim=1).numpy()
        return [logits[i, : len(classes[name])].softmax(dim=0).numpy() for i, name in enumerate(names)]

    def score(self, x: Any, y: Any = None, task: str | Sequence[str] | None = None) -> float:
        """Accuracy: the share of rows whose predicted label is right."""
        if y is None:
            if isinstance(x, Rows):
                raise DataError("score needs labels: pass them as y")
            x, y = inputs.collect(x)
        labels = inputs.plain_labels(y)
        predicted = self.predict(x, task).tolist()
        if len(labels) != len(predicted):
            raise DataError(f"{len(predicted)} rows but {len(labels)} labels: there must be one for each row")
        if not labels:
            raise DataError("there are no rows to score")
        return sum(bool(a == b) for a, b in zip(predicted, labels, strict=True)) / len(labels)

    def logits(
        self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: bool = False
    ) -> tuple[Tensor, str | Sequence[str], dict[str, tuple[Hashable, ...]]]:
        """Raw outputs `[rows, classes]`, whose they are (one task, or one per row), and the classes of each task.

        Rows of mixed tasks have `-inf` where their task has no class.
        """
        rows = inputs.rows_of(x, shape=self.input_shape)
        chosen = self._choose(rows, task, infer_task)
        if isinstance(chosen, str):
            logits, classes = self._answering.of_one(rows, chosen)
        else:
            logits, classes = self._answering.of_each(rows, chosen, self.outputs)
        return logits, chosen, classes

    def _choose(self, rows: Rows, task: str | Sequence[str] | None, infer_task: bool) -> str | Sequence[str]:
        if task is not None and infer_task:
            raise ConfigError("both a task and infer_task=True are given: give one of them")
        if isinstance(task, str):
            return task
        if task is not None:
            names = [str(name) for name in task]
            if len(names) != len(rows):
                raise DataError(f"{len(rows)} rows but {len(names)} task names: give one name, or one for each row")
            return names
        if infer_task:
            return self.infer_task(rows)[0].task
        first = self.bank.names(limit=2)
        if len(first) == 1:
            return first[0]
        held = f"{len(self.bank)} tasks" if first else "no tasks yet"
        raise TaskError(f"this learner has {held}: say which with task=, or pass infer_task=True")

    def infer_task(
        self, x: Any, *, tasks: Sequence[str] | None = None, method: Method = "auto", keep: int = 24
    ) -> list[TaskScore]:
        """Tasks ranked by how well they fit these rows as a group, best first, each with a score in 0..1.

        The right context gives the surest outputs: the score is one minus the mean output entropy, divided by
        the log of the task's class count. "exhaustive" tries every context; "sketch" only those whose own rows
        were most like these, "one-shot" those that gradients of a mixture of all contexts point to; "auto" is
        exhaustive for few tasks and goes by sketches for many. `keep` is how many of those are tried.
        """
        if method not in METHODS:
            raise ConfigError(f'unknown method "{method}": choose one of {", ".join(METHODS)}')
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ConfigError(f"keep must be a whole number of at least 1, got {keep!r}")
        rows = inputs.rows_of(x, shape=self.input_shape)
        if not len(rows):
            raise DataError("there are no rows to infer a task from")
        names = list(tasks) if tasks is not None else self.tasks
        if not names:
            raise TaskError("this learner has no tasks yet: teach it one first")
        with self._busy:
            return infer_task(self.model, self.resident, names, rows, scaling_of, method=method, keep=keep)

    def best_start(self, rows: Rows) -> str | None:
        """The task whose predictions fit these labelled rows best; None when there is no task yet."""
        return self._teaching.best_start(rows)

    def nearest(self, task: str, count: int = 5) -> list[tuple[str, float]]:
        """The tasks whose contexts are most like this one's, with their similarity (cosine, mean context removed).

        With few tasks the mean is largely the tasks themselves: among n, unrelated ones have about -1 / (n - 1).
        """
        names = self.tasks
        if task not in names:
            self.bank.get(task)
        vectors = flatten([context.tensors for context in self.bank.get_many(names)])
        return [(names[i], value) for i, value in nearest(vectors, names.index(task), count)]

    def context(self, task: str) -> Context:
        """What one task learned."""
        return self.bank.get(task)

    def add(self, context: Context, *, replace: bool = False) -> None:
        """Keep a context that was learned elsewhere by the same model."""
        check_model(context, self.fingerprint, self._shapes)
        if not 1 <= len(context.classes) <= self.outputs:
            raise ContextError(
                f'context for task "{context.name}" has {len(context.classes)} classes, '
                f"this model has {self.outputs} outputs: it cannot be used"
            )
        columns = None if self.input_shape is None else self.input_shape[-1] if len(self.input_shape) == 1 else 0
        check_scaling(context.info.get("scaling", NO_SCALING), context.name, columns)
        self.bank.put(context, replace=replace)
        self.resident.drop(context.name)  # it comes from the bank when it is asked for, if it is still there

    def merge(self, task: str) -> nn.Module:
        """A plain `nn.Module` with this task's context baked in: raw rows in, logits of its classes out."""
        context = self.bank.get(task)
        classes = len(context.classes)
        with self._busy:
            return merged(
                self.model,
                context.tensors,
                scaling=scaling_of(context.info),
                classes=classes if classes < self.outputs else None,
            )

    def forget(self, task: str) -> None:
        """Drop a task for good."""
        self.bank.delete(task)
        self.resident.drop(task)
        self._forgotten.add(task)

    def refresh(self) -> list[str]:
        """See what other processes changed in the bank; gives the names of changed tasks."""
        return self.resident.refresh()

    def save(self, path: str | Path) -> None:
        """Write a model folder with all tasks; a learner whose bank is that folder is saved already.

        Tasks that the folder has from elsewhere stay; those forgotten here are dropped there too.
        """
        folder = Path(path)
        if self.folder is not None and self.folder.resolve() == folder.resolve():
            return
        model_folder.write_description(folder, self.model)
        with open_bank(folder / model_folder.BANK, store=self.bank.store, model=self.fingerprint) as target:
            for names in _in_parts(self.tasks, 1000):
                target.put_many(self.bank.get_many(names), replace=True)
            for name in self._forgotten - set(self.tasks):
                if name in target:
                    target.delete(name)

    @classmethod
    def load(cls, path: str | Path, *, model: nn.Module | None = None, **settings: Any) -> Learner:
        """Open a model folder: the frozen weights are made again from the seed and their fingerprint compared."""
        folder = Path(path)
        found = model_folder.read_model(folder, model)
        if not (folder / model_folder.BANK).exists():
            raise DataError(f"{folder} has no {model_folder.BANK}: its contexts are missing; restore them from a copy")
        return cls(found, bank=folder, **settings)

    def close(self) -> None:
        """Close the bank; on disk it is then as small as it can be."""
        self.bank.close()

    def __repr__(self) -> str:
        where = self.folder or "memory"
        with contextlib.suppress(Exception):
            return f"Learner({type(self.model).__name__} {self.fingerprint[:8]}, {len(self.bank)} tasks in {where})"
        return f"Learner({type(self.model).__name__}, closed)"


def _in_parts(names: list[str], size: int) -> Iterator[list[str]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]
