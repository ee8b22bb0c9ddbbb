"""What a learner learns with differential privacy: nothing it keeps reveals more of a row than the guarantee allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed
from typing import Any, cast

import numpy as np

from crwn._utils import validated
from crwn.contexts import Context, check_free, now
from crwn.errors import ConfigError, DataError
from crwn.learner.exact_args import ExactArgs
from crwn.learner.observing import Observing
from crwn.learner.prepare import DataArgs
from crwn.training.private import PrivateSettings, train_private

OPTIONS = {"epsilon", "delta", "classes", "scaling", "info"}  # that private learning takes


class LearnArgs(ExactArgs, total=False):
    """All options of `Learner.learn` that it passes on.

    Args:
        epsilon, delta: learn with differential privacy: one row more or less changes the probability of any outcome
            by a factor of at most `exp(epsilon)`, up to `delta`.
    """

    epsilon: float
    delta: float


class PrivateLearning(Observing):
    """The part of a `Learner` that learns with differential privacy."""

    def _learn_private(
        self, task: str, x: Any, y: Any, options: LearnArgs, epochs: int | None, replace: bool, **others: object
    ) -> Context:
        """Learn one task by clipped gradients and noise.

        The number of rows and the set of classes are taken as known to everybody. Nothing else is measured on the
        rows: no scaling, accuracy, loss, sketch or entropies.
        """
        settings = _settings(options, epochs, others)
        if not replace:
            check_free([task], self.bank, hint="replace=True starts over")
        scaling = options.get("scaling")
        if scaling is None and getattr(x, "dtype", None) != np.uint8 and "uint8" not in str(getattr(x, "dtype", "")):
            raise DataError(
                "a scaling that is measured on the rows would reveal them: give scaling=(mean, deviation), or bytes"
            )
        data = cast(DataArgs, {name: options[name] for name in ("info",) if name in options})
        ready = self._prepared(task, x, y, data, None, {"classes": options.get("classes"), "scaling": scaling})
        found = train_private(self._model_copy(), ready, settings)
        facts = {
            "epsilon": round(found.epsilon, 4),
            "delta": settings.delta,
            "noise": round(found.noise, 4),
            "sample_rate": found.share,
            "accountant": "opacus rdp",
        }
        info = changed(
            ready.info,
            rows=len(ready.rows),
            batches=found.learned.steps,
            seconds=round(found.learned.seconds, 3),
            scaling=ready.scaling,
            privacy=facts,
        )
        context = Context(task, found.learned.tensors, tuple(ready.labels), self.fingerprint, now(), info)
        self.bank.put(context, replace=replace)
        self.resident.drop(task)
        return context


def _settings(options: LearnArgs, epochs: int | None, others: Mapping[str, object]) -> PrivateSettings:
    wrong = [name for name, value in others.items() if value]
    wrong += [name for name in options if name not in OPTIONS]
    if wrong:
        raise ConfigError(f"{wrong[0]} cannot be used with epsilon and delta: leave it out")
    given = {"epsilon": options.get("epsilon"), "delta": options.get("delta")}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ConfigError(f"{missing[0]} is missing: differential privacy needs both epsilon and delta")
    return validated(PrivateSettings, given if epochs is None else given | {"epochs": epochs})
