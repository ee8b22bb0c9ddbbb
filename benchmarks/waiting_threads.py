"""How long threads wait for each other, on a machine that is quiet and on one that is busy.

    python benchmarks/waiting_threads.py --json results/bench/waiting_threads.json

A step of one network of FC256 (784-256-256-10, batches of 128) with two threads, by OpenMP's usual way of waiting and
by that of the command `crwn`, which sleeps sooner; each in a process of its own, alone and beside busy processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from write_record import write_record

from crwn.__main__ import SPIN_COUNT

WAYS = {"usual": None, "crwn": SPIN_COUNT}


def milliseconds_a_step(seconds: float) -> float:
    """Train for so long and return the mean time of a step."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(2)
    weights = [torch.randn(shape, requires_grad=True) for shape in ((256, 784), (256, 256), (10, 256))]
    optimizer = torch.optim.RMSprop(weights, lr=1e-3)
    x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))

    def step() -> None:
        hidden = x
        for weight in weights[:-1]:
            hidden = F.relu(F.linear(hidden, weight))
        loss = F.cross_entropy(F.linear(hidden, weights[-1]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        count += 1
    return 1000 * (time.perf_counter() - began) / count


def measured(way: str, seconds: float) -> float:
    """The time of a step in a process that waits in this way."""
    environment = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    if (count := WAYS[way]) is not None:
        environment["GOMP_SPINCOUNT"] = count
    words = [sys.executable, __file__, "--here", "--seconds", str(seconds)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--busy", type=int, default=3, help="processes that compute meanwhile")
    parser.add_argument("--here", action="store_true", help="measure in this process only, and print")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.here:
        print(milliseconds_a_step(options.seconds))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for machine, count in (("quiet", 0), ("busy", options.busy)):
        # Each in a session of its own, as the processes of other users are.
        others = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(count)
        ]
        try:
            taken: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(options.rounds):
                for way in WAYS:
                    taken[way].append(round(measured(way, options.seconds), 3))
            found[machine] = taken
        finally:
            for other in others:
                other.kill()
    middle = {machine: {way: median(times) for way, times in taken.items()} for machine, taken in found.items()}
    write_record(
        {"busy_processes": options.busy, "milliseconds_a_step": middle, "rounds": found},
        options.json,
    )


if __name__ == "__main__":
    main()
