"""From the data of a learn request to a job: everything is checked before the job is queued."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from crwn.data.tables import Table
from crwn.learner.prepare import DataArgs
from crwn.serve.body import Array
from crwn.serve.errors import ServeError
from crwn.serve.jobs import Job, Learn
from crwn.serve.schemas import LearnOptions, TaskFacts
from crwn.serve.service import Service


def make_learn(service: Service, task: str, x: Array | Table, y: list[Hashable] | None, options: LearnOptions) -> Learn:
    """Checks the data and the options of a task, and returns the function that learns it inside a job."""
    learner, limits = service.learner, service.limits
    if (isinstance(x, Table) or x.ndim) and len(x) > limits.learn_rows:
        raise ServeError(413, "too_many_rows", f"{len(x):,} rows: send at most {limits.learn_rows:,}")
    rows = len(x) if getattr(x, "ndim", 1) else None
    recipe = learner.recipe(None, batches=options.batches, epochs=options.epochs, rows=rows)
    resume, replace = options.resume, options.replace
    data: DataArgs = {
        "validation": options.validation,
        "kind": options.kind,
        "class_weight": options.class_weight,
    }
    ready = learner.prepare(task, x, y, resume=resume, replace=replace, **data)
    steps = recipe.steps(len(x))
    if steps > limits.batches:
        raise ServeError(422, "invalid_option", f"{steps:,} batches: use at most {limits.batches:,}")

    def learn(job: Job) -> Mapping[str, Any]:
        learner.learn_prepared(ready, recipe, resume=resume, replace=replace, progress=False, callbacks=[job.callback])
        entry = service.find(task)
        return {} if entry is None else TaskFacts.of(entry).model_dump()

    return learn
