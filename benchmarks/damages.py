"""Damage model folders and context files at random, and check what opening and predicting does.

    python benchmarks/damages.py --damages 1000 --json results/bench/damages.json

Each round copies a model folder (a NeuroModNet, and a custom module whose kept weights are a file) or a context file,
changes bits, bytes or the length of one of its files, or takes the file away, and then opens it and predicts with every
task. Right is an error of one line; or the same predictions as before, where the change had no effect, as in free space
of the database. Anything else, a traceback or another prediction, is a failure and ends in exit code 1.
"""

from __future__ import annotations

import argparse
import collections
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from write_record import write_record

import crwn
from crwn.contexts import Context
from crwn.data import load
from crwn.errors import CRWNError

Predictions = dict[str, list[Any]]


def custom_module(seed: int) -> nn.Module:
    """Return a converted custom module that keeps its weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    converted = crwn.neuromodulate(module, weights="keep")
    converted.classes = 10  # type: ignore[assignment]
    return converted


def make_folders(where: Path) -> tuple[dict[Path, Predictions], dict[Path, Context], np.ndarray[Any, Any]]:
    """Two model folders with three tasks each and what they predict, and the context files of one."""
    digits = load("digits")
    x, y = digits.x_train.numpy().reshape(-1, 64), digits.y_train.numpy()
    rows = digits.x_test.numpy().reshape(-1, 64)[:32]
    models = {
        "network.crwn": crwn.NeuroModNet(64, (32, 32), 10, seed=0, weights="hadamard"),
        "module.crwn": custom_module(0),
    }
    predicted: dict[Path, Predictions] = {}
    contexts: dict[Path, Context] = {}
    for name, model in models.items():
        with crwn.Learner(model) as learner:
            for turn in range(3):
                turned = np.rot90(x.reshape(-1, 8, 8), turn, axes=(1, 2)).reshape(-1, 64)
                learner.learn(f"turn {turn}", turned, y, batches=30, progress=False)
            learner.save(where / name)
            predicted[where / name] = {task: learner.predict(rows, task=task).tolist() for task in learner.tasks}
            if name == "network.crwn":
                for task in learner.tasks:
                    contexts[where / f"{task}.context"] = learner.context(task)
                    learner.context(task).save(where / f"{task}.context")
    return predicted, contexts, rows


def damage(path: Path, dice: random.Random) -> str:
    """Change the file in one of several ways, and return what was done."""
    data = bytearray(path.read_bytes())
    at = dice.randrange(max(1, len(data)))
    way = dice.choice(("a bit", "64 bytes", "20 single bytes", "cut short", "made longer", "emptied", "taken away"))
    if way == "a bit":
        data[at] ^= 1 << dice.randrange(8)
    elif way == "64 bytes":
        data[at : at + 64] = dice.randbytes(min(64, len(data) - at))
    elif way == "20 single bytes":
        for _ in range(20):
            data[dice.randrange(len(data))] = dice.randrange(256)
    elif way == "cut short":
        data = data[:at]
    elif way == "made longer":
        data += dice.randbytes(1 + dice.randrange(5000))
    elif way == "emptied":
        data = bytearray()
    if way == "taken away":
        path.unlink()
    else:
        path.write_bytes(data)
    return way


def outcome(attempt: Callable[[], bool]) -> tuple[str, str]:
    """ "refused", "unharmed", or one of the two failures; and the words."""
    try:
        same = attempt()
    except CRWNError as error:
        return ("refused", str(error)) if "\n" not in str(error) else ("traceback", str(error))
    except Exception:
        return "traceback", traceback.format_exc(limit=-3)
    return ("unharmed", "") if same else ("wrong", "")


def predictions_of(folder: Path, rows: np.ndarray[Any, Any], module: bool) -> Predictions:
    converted = custom_module(1) if module else None  # its weights come from the folder
    with crwn.Learner.load(folder, model=converted) as learner:
        return {task: learner.predict(rows, task=task).tolist() for task in learner.tasks}


def run(damages: int, seed: int) -> dict[str, Any]:
    dice = random.Random(seed)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    failures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as scratch:
        folders, contexts, rows = make_folders(Path(made))
        for number in range(damages):
            whole = dice.choice([*folders, *contexts])
            copy = Path(scratch) / f"{number}{whole.suffix}"
            if whole.is_dir():
                shutil.copytree(whole, copy)
                target = dice.choice(sorted(file for file in copy.rglob("*") if file.is_file()))
                kind = f"{whole.name}/{target.name}"
                attempt = _same_predictions(copy, rows, folders[whole])
            else:
                shutil.copy(whole, copy)
                target, kind = copy, "context file"
                attempt = _same_context(copy, contexts[whole])
            way = damage(target, dice)
            found, words = outcome(attempt)
            counts[kind][found] += 1
            if found in ("traceback", "wrong"):
                failures.append({"number": number, "file": kind, "way": way, "outcome": found, "words": words})
                print(failures[-1], file=sys.stderr, flush=True)
            if copy.is_dir():
                shutil.rmtree(copy)
            else:
                copy.unlink(missing_ok=True)
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    return {"damages": damages, "seed": seed, "outcomes": dict(total), "by_file": counts, "failures": failures}


def _same_predictions(folder: Path, rows: np.ndarray[Any, Any], expected: Predictions) -> Callable[[], bool]:
    module = (folder / "weights.safetensors").exists()
    return lambda: predictions_of(folder, rows, module) == expected


def _same_context(path: Path, expected: Context) -> Callable[[], bool]:
    return lambda: Context.load(path) == expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    record = run(given.damages, given.seed)
    write_record(record, given.json)
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
