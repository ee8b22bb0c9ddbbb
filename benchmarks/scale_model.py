"""From measured costs to machines, storage and money, and a simulation of a cluster that learns.

The formulas are in `plan`; `simulate` plays the same cluster event by event: one driver hands out stacks of tasks,
workers learn them, sometimes die and do their stack again, and one bank keeps what they learned.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Costs = dict[str, Any]


@dataclass(frozen=True)
class Assumed:
    """What is assumed, not measured; scripts/scale_page.py has the words of each field."""

    batches: int = 1000  # batches to learn a task (the paper's)
    days: float = 30.0  # days in which all tasks are to be learned
    cores: int = 16  # cores of a machine
    machine_hour: float = 0.60  # dollars for a machine for an hour
    disk_month: float = 0.10  # dollars for a gigabyte of replicated disk for a month
    busy: float = 0.6  # share of a server's time that requests may take, so that they need not wait
    hit: float = 0.95  # share of requests whose context a server has in memory
    bank_bytes: float = 8e12  # bytes that one PostgreSQL server keeps
    driver_busy: float = 0.5  # share of a Ray driver's time that handing out work may take


def plan(costs: Costs, tasks: float, requests: float, assumed: Assumed) -> dict[str, float]:
    """Return machines, storage and money for this many tasks and requests a second."""
    learn_seconds = assumed.batches * costs["core_seconds_per_task_batch"]
    core_hours = tasks * learn_seconds / 3600
    learning_machines = math.ceil(core_hours / (assumed.days * 24 * assumed.cores))
    pieces_a_second = tasks / costs["stack"] / (assumed.days * 86400)
    request = costs["request_core_seconds"] + (1 - assumed.hit) * costs["get_seconds"]
    serving_machines = math.ceil(requests * request / (assumed.busy * assumed.cores))
    disk = tasks * costs["disk_bytes_per_task"]
    puts = tasks / (assumed.days * 86400)
    return {
        "tasks": tasks,
        "requests": requests,
        "core_hours": core_hours,
        "learning_machines": learning_machines,
        "learning_dollars": core_hours / assumed.cores * assumed.machine_hour,
        "drivers": math.ceil(pieces_a_second * costs["ray_seconds_per_piece"] / assumed.driver_busy),
        "disk_bytes": disk,
        "disk_bytes_int8": tasks * (costs["disk_bytes_per_task"] - costs["bytes_float32"] + costs["bytes_int8"]),
        "disk_dollars_a_month": disk / 1e9 * assumed.disk_month,
        "banks": math.ceil(disk / assumed.bank_bytes),
        "put_share": puts * costs["put_seconds"],
        "serving_machines": serving_machines,
        "serving_dollars_a_month": serving_machines * 730 * assumed.machine_hour,
        "bank_reads_a_second": requests * (1 - assumed.hit),
    }


def params_per_task(costs: Costs) -> float:
    """Return the parameters of a context; records of before have the key `numbers_per_task`."""
    return float(costs["params_per_task"] if "params_per_task" in costs else costs["numbers_per_task"])


def limits(costs: Costs, assumed: Assumed) -> list[dict[str, Any]]:
    """Return what is no longer enough, and from how many tasks on, in that order."""
    learn_seconds = assumed.batches * costs["core_seconds_per_task_batch"]
    month = assumed.days * 86400
    context = params_per_task(costs) * 4
    found = [
        ("all contexts in the memory of one server of 64 GB", 64e9 / context, "keep the used ones: `resident=`"),
        ("one core learns all in the time given", month / learn_seconds, "more cores: `--engine ray`"),
        (
            f"one machine of {assumed.cores} cores learns all in the time given",
            assumed.cores * month / learn_seconds,
            "more machines: `--address`",
        ),
        ("the names of all tasks fit into 1 GB (`learner.tasks`)", 1e9 / 80, "ask for pages: `bank.names(after=...)`"),
        (
            "one bank writes all contexts in the time given",
            month / costs["put_seconds"],
            "several banks, one per range of names",
        ),
        ("one bank's disk", assumed.bank_bytes / costs["disk_bytes_per_task"], "store int8; several banks"),
        (
            "one Ray driver hands out all stacks in the time given",
            assumed.driver_busy * month / costs["ray_seconds_per_piece"] * costs["stack"],
            "several drivers, one per range of names",
        ),
    ]
    return [{"what": what, "tasks": at, "then": then} for what, at, then in sorted(found, key=lambda one: one[1])]


def simulate(
    costs: Costs,
    tasks: int,
    workers: int,
    *,
    batches: int,
    stack: int,
    deaths_an_hour: float = 0.0,
    restart_seconds: float | None = None,
    seed: int = 0,
) -> float:
    """Seconds until all tasks are learned and kept."""
    random = np.random.default_rng(seed)
    left = [stack] * (tasks // stack) + ([tasks % stack] if tasks % stack else [])
    restart = costs["ray_start_seconds"] if restart_seconds is None else restart_seconds
    free = [(0.0, worker) for worker in range(workers)]
    heapq.heapify(free)
    driver = bank = end = 0.0
    while left:
        size = left.pop()
        at, worker = heapq.heappop(free)
        driver = max(driver, at) + costs["ray_seconds_per_piece"]  # one hand hands out
        needs = size * batches * costs["core_seconds_per_task_batch"]
        dies = random.exponential(3600 / deaths_an_hour) if deaths_an_hour else math.inf
        if dies < needs:
            left.append(size)
            heapq.heappush(free, (driver + dies + restart, worker))
            continue
        done = driver + needs
        bank = max(bank, done) + size * costs["put_seconds"]  # one bank writes
        end = max(end, bank)
        heapq.heappush(free, (done, worker))
    return end


def check(costs: Costs) -> dict[str, float]:
    """The measured run with two workers against the simulation, which knows the run with one."""
    count, batches = costs["worker_tasks"], costs["worker_batches"]
    stack = math.ceil(count / math.ceil(count / costs["stack"]))
    # A batch as long as it took one worker: the clock of a busy machine runs slower for both.
    by_clock = costs | {"core_seconds_per_task_batch": costs["seconds_1_workers"] / count / batches}
    expected = simulate(by_clock, count, 2, batches=batches, stack=stack)
    return {
        "simulated_seconds": expected,
        "measured_seconds": costs["seconds_2_workers"],
        "simulated_speedup": costs["seconds_1_workers"] / expected,
        "measured_speedup": costs["seconds_1_workers"] / costs["seconds_2_workers"],
    }
