"""The signed note about rows that were removed from a task."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any

from crwn.contexts import Context, now
from crwn.training.exact import Statistics
from crwn.training.exact.files import digest, to_bytes


@dataclass(frozen=True)
class Removal:
    """What was removed from a task and when, signed with a secret key (HMAC-SHA256).

    Args:
        task, model: the task and the fingerprint of its model.
        rows: number of removed rows; `classes` of each class, in the order of the outputs.
        removed: SHA-256 of the removed rows' statistics: whoever has the rows can compute it again.
        left: SHA-256 of the statistics of the rows that are left, and `left_rows` their number.
        before: checksum of the context before.
        when: ISO 8601 in UTC.
        signature: HMAC of everything else.
    """

    task: str
    model: str
    rows: int
    classes: tuple[int, ...]
    removed: str
    left: str
    left_rows: int
    before: str
    when: str
    signature: str = ""

    def verify(self, key: bytes) -> bool:
        """Whether this note was signed with the key and is unchanged since."""
        return hmac.compare_digest(self.signature, _signature(self, key))

    def as_dict(self) -> dict[str, Any]:
        """The note as plain values that JSON can represent."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Removal:
        """A note from the values of `as_dict`, as a context's `info.exact["removed"]` holds them."""
        return cls(**{**values, "classes": tuple(values["classes"])})


def removal_note(context: Context, removed: Statistics, left: Statistics, key: bytes) -> Removal:
    """The note for statistics that were taken from a context's."""
    note = Removal(
        task=context.name,
        model=context.model,
        rows=removed.rows,
        classes=tuple(int(count) for count in removed.counts),
        removed=digest(to_bytes(removed)),
        left=digest(to_bytes(left)),
        left_rows=left.rows,
        before=context.checksum,
        when=now(),
    )
    return Removal(**{**asdict(note), "signature": _signature(note, key)})


def _signature(note: Removal, key: bytes) -> str:
    values = {name: value for name, value in note.as_dict().items() if name != "signature"}
    return hmac.new(key, json.dumps(values, sort_keys=True).encode(), hashlib.sha256).hexdigest()
