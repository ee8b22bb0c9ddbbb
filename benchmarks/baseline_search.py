"""Search for the best recipe of the baselines, with the budget of NeuroModNet's search: nine candidates at most.

    python benchmarks/baseline_search.py stl supsup batche flynet

Rotation-MNIST tasks 0-2, 1,000 batches of 128, evaluated on 10,000 training images that no candidate learns from: the
images that `recipe_search.py` holds out. The test set is never read. The paper's recipe is the first candidate, then
three optimizers and schedules at three times its rate, and the best of these climbs: rates change by a factor of three
in the direction that helps. Every finished candidate is a line of the record; the same command continues.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from crwn.data.dataset import Rows
from crwn.experiments.environment import machine, versions
from crwn.experiments.experiment import accuracy
from crwn.experiments.metrics import average
from crwn.layers.weights import named_generator
from crwn.methods import make_method
from crwn.scenarios import Scenario, make_scenario

BUDGET, TASKS, HELD_OUT = 9, 3, 10_000
FACTOR = 3.0
SCHEDULES = (("rmsprop", "cosine"), ("adam", "cosine"), ("adam", "onecycle"))
# The paper's rates, and with which settings the search begins; all rates named here climb.
PUBLISHED = {
    "stl": {"rate": 1e-3},
    "supsup": {"rate": 1e-4},
    "batche": {"rate": 1e-2, "first_rate": 1e-4},
    "flynet": {"rate": 1e-2},
}
SIZES = {"flynet": "10d"}
Settings = dict[str, Any]


def held_out_tasks(seed: int) -> Scenario:
    """Return three rotations whose test rows are training images that are held out from their training rows."""
    scenario = make_scenario("rotated-mnist", seed=seed, tasks=TASKS)
    order = torch.from_numpy(named_generator("recipe search").permutation(len(scenario[0].train)))

    def part(rows: Rows, *, held: bool) -> Rows:
        return rows.select(order[:HELD_OUT] if held else order[HELD_OUT:])

    tasks = [replace(t, train=part(t.train, held=False), test=part(t.train, held=True)) for t in scenario]
    shape, budget = scenario.input_shape, scenario.budget
    return Scenario("rotated-mnist, held out", tasks, seed=seed, input_shape=shape, budget=budget)


def evaluate(method: str, settings: Settings, scenario: Scenario) -> dict[str, Any]:
    """Learn the tasks with these settings, and return the accuracies on the held-out images, in percent."""
    texts = {name: str(value) for name, value in settings.items()}
    made, overrides = make_method(method, scenario, size=SIZES.get(method, "256"), seed=0, settings=texts)
    began = time.perf_counter()
    recipe = made.recipe(**overrides)
    for start in range(0, TASKS, made.stack_size):
        made.learn(scenario[start : start + made.stack_size], recipe)
    seconds = (time.perf_counter() - began) / TASKS
    accuracies = [accuracy(made, task, task.test) for task in scenario]
    return {"accuracy": average(accuracies), "tasks": accuracies, "seconds": seconds}


class Search:
    """The candidates of one method: at most `BUDGET` are evaluated."""

    def __init__(self, method: str, path: Path, scenario: Scenario) -> None:
        self.method, self.path, self.scenario = method, path, scenario
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.known = {self._key(line["settings"]): line for line in lines if line["method"] == method}
        self.seen: dict[str, float] = {}

    @staticmethod
    def _key(settings: Settings) -> str:
        return json.dumps(settings, sort_keys=True)

    @property
    def left(self) -> int:
        return BUDGET - len(self.seen)

    def reached(self, settings: Settings) -> float:
        """Return the accuracy of a candidate, measured now where the record does not have it."""
        key = self._key(settings)
        if key not in self.known:
            line = {"method": self.method, "settings": settings, **evaluate(self.method, settings, self.scenario)}
            line |= {"machine": machine(torch.get_num_threads()), "versions": versions()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.known[key] = line
            print(f"{self.method} {line['accuracy']:.2f} {line['seconds']:.1f} s/task {settings}", flush=True)
        self.seen[key] = float(self.known[key]["accuracy"])
        return self.seen[key]

    def best(self) -> Settings:
        """Return the best settings found within the budget."""
        published = PUBLISHED[self.method]
        self.reached({})
        higher = {name: float(f"{rate * FACTOR:.1g}") for name, rate in published.items()}
        for optimizer, schedule in SCHEDULES:
            self.reached({"optimizer": optimizer, "schedule": schedule, **higher})
        start: Settings = json.loads(max((k for k in self.seen if k != "{}"), key=self.seen.__getitem__))
        for step in self._climb(start, list(published)):
            self.reached(step)
        best: Settings = json.loads(max(self.seen, key=self.seen.__getitem__))
        print(f"{self.method}: best {max(self.seen.values()):.2f} with {best}", flush=True)
        return best

    def _climb(self, best: Settings, names: list[str]) -> Iterator[Settings]:
        """Yield candidates with one rate changed, further in a direction for as long as it helps."""
        moved = True
        while moved:
            moved = False
            for name in names:
                for factor in (FACTOR, 1 / FACTOR):
                    while self.left > 0:
                        step = best | {name: float(f"{best[name] * factor:.1g}")}
                        if self._key(step) in self.seen:
                            break
                        yield step
                        if self.seen[self._key(step)] <= self.seen[self._key(best)]:
                            break
                        best, moved = step, True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+", choices=list(PUBLISHED))
    parser.add_argument("--record", type=Path, default=Path("results/bench/baseline_search.jsonl"))
    chosen = parser.parse_args()
    scenario = held_out_tasks(seed=0)
    for method in chosen.methods:
        Search(method, chosen.record, scenario).best()


if __name__ == "__main__":
    main()
