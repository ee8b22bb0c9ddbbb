"""A bank against SQLite alone: the same rows read and written by the driver, with nothing decoded or checked."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crwn.bench.measure import Figure
from crwn.contexts import Context
from crwn.contexts.bank import Bank, driver, open_bank
from crwn.contexts.bank.stored import rows_of

WIDTHS = (784, 256, 256)  # FC256 on MNIST
AT_ONCE = 256


def measure_bank(*, tasks: int = 20_000, reads: int = 30, rounds: int = 3, seed: int = 0) -> list[Figure]:
    """Shares of raw `sqlite3` that `get`, `get_many` and `put_many` reach on the same rows, measured in turns.

    Args:
        tasks: contexts in the bank, of NeuroModNet-FC256.
        reads: batches of 256 tasks that are read in each round.
        rounds: how often reads are measured.
    """
    names = [f"customer {number:07}" for number in range(tasks)]
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        where, raw_file = Path(folder) / "bank.sqlite", Path(folder) / "raw.sqlite"
        ours, raws = [], []
        with open_bank(where) as bank:
            part = max(1, tasks // 10)
            for start in range(0, tasks, part):
                contexts = [_context(name, generator) for name in names[start : start + part]]
                ours.append(_seconds(partial(bank.put_many, contexts)) / len(contexts))
                raws.append(raw_put_seconds(raw_file, rows_of(contexts, bank.store)) / len(contexts))
            found = [raw_reads(str(where), _draw(names, reads * AT_ONCE, generator), bank) for _ in range(rounds)]
    put, raw_put = statistics.median(ours), statistics.median(raws)
    rates: dict[str, Any] = {"tasks": tasks, "per_second": round(1 / put), "raw_per_second": round(1 / raw_put)}
    shares = [raw / own for raw, own in zip(raws, ours, strict=True)]
    return [
        _share("get", found, "us"),
        _share("get_many", found, "us_per_task"),
        _figure("put_many", shares, rates),
    ]


def _share(call: str, rounds: Sequence[dict[str, float]], unit: str) -> Figure:
    """The figure of a way to read, from what `raw_reads` returned in each round."""
    shares = [one[f"{call}_of_raw"] for one in rounds]
    facts = {key: statistics.median(one[key] for one in rounds) for key in (f"{call}_{unit}", f"raw_{call}_{unit}")}
    return _figure(call, shares, facts)


def _figure(call: str, shares: Sequence[float], facts: dict[str, Any]) -> Figure:
    what = f"bank.{call} on contexts of FC256: share of the rate of sqlite3 alone on the same rows"
    middle = round(statistics.median(shares), 3)
    return Figure(f"serve.bank_{call}_of_raw", middle, (min(shares), max(shares)), what, facts)


def raw_reads(where: str, names: Sequence[str], bank: Bank) -> dict[str, float]:
    """Median seconds of reads by the driver and by the bank, alternately, each of other tasks, and their ratios."""
    connection = sqlite3.connect(f"file:{where}?mode=ro", uri=True, isolation_level=None)
    try:
        times: dict[str, list[float]] = {"raw": [], "ours": [], "raw_many": [], "ours_many": []}
        for at, name in enumerate(names[:2000]):
            if at % 2:
                times["ours"].append(_seconds(partial(bank.get, name)))
            else:
                times["raw"].append(_seconds(partial(_fetch, connection, driver.ONE, name)))
        for at, start in enumerate(range(0, len(names), AT_ONCE)):
            some = list(dict.fromkeys(names[start : start + AT_ONCE]))
            if at % 2:
                times["ours_many"].append(_seconds(partial(bank.get_many, some)) / len(some))
            else:
                raw = partial(_fetch, connection, driver.MANY, driver.wanted(some))
                times["raw_many"].append(_seconds(raw) / len(some))
    finally:
        connection.close()
    middle = {key: statistics.median(values) if values else float("nan") for key, values in times.items()}
    return {
        "get_us": round(middle["ours"] * 1e6, 1),
        "raw_get_us": round(middle["raw"] * 1e6, 1),
        "get_of_raw": round(middle["raw"] / middle["ours"], 3),
        "get_many_us_per_task": round(middle["ours_many"] * 1e6, 1),
        "raw_get_many_us_per_task": round(middle["raw_many"] * 1e6, 1),
        "get_many_of_raw": round(middle["raw_many"] / middle["ours_many"], 3),
    }


def raw_put_seconds(path: Path, rows: list[dict[str, Any]]) -> float:
    """Seconds that the driver takes to insert these rows into a file with the tables and settings of a bank."""
    if not path.exists():
        open_bank(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16384"):
            connection.execute(f"PRAGMA {setting}").close()
        (last,) = connection.execute("SELECT coalesce(max(sequence), 0) FROM crwn_payloads").fetchone()
        for sequence, row in enumerate(rows, last + 1):
            row["sequence"], row["version"] = sequence, 1
        payloads, listed = driver.values_of(rows)

        def write() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(driver.PUT_DATA, payloads)
            connection.executemany(driver.PUT_CONTEXT, listed)
            connection.execute("COMMIT")

        return _seconds(write)
    finally:
        connection.close()


def _context(name: str, generator: torch.Generator) -> Context:
    tensors = {f"layers.{i}.v": torch.randn(width, generator=generator) for i, width in enumerate(WIDTHS)}
    tensors |= {f"layers.{i}.alpha": torch.randn((), generator=generator) for i in range(len(WIDTHS))}
    return Context(name, tensors, tuple(range(10)), "ab" * 32, "2026-01-01T00:00:00+00:00", {"rows": 60000})


def _draw(names: Sequence[str], count: int, generator: torch.Generator) -> list[str]:
    return [names[at] for at in torch.randint(len(names), (count,), generator=generator).tolist()]


def _fetch(connection: sqlite3.Connection, statement: str, value: str) -> list[Any]:
    return connection.execute(statement, (value,)).fetchall()


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
