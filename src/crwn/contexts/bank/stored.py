"""Conversion between contexts and the rows of a database's tables."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from crwn.contexts import Context, ContextInfo, Store, StoredContext, check_name, decode_label
from crwn.contexts.bank.interface import Entry
from crwn.contexts.checks import check_facts, check_labels, check_stamp
from crwn.contexts.record import labels_to_text, read_record
from crwn.errors import BankError

# Contexts that are read together: below the 999 values that older SQLite accepts in one statement.
CHUNK = 500
# Contexts that are written together.
WRITTEN = 2500
LOST = "learn the task again, or restore the bank from a backup with `crwn restore`"


def chunks(contexts: Iterable[Context]) -> Iterator[list[Context]]:
    """Split contexts into lists of at most WRITTEN with different names."""
    chunk: dict[str, Context] = {}
    for context in contexts:
        if context.name in chunk or len(chunk) == WRITTEN:
            yield list(chunk.values())
            chunk = {}
        chunk[context.name] = context
    if chunk:
        yield list(chunk.values())


def rows_of(chunk: Sequence[Context], store: Store) -> list[dict[str, Any]]:
    """The rows of these contexts, without sequence and version, which the transaction assigns."""
    rows = []
    for context in chunk:
        classes, info = labels_to_text(context.classes), context.info.to_json()
        data, checksum = context.stored_as(store, classes, info)
        rows.append(
            {
                "name": context.name,
                "created": context.created,
                "numbers": context.params,
                "bytes": len(data),
                "classes": classes,
                "info": info,
                "checksum": checksum,
                "data": data,
            }
        )
    return rows


def read_row(name: object, checksum: object, data: object, where: str) -> StoredContext:
    """Check a payload, also against the name and checksum it is listed with."""
    source = f'context of task "{name}" in bank {where}'
    if not isinstance(data, bytes):  # SQLite returns what it finds, whatever the column's type
        raise BankError(f"{source} has lost its payload: {LOST}")
    stored = read_record(data, source=source)
    if stored.name != name or stored.checksum != checksum:
        raise BankError(f'{source} is damaged: its payload is that of "{stored.name}": {LOST}')
    return stored


def entry_of(row: Any) -> Entry:
    """The list's record of one context; one that cannot be read is listed with its name and what is wrong."""
    try:
        name = check_name(row.name)
        info = json.loads(row.info)
        check_facts(info)
        return Entry(
            name,
            int(row.version),
            check_stamp(row.created, "created"),
            int(row.numbers),
            int(row.bytes),
            check_labels(_classes_from_text(row.classes), name),
            check_stamp(row.checksum, "checksum"),
            ContextInfo.from_stored(dict(info)),
        )
    except Exception as error:  # whatever is wrong with one row, the others are listed
        text = " ".join(str(error).split())[:200] or type(error).__name__
        return Entry(str(row.name), 0, "", 0, 0, (), "", ContextInfo(), damage=f"{text}: {LOST}")


def _classes_from_text(text: str) -> tuple[Hashable, ...]:
    return tuple(decode_label(label) for label in json.loads(text))
