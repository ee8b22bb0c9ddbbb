"""The program of the process that parses large JSON bodies: a frame in, a frame out, until its input ends.

It runs as a script and imports nothing of crwn, so that it starts at once and needs little memory. A frame is a line
of JSON with the lengths of its parts, then the parts.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import numpy as np
import orjson

MOST_MEMORY = 4 * 2**30
FEW = 50_000  # lists and values that are always taken
PART_CELLS = 50_000  # of objects that the service parses again without a pause


def parse(data: bytes, key: str, most: int, rest: int, cells: int) -> tuple[dict[str, Any], list[bytes]]:
    """A JSON object without what is under `key`, and that in parts.

    An array of numbers is one part; its dtype and shape are under "array". Rows that are objects are parts of JSON.
    What would take the service long to make Python objects of is refused here, as it does nothing else meanwhile.

    Args:
        most: rows.
        rest: bytes of JSON beside them.
        cells: values of all rows that are objects.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _problem(f"Invalid JSON: {error}")
    if not isinstance(found, dict):
        return _problem("body: Input should be an object")
    rows = found.get(key)
    if not isinstance(rows, list) or not rows:
        rows = []
    elif len(rows) > most:
        return _problem(f"{len(rows):,} rows at once: send at most {most:,}", "too_many_rows")
    beside = orjson.dumps(found | {key: None} if rows else found)
    if len(beside) > rest or sum(map(beside.count, (b"[", b"{", b","))) > 4 * most + FEW:
        return _problem(f"the body has too much beside its {key}, the most is {rest:,} bytes", "too_large")
    if not rows:
        return {"rest": found}, []
    found[key] = None
    if isinstance(rows[0], dict):
        return _objects(found, rows, key, cells)
    try:
        array = np.asarray(rows)
    except (ValueError, TypeError, OverflowError, RecursionError):
        array = np.asarray("")
    if array.dtype.kind not in "biuf":
        return _problem(f"{key} must be lists of numbers, all of the same length", "invalid_data")
    if array.dtype.kind == "f":  # as the model takes it
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    return {"rest": found, "array": [array.dtype.str, array.shape]}, [array.tobytes()]


def _objects(found: dict[str, Any], rows: list[Any], key: str, cells: int) -> tuple[dict[str, Any], list[bytes]]:
    """Rows by column name, of plain values only."""
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            return _problem(
                f"row {at} of {key} is no object although row 0 is one: give all rows alike", "invalid_data"
            )
        for name, value in row.items():
            if isinstance(value, list | dict):
                what = f"{name[:60]!r} of row {at} of {key} is a list or an object"
                return _problem(f"{what}: give text, a number, true, false or null", "invalid_data")
    count = sum(map(len, rows))
    if count > cells:
        return _problem(f"{count:,} values in the rows of {key}: send at most {cells:,} at once", "too_large")
    size = max(1, PART_CELLS * len(rows) // max(1, count))
    return {"rest": found}, [orjson.dumps(rows[at : at + size]) for at in range(0, len(rows), size)]


def _problem(text: str, code: str = "invalid_request") -> tuple[dict[str, Any], list[bytes]]:
    return {"problem": text, "code": code}, []


def answer(given: BinaryIO, taken: BinaryIO) -> bool:
    """Read one frame and write its answer; False at the end of the input."""
    line = given.readline()
    if not line:
        return False
    size, *limits = orjson.loads(line)
    data = given.read(size)
    try:
        found, parts = parse(data, *limits)
        head = orjson.dumps(found)
    except MemoryError:
        found, parts = _problem("parsing the body needs too much memory: send less at once", "too_large")
        head = orjson.dumps(found)
    taken.write(orjson.dumps([len(head), *map(len, parts)]) + b"\n" + head)
    for part in parts:
        taken.write(part)
    taken.flush()
    return True


def limit_memory() -> None:
    """Let this process have at most `MOST_MEMORY`, where the system can limit it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main() -> None:
    limit_memory()
    while answer(sys.stdin.buffer, sys.stdout.buffer):
        pass


if __name__ == "__main__":
    main()
