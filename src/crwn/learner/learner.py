"""The learner: one frozen model and the contexts of all its tasks, the object most users hold."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Unpack, overload

import numpy.typing as npt
import torch
from torch import nn

from crwn._utils import Closing, counted
from crwn.contexts import Context, Store, check_free
from crwn.contexts.bank import Bank, ResidentStack
from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.data import inputs
from crwn.errors import ConfigError
from crwn.layers import context_tensors
from crwn.learner import folder as model_folder
from crwn.learner.answers import Probabilities, predicted, probabilities, score
from crwn.learner.checks import check_device, check_modulated
from crwn.learner.contexts import check_context, merge_task
from crwn.learner.encode import given_rows
from crwn.learner.exact_args import split_options
from crwn.learner.extending import Extending
from crwn.learner.fit import group_tasks
from crwn.learner.inferring import Inferring
from crwn.learner.predict import Infer, Outputs, Predictor
from crwn.learner.prepare import DataArgs, prepare_task, rows_and_labels
from crwn.learner.private import LearnArgs, PrivateLearning
from crwn.learner.sharing import Sharing
from crwn.learner.sketch_index import SketchIndex
from crwn.learner.statistics_store import StatisticsStore
from crwn.learner.trainer import Trainer, TrainingArgs
from crwn.models import fingerprint
from crwn.models.convert.checks import check_dtype
from crwn.models.convert.conversion import converted
from crwn.models.convert.kept import update_fingerprints
from crwn.training.engines import Engine
from crwn.training.loop import Callbacks
from crwn.training.precision import Precision, check_precision, in_precision
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


class Learner(PrivateLearning, Inferring, Extending, Sharing, Closing):
    """Learns any number of tasks with one frozen model; what each task learned is its context, stored in a bank.

    Args:
        model: one of crwn's networks, or any module made by `crwn.neuromodulate`.
        bank: None keeps contexts in memory; a path is a model folder, made where there is none; an address
            (`postgresql://...`) is a bank on a server.
        store: the dtype contexts are stored in: "float32", "float16" or "int8".
        resident: how many recently used tasks stay in memory.
        seed: seed of the batch order; everything else comes from the model's seed.
        precision: "bf16" computes training and predictions in bfloat16, on processors that have instructions for it.

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
        precision: Precision = "float32",
    ) -> None:
        check_modulated(model)
        self.model, self.seed, self.precision = model.eval(), seed, check_precision(precision)
        self.device = check_device(device)
        if converted(model):
            check_dtype(model)
            update_fingerprints(model)  # it may have been changed since it was converted
        self.fingerprint = fingerprint(model)
        self.bank, self.folder = model_folder.open_for(self.model, bank, store, self.fingerprint)
        shapes = {name: tuple(tensor.shape) for name, tensor in context_tensors(model).items()}
        self.resident = ResidentStack(self.bank, shapes, capacity=resident)
        self._statistics = StatisticsStore(self.folder)
        self._streams, self._committed, self._observing = {}, {}, threading.Lock()
        self._forgotten, self._busy = set[str](), ForkSafeLock(Protects.MODEL)
        shared = self.resident, self.device, self._busy
        sketches = SketchIndex(self.bank)
        network = in_precision(self.model, precision)
        self._predictor = Predictor(network, *shared, sketches, precision, self._head_scores)
        self._trainer = Trainer(self.model, *shared, seed)

    @property
    def tasks(self) -> list[str]:
        """Names of all tasks."""
        return self.bank.names()

    def learn(
        self,
        task: str,
        x: Any,
        y: Any = None,
        *,
        batches: int | None = None,
        epochs: int | None = None,
        recipe: Recipe | str | None = None,
        start: str | None = None,
        resume: bool = False,
        replace: bool = False,
        progress: bool = True,
        callbacks: Callbacks = (),
        method: str = "gradient",
        **options: Unpack[LearnArgs],
    ) -> Context:
        """Learn one task and store its context; labels may be text, numbers, True, False, None, or tuples of these.

        Args:
            x, y: rows and labels: arrays, tensors, or a Dataset or DataLoader of pairs as `x` alone; a frame of pandas
                or polars, whose columns are then known by name, with labels or the name of the column that has them.
            kind: "classification", "multilabel" (y: lists of labels, or an array of 0 and 1) or "regression" (numbers).
            sample_weight: a weight per row. class_weight: "balanced" lets all classes count the same.
            validation: a share of the rows (0.1), or `(x, y)`, for early stopping; with refit=True it only measures.
            recipe: "paper", "best", or a Recipe; `batches` or `epochs` overrides its length.
            start: start from the context of this task; "nearest" is the task that fits the rows best.
            resume: continue training from the task's context. replace: learn an existing task from the start.
            info: custom facts, stored with the context (`context.info.user`); a resumed task keeps them.
            method: "gradient", or "exact" for the closed form. Options of both and of privacy: see `LearnArgs`.
        """
        if "epsilon" in options or "delta" in options:
            others = {"batches": batches, "recipe": recipe, "start": start, "resume": resume, "callbacks": callbacks}
            found = self._learn_private(task, x, y, options, epochs, replace, **others, exact=method == "exact")
            self.unshare(task)
            return found
        data, exact = split_options(method, options, batches=batches, epochs=epochs, recipe=recipe)
        if exact is not None:
            found = self._learn_exact(task, x, y, data, exact, start, resume, replace, progress)
            if replace:
                self.unshare(task)
            return found
        ready = self.prepare(task, x, y, resume=resume, replace=replace, **data)
        chosen = self.recipe(recipe, batches=batches, epochs=epochs, rows=len(ready.rows))
        return self.learn_prepared(
            ready, chosen, start=start, resume=resume, replace=replace, progress=progress, callbacks=callbacks
        )

    def prepare(
        self, task: str, x: Any, y: Any = None, *, resume: bool = False, replace: bool = False, **data: Unpack[DataArgs]
    ) -> PreparedTask:
        """Check a task's name and data and convert them for training, without training; arguments as for `learn`."""
        if resume and replace:
            raise ConfigError("both resume and replace are given: resume continues a task, replace starts over")
        if not (resume or replace):
            check_free([task], self.bank, hint="resume=True continues it, replace=True starts over")
        known = self.bank.get(task) if resume else None
        self.try_on(x)
        return prepare_task(
            task, x, y, shape=self.input_shape, outputs=self.outputs, seed=self.seed, known=known,
            byte_scaling=self.byte_scaling, float_scaling=self.float_scaling, **data,
        )  # fmt: skip

    def learn_prepared(
        self,
        task: PreparedTask,
        recipe: Recipe,
        *,
        start: str | None = None,
        resume: bool = False,
        replace: bool = False,
        **training: Unpack[TrainingArgs],
    ) -> Context:
        """Learn a task that `prepare` has checked, for callers that queue the work; arguments as for `learn`."""
        begin = self._trainer.start(task, start, resume=resume)
        (context,) = self._trainer.fit([[task]], recipe, starts=[begin], replace=resume or replace, **training)
        if replace and start != task.name:  # one that starts from its own context, as `extend` does, goes on
            self.unshare(task.name)
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
        callbacks: Callbacks = (),
        engine: str | Engine = "local",
    ) -> list[Context]:
        """Learn several tasks in one go, `{name: (x, y)}`: the same contexts as one after another, in less time.

        Tasks with equally many rows are stacked; an interruption loses only the stack that was under way.
        """
        pairs = {name: rows_and_labels(data, f'task "{name}"') for name, data in tasks.items()}
        made = [self.prepare(name, x, y, validation=validation, replace=replace) for name, (x, y) in pairs.items()]
        most = max((len(one.rows) for one in made), default=None)
        chosen = self.recipe(recipe, batches=batches, epochs=epochs, rows=most)
        groups = group_tasks(self.model, made, chosen.batch_size)
        training: TrainingArgs = {"progress": progress, "callbacks": callbacks, "engine": engine}
        by_name = {context.name: context for context in self._trainer.fit(groups, chosen, replace=replace, **training)}
        for name in tasks if replace else ():
            self.unshare(name)
        return [by_name[name] for name in tasks]

    def predict(
        self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: Infer = False
    ) -> npt.NDArray[Any]:
        """The labels (multilabel: tuples; regression: numbers) of rows of one task, one each, or an inferred one.

        `infer_task=True` infers the task of all rows together, "rows" that of every row on its own.
        """
        return predicted(self.logits(x, task, infer_task=infer_task))

    @overload
    def predict_proba(self, x: Any, task: str | None = None, *, infer_task: Infer = False) -> Probabilities: ...

    @overload
    def predict_proba(self, x: Any, task: Sequence[str], *, infer_task: Infer = False) -> list[Probabilities]: ...

    def predict_proba(
        self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: Infer = False
    ) -> Probabilities | list[Probabilities]:
        """Probabilities over the task's classes, `[rows, classes]`; for mixed tasks a list, one array per row."""
        return probabilities(self.logits(x, task, infer_task=infer_task))

    def score(self, x: Any, y: Any = None, task: str | Sequence[str] | None = None) -> float:
        """Accuracy: the share of rows whose label (multilabel: all labels) is right; R2 of a regression."""
        x, labels = (x, y) if y is not None else inputs.collect(x)
        return score(self.logits(x, task), labels)

    def logits(self, x: Any, task: str | Sequence[str] | None = None, *, infer_task: Infer = False) -> Outputs:
        """Raw outputs `[rows, classes]`, the task or tasks they are of, and the classes of each task.

        Rows of mixed tasks have `-inf` where their task has no class.
        """
        self.try_on(x)
        rows = given_rows(x, self.input_shape)
        return self._predictor.logits(rows, task, infer=infer_task, outputs=self.outputs)

    def context(self, task: str) -> Context:
        """What one task learned."""
        return self.bank.get(task)

    def add(self, context: Context, *, replace: bool = False) -> None:
        """Store a context that was learned elsewhere by the same model."""
        check_context(context, self.model, self.fingerprint, outputs=self.outputs)
        self.bank.put(context, replace=replace)
        self.resident.drop(context.name)  # read from the bank when it is used, if it is still there

    def merge(self, task: str) -> nn.Module:
        """A plain `nn.Module` with this task's context baked in: raw rows in, logits of its classes out."""
        context = self.bank.get(task)
        with self._busy:
            return merge_task(self.model, context, outputs=self.outputs)

    def refresh(self) -> list[str]:
        """Read what other processes changed in the bank; returns the names of changed tasks."""
        return self.resident.refresh()

    def save(self, path: str | Path) -> None:
        """Write a model folder with all tasks; a learner whose bank is that folder is saved already.

        Tasks that the folder has from elsewhere stay; those forgotten here are dropped there too.
        """
        target = Path(path)
        if self.folder is None or self.folder.resolve() != target.resolve():
            self._statistics.copy_to(target, self.bank)  # before the contexts that name them
            model_folder.write_folder(target, self.model, self.bank, self.fingerprint, self._forgotten)

    @classmethod
    def load(cls, path: str | Path, *, model: nn.Module | None = None, **settings: Any) -> Learner:
        """Open a model folder, or the folder of a run whose method learns contexts.

        The folder above a run works too where the run has one seed. Fingerprints of the frozen weights are compared.
        """
        folder, found = model_folder.read_checked(path, model)
        return cls(found, bank=folder, **settings)

    def close(self) -> None:
        """Store what was observed and close the bank; on disk it is then as small as it can be."""
        self._end_streams()
        self.bank.close()

    def __reduce__(self) -> NoReturn:
        raise ConfigError("a learner cannot be pickled: learner.save(path), then crwn.Learner.load(path) there")

    def __repr__(self) -> str:
        with contextlib.suppress(Exception):
            held = f"{counted(len(self.bank), 'task')} in {self.folder or 'memory'}"
            return f"Learner({type(self.model).__name__} {self.fingerprint[:8]}, {held})"
        return f"Learner({type(self.model).__name__}, closed)"
