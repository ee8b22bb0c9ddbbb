"""Tables made from a known rule, learned and predicted by command line with nothing but defaults.

    python benchmarks/made_tables_check.py --seeds 0,1,2 --out results/bench/made_tables.json

`crwn learn` reads one CSV and `crwn predict` another, of rows that were not learned. The defaults were chosen with
other seeds of these tables (`benchmarks/table_search.py`). Logistic regression and boosted trees get the same rows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_tables import RARE, RARE_CASES, USUAL, Array, Made, found_and_false
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from write_record import write_record

from crwn.cli import main as crwn

Predict = Callable[[Array], Array]


def command(*words: str) -> Any:
    """What `crwn WORDS --json` prints."""
    printed = io.StringIO()
    sys.argv = ["crwn", *words, "--json", "--quiet"]
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        crwn()
    return json.loads(printed.getvalue())


def by_command_line(made: Made, folder: Path) -> Predict:
    """Learned by `crwn learn` from a CSV; rows to predict go through another CSV."""
    names = ",".join(f"column {at}" for at in range(made.x.shape[1]))

    def write(x: Array, y: Array | None = None) -> str:
        path = folder / ("learn.csv" if y is not None else "new.csv")
        rows = x if y is None else np.column_stack([x, y])
        head = names if y is None else f"{names},label"
        np.savetxt(path, rows, fmt="%.9g", delimiter=",", header=head, comments="")
        return str(path)

    model = str(folder / "m.crwn")
    command("learn", model, "table", write(made.x, made.y))
    return lambda x: np.array(command("predict", model, write(x))["predictions"]).astype(float).astype(int)


def by_sklearn(make: Callable[[], Any]) -> Callable[[Made, Path], Predict]:
    def learned(made: Made, _: Path) -> Predict:
        model = make_pipeline(StandardScaler(), make()).fit(made.x, made.y)
        predict: Predict = model.predict
        return predict

    return learned


METHODS: dict[str, Callable[[Made, Path], Predict]] = {
    "crwn": by_command_line,
    "logistic regression": by_sklearn(lambda: LogisticRegression(max_iter=1000)),
    "gradient boosting": by_sklearn(HistGradientBoostingClassifier),
}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Accuracy on new rows in percent; of a rare class what is found and what is taken for it, in both files."""
    made = (USUAL | RARE_CASES)[name](seed)
    facts: dict[str, Any] = {"table": name, "seed": seed}
    if name in RARE_CASES:
        facts["rare"] = {"learned": RARE, "new": int(made.new_y.sum())}
    for method, learn in METHODS.items():
        with tempfile.TemporaryDirectory() as folder:
            predict = learn(made, Path(folder))
            new = predict(made.new_x)
            if name in RARE_CASES:
                found = {"learned": (predict(made.x), made.y), "new": (new, made.new_y)}
                facts[method] = {part: found_and_false(*both) for part, both in found.items()}
            else:
                facts[method] = round(100 * float((new == made.new_y).mean()), 2)
    return facts


def summary(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst of every usual table, and of all rare ones."""
    rare = [one for one in tables if "rare" in one]
    worst = {
        part: {
            "least_found": min(one["crwn"][part][0] / one["rare"][part] for one in rare),
            "most_false_alarms": max(one["crwn"][part][1] for one in rare),
        }
        for part in ("learned", "new")
    }
    return {
        "least_accuracy": {name: min(one["crwn"] for one in tables if one["table"] == name) for name in USUAL},
        "rare": {part: {key: round(value, 3) for key, value in found.items()} for part, found in worst.items()},
        "rare_found": {
            method: {
                part: round(100 * sum(o[method][part][0] for o in rare) / sum(o["rare"][part] for o in rare), 1)
                for part in ("learned", "new")
            }
            for method in METHODS
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    arguments = list(sys.argv)
    torch.set_num_threads(1)
    tables = []
    for name in (*USUAL, *RARE_CASES):
        for seed in map(int, given.seeds.split(",")):
            tables.append(measure(name, seed))
            print(json.dumps(tables[-1]), file=sys.stderr, flush=True)
    sys.argv = arguments  # the command that the record names
    write_record({"summary": summary(tables), "tables": tables}, given.out)


if __name__ == "__main__":
    main()
