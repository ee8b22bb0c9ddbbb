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


def parse(data: bytes, key: str, most: int) -> tuple[dict[str, Any], bytes]:
    """A JSON object without the array under `key`, and that array as bytes; its dtype and shape are under "array".

    More than `most` rows are refused before they are converted, which takes far longer than reading them.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return {"problem": f"Invalid JSON: {error}", "code": "invalid_request"}, b""
    if not isinstance(found, dict):
        return {"problem": "body: Input should be an object", "code": "invalid_request"}, b""
    rows = found.get(key)
    if not isinstance(rows, list) or not rows or isinstance(rows[0], dict):
        return {"rest": found}, b""
    if len(rows) > most:
        return {"problem": f"{len(rows):,} rows at once: send at most {most:,}", "code": "too_many_rows"}, b""
    try:
        array = np.asarray(rows)
    except (ValueError, TypeError, OverflowError, RecursionError):
        array = np.asarray("")
    if array.dtype.kind not in "biuf":
        problem = f"{key} must be lists of numbers, all of the same length"
        return {"problem": problem, "code": "invalid_data"}, b""
    if array.dtype.kind == "f":  # as the model takes it
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    found[key] = None
    return {"rest": found, "array": [array.dtype.str, array.shape]}, array.tobytes()


def answer(given: BinaryIO, taken: BinaryIO) -> bool:
    """Read one frame and write its answer; False at the end of the input."""
    line = given.readline()
    if not line:
        return False
    size, key, most = orjson.loads(line)
    data = given.read(size)
    try:
        found, array = parse(data, key, most)
        head = orjson.dumps(found)
    except MemoryError:
        problem = "parsing the body needs too much memory: send less at once"
        head, array = orjson.dumps({"problem": problem, "code": "too_large"}), b""
    taken.write(orjson.dumps([len(head), len(array)]) + b"\n" + head + array)
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
