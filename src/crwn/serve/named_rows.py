"""Rows as objects by column name, `{"age": 31, "city": "Bern"}`: encoded as their task encodes its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crwn.data.tables import Table, table_of_objects
from crwn.errors import DataError
from crwn.learner.encode import encode_for_tasks
from crwn.learner.ranking import TaskScore
from crwn.serve.body import Array
from crwn.serve.errors import ServeError
from crwn.serve.service import Service

# The columns of this many tasks are compared with those of rows without a task.
MOST_TASKS = 1000


def are_named(rows: Sequence[Any]) -> bool:
    """Whether rows of a JSON body are objects."""
    return bool(rows) and isinstance(rows[0], dict)


def named_table(rows: Sequence[Any], most: int) -> Table:
    """The table of these objects.

    Raises:
        DataError: some rows are no objects, or a value is a list or an object.
        ServeError: there are more than `most`.
    """
    if len(rows) > most:
        raise ServeError(413, "too_many_rows", f"{len(rows):,} rows at once: send at most {most:,}")
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"row {at} is no object although row 0 is one: give all rows alike")
        for name, value in row.items():
            if isinstance(value, list | dict):
                raise DataError(
                    f"{name!r} of row {at} is a list or an object: give text, a number, true, false or null"
                )
    return table_of_objects(rows, "the request")


async def encode_named(
    service: Service, rows: Sequence[Any], task: str | list[str] | None, candidates: Sequence[str] | None
) -> tuple[Array, str | list[str], list[TaskScore] | None]:
    """Rows as model inputs, their task or tasks, and the ranking where the task was inferred."""
    table = named_table(rows, service.limits.rows)
    return await service.bank_calls.change(_encode, service, table, task, candidates)


def _encode(
    service: Service, table: Table, task: str | list[str] | None, candidates: Sequence[str] | None
) -> tuple[Array, str | list[str], list[TaskScore] | None]:
    learner, ranking = service.learner, None
    if task is None:
        names = list(candidates) if candidates is not None else learner.bank.names(limit=MOST_TASKS + 1)
        if not names:
            raise ServeError(404, "no_tasks", "there are no tasks yet: learn one first")
        if len(names) > MOST_TASKS:
            message = f"rows as objects of an unknown task: with more than {MOST_TASKS:,} tasks, give candidates"
            raise ServeError(422, "too_many_tasks", message)
        few = table.select(range(min(len(table), service.limits.inference_rows)))
        ranking = learner.infer_task(few, tasks=names)
        task = ranking[0].task
    return encode_for_tasks(table, task, learner.resident, learner.input_shape), task, ranking
