"""Conversion between contexts and the rows of a database's tables."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from crwn.contexts import (
    Context,
    ContextInfo,
    Store,
    check_name,
    decode_label,
    encode_label,
    stored_checksum,
    to_json,
)
from crwn.contexts.bank.interface import Entry
from crwn.errors import BankError

# Contexts per statement: below the 999 values that older SQLite accepts.
CHUNK = 500


def chunks(contexts: Iterable[Context]) -> Iterator[list[Context]]:
    """Split contexts into lists of at most CHUNK with different names."""
    chunk: dict[str, Context] = {}
    for context in contexts:
        if context.name in chunk or len(chunk) == CHUNK:
            yield list(chunk.values())
            chunk = {}
        chunk[context.name] = context
    if chunk:
        yield list(chunk.values())


def rows_of(chunk: Sequence[Context], store: Store) -> list[dict[str, Any]]:
    """The rows of these contexts, without sequence and version, which the transaction assigns."""
    rows = []
    for context in chunk:
        data = context.to_bytes(store)
        rows.append(
            {
                "name": context.name,
                "created": context.created,
                "numbers": context.params,
                "bytes": len(data),
                "classes": _classes_to_text(context.classes),
                "info": to_json(dict(context.info)),
                "checksum": stored_checksum(data),
                "data": data,
            }
        )
    return rows


def context_of(name: str, checksum: str, data: object, where: str) -> Context:
    """Decode a payload and check it against the name and checksum it is listed with."""
    source = f'context of task "{name}" in bank {where}'
    if not isinstance(data, bytes):  # SQLite returns what it finds, whatever the column's type
        raise BankError(f"{source} has lost its payload: restore the bank from a copy or learn the task again")
    context = Context.from_bytes(data, source=source)
    if context.name != name or stored_checksum(data) != checksum:
        raise BankError(f'{source} is damaged: its payload is that of "{context.name}": restore the bank from a copy')
    return context


def entry_of(row: Any, where: str) -> Entry:
    """The list's record of one context."""
    try:
        return Entry(
            check_name(row.name),
            int(row.version),
            str(row.created),
            int(row.numbers),
            int(row.bytes),
            _classes_from_text(row.classes),
            str(row.checksum),
            ContextInfo.from_stored(dict(json.loads(row.info))),
        )
    except Exception:
        raise BankError(f"bank {where} is damaged at task {row.name!r:.60}: restore it from a copy") from None


def _classes_to_text(classes: tuple[Hashable, ...]) -> str:
    return to_json([encode_label(label) for label in classes])


def _classes_from_text(text: str) -> tuple[Hashable, ...]:
    return tuple(decode_label(label) for label in json.loads(text))
