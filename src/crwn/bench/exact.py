"""The closed form against training by batches: seconds for one task, and the accuracy both reach."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from crwn.bench.measure import Figure, Message, alternately
from crwn.methods.independent import prepared
from crwn.methods.make import make_method
from crwn.scenarios import make_scenario
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.exact import ExactSettings, learn_exact
from crwn.training.loop import train

ROUNDS = 1
NEWTON = 4


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """`vs_sgd`: seconds of 1,000 batches over those of the closed form; above 1 the closed form is faster.

    Seconds are of the process, which does not count time that others had the processor.
    """
    name = "rotated-digits" if quick else "rotated-mnist"
    scenario = make_scenario(name, tasks=2)
    method, _ = make_method("flynet", scenario, size="10d", seed=seed)
    task, test = prepared(scenario[1]), scenario[1].test
    recipe = method.recipe(batches=20) if quick else method.recipe()
    found: dict[str, Any] = {}

    def seconds_of(side: str, work: Any) -> float:
        progress(f"exact: {side}, FlyNet 10d on {scenario[1].name} of {name}")
        began = time.process_time()
        tensors = work()
        taken = time.process_time() - began
        logits = predict_logits(method.model, tensors, test, classes=task.classes)
        found[side] = round(100 * accuracy(logits, test.labels(slice(None))), 2)
        return taken

    sides = {
        "batches": lambda: seconds_of("batches", lambda: train(method.model, [task], recipe, seed=seed)[0].tensors),
        "exact": lambda: seconds_of("exact", lambda: learn_exact(method.model, task, ExactSettings()).learned.tensors),
        "newton": lambda: seconds_of(
            "newton", lambda: learn_exact(method.model, task, ExactSettings(newton=NEWTON)).learned.tensors
        ),
    }
    times = alternately(sides, ROUNDS, warm_up=0)
    facts = {
        "scenario": name,
        "task": scenario[1].name,
        "rows": len(task.rows),
        "batches": recipe.steps(len(task.rows)),
        "accuracy": found,
        "threads": torch.get_num_threads(),
        "process_seconds": {side: statistics.median(values) for side, values in times.items()},
    }
    if not quick and times["exact"][0] > times["batches"][0]:
        note(
            "the closed form adds products of all pairs of 7,840 features over 60,000 rows, 1.8e12 multiplications; "
            "1,000 batches of 128 rows need 2e10"
        )
    return [
        _figure("exact.vs_sgd", "seconds of training by batches / seconds of the closed form", times, "exact", facts),
        _figure("exact.newton_vs_sgd", "the same with 4 Newton steps", times, "newton", facts),
    ]


def _figure(name: str, what: str, times: dict[str, list[float]], side: str, facts: dict[str, Any]) -> Figure:
    each = [theirs / ours for theirs, ours in zip(times["batches"], times[side], strict=True)]
    return Figure(name, statistics.median(each), (min(each), max(each)), what, facts)
