"""What differential privacy costs on MNIST: accuracy at several epsilons, and the seconds of a private step.

    python benchmarks/privacy.py --json results/bench/privacy.json

FlyNet on MNIST's 60,000 training digits, delta 1e-5, measured on its 10,000 test digits. Published at epsilon 3: 98.1
(Papernot et al., 2021, a convolutional network with tempered sigmoids) and 98.7 (Tramer and Boneh, 2021, on scattering
features). A step of either kind is on as many rows; medians of alternating runs, seconds of the process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from write_record import write_record

import crwn
from crwn.data import load
from crwn.data.dataset import Rows
from crwn.layers import context_tensors
from crwn.training.loop import train
from crwn.training.private import PrivateSettings
from crwn.training.recipe import make_recipe
from crwn.training.row_gradients import RowGradients
from crwn.training.task import PreparedTask

DELTA = 1e-5
STEP_ROWS, STEPS, TURNS = 1000, 10, 5


def accuracies(hidden: int, epsilons: list[float], epochs: int) -> list[dict[str, Any]]:
    """Test accuracy of private contexts, one for every epsilon, and of the same model without privacy."""
    mnist = load("mnist")
    x, y = mnist.x_train.reshape(-1, 784).numpy(), mnist.y_train.numpy()
    x_test, y_test = mnist.x_test.reshape(-1, 784).numpy(), mnist.y_test.numpy()
    found = []
    for epsilon in epsilons:
        learner = crwn.Learner(crwn.FlyNet(784, hidden, 10, seed=0))
        context = learner.learn("t", x, y, epsilon=epsilon, delta=DELTA, epochs=epochs, progress=False)
        assert context.info.privacy is not None
        one = {
            "epsilon": epsilon,
            "spent": context.info.privacy["epsilon"],
            "noise": context.info.privacy["noise"],
            "steps": context.info.batches,
            "accuracy": round(100 * learner.score(x_test, y_test, task="t"), 2),
            "seconds": context.info.seconds,
        }
        print(one, flush=True)
        found.append(one)
    learner = crwn.Learner(crwn.FlyNet(784, hidden, 10, seed=0))
    learner.learn("t", x, y, progress=False)
    found.append({"epsilon": None, "accuracy": round(100 * learner.score(x_test, y_test, task="t"), 2)})
    return found


def step_costs(hidden: int) -> dict[str, Any]:
    """Seconds of a private step over those of a plain one on the same rows."""
    mnist = load("mnist")
    x = (mnist.x_train[:STEP_ROWS].reshape(-1, 784).float() - 127.5) / 64
    task = PreparedTask("t", Rows(x, mnist.y_train[:STEP_ROWS].long()), tuple(range(10)))
    model = crwn.FlyNet(784, hidden, 10, seed=0)
    tensors = dict(context_tensors(model))
    recipe = make_recipe(optimizer="sgd", rate=0.1, batch_size=STEP_ROWS, batches=STEPS)
    gradients = RowGradients(model, 10)

    def plain() -> None:
        train(model, [task], recipe, seed=0)

    def private() -> None:
        values = {name: value.detach().clone() for name, value in tensors.items()}
        for _ in range(STEPS):
            sums, _ = gradients.clipped_sum(values, task.rows.inputs(slice(None)), task.rows.labels(slice(None)), 1.0)
            for name, value in values.items():
                value.sub_((sums[name] + torch.randn(value.shape)) / STEP_ROWS)

    times: dict[str, list[float]] = {"plain": [], "private": []}
    for turn in range(TURNS + 1):
        for name, work in (("plain", plain), ("private", private)):
            began = time.process_time()
            work()
            if turn:
                times[name].append((time.process_time() - began) / STEPS)
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {
        "rows": STEP_ROWS,
        "features": hidden,
        "plain_ms": round(1000 * middle["plain"], 2),
        "private_ms": round(1000 * middle["private"], 2),
        "ratio": round(middle["private"] / middle["plain"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", default="1,3,8", help="separated by commas")
    parser.add_argument("--hidden", type=int, default=7840, help="features of the FlyNet")
    parser.add_argument("--epochs", type=int, default=PrivateSettings(epsilon=1, delta=0.5).epochs)
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    step = step_costs(given.hidden)
    print(step, flush=True)
    epsilons = [float(part) for part in given.epsilons.split(",")]
    found = {"delta": DELTA, "step": step, "mnist": accuracies(given.hidden, epsilons, given.epochs)}
    write_record(found, given.json)


if __name__ == "__main__":
    main()
