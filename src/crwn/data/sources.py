"""Which data sets there are, and getting them: load, fetch, import."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from crwn.data.cache import cached_names, check_name, description, is_cached, read_set, write_set
from crwn.data.digits import digits
from crwn.data.image_set import Arrays, ImageSet
from crwn.data.mnist import fetch_mnist
from crwn.data.progress import Progress, silent
from crwn.errors import DataError

FETCH: dict[str, Callable[[Progress], Arrays]] = {"digits": digits, "mnist": fetch_mnist}


def load(name: str, *, progress: Progress = silent) -> ImageSet:
    """A data set by name: from the cache, or fetched into it first where that is possible."""
    if not is_cached(name):
        fetch(name, progress=progress)
    return read_set(name)


def fetch(name: str, *, progress: Progress = silent) -> dict[str, Any]:
    """Get a known set into the cache, in place of a copy that is there; returns what is known about it."""
    if name not in FETCH:
        raise _cannot_fetch(check_name(name))
    write_set(name, FETCH[name](progress))
    return description(name)


def available() -> list[dict[str, Any]]:
    """Every set that is known or cached: name, whether it is cached, and how to get it or what it holds."""
    known = dict.fromkeys(FETCH, "crwn data fetch")
    return [
        {"name": name, "cached": is_cached(name), "get": known.get(name), **(_facts(name) if is_cached(name) else {})}
        for name in sorted({*known, *cached_names()})
    ]


def _facts(name: str) -> dict[str, Any]:
    facts = description(name)
    return {key: facts[key] for key in ("rows", "shape", "dtype", "source", "created")} | {
        "classes": len(facts["classes"])
    }


def _cannot_fetch(name: str) -> DataError:
    choices = sorted({*FETCH, *cached_names()})
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    return DataError(
        f"there is no data set {name!r}{hint} (there are: {', '.join(choices)}); "
        f"bring your own with `crwn data import {name} PATH`"
    )
