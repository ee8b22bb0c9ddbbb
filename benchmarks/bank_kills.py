"""Kill a process that writes to a bank or learns, again and again, and check whether anything acknowledged is lost.

    python benchmarks/bank_kills.py --kills 200 --out results/bench/bank_kills.json

Each round starts a writer that puts, replaces and deletes contexts and prints what the bank acknowledged,
kills it (SIGKILL) at a random moment, opens the bank again and compares it with what was acknowledged. A quarter of the
kills hit a learner instead, which learns one task after another into a model folder.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from write_record import write_record

from crwn import Learner, NeuroModNet
from crwn.contexts import Context
from crwn.contexts.bank import open_bank

# Writers are forked from a server that has loaded everything already, so that a kill costs no second of imports.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["crwn.contexts.bank.sql", "crwn.learner", "crwn.models"])

MODEL = "ab" * 32


def make_context(name: str, seed: int) -> Context:
    values = torch.randn(1296, generator=torch.Generator().manual_seed(seed))
    return Context(name, {"v": values, "alpha": values[0]}, (0, 1), MODEL, "2026-01-01T00:00:00+00:00", {"seed": seed})


def write(where: str, output: str, number: int) -> None:
    """Put, replace and delete until killed, printing what is tried and what was acknowledged."""
    log = os.open(output, os.O_WRONLY | os.O_APPEND)

    def print_line(*words: object) -> None:
        os.write(log, (" ".join(str(word) for word in words) + "\n").encode())

    dice = random.Random(number)
    seed = number * 100_000
    mine: list[str] = []
    with open_bank(where) as bank:
        print_line("opened")
        while True:
            seed += 20
            choice = dice.random()
            if choice < 0.6 or len(mine) < 3:
                mine.append(f"{number}-{seed}")
                print_line("try-put", mine[-1], seed)
                bank.put(make_context(mine[-1], seed))
                print_line("put", mine[-1], seed)
            elif choice < 0.8:
                name = dice.choice(mine)
                print_line("try-put", name, seed)
                bank.put(make_context(name, seed), replace=True)
                print_line("put", name, seed)
            elif choice < 0.9:
                name = mine.pop(dice.randrange(len(mine)))
                print_line("try-delete", name, 0)
                bank.delete(name)
                print_line("delete", name, 0)
            else:
                many = {f"{number}-{seed}-{i}": seed + i for i in range(20)}
                for name, one in many.items():
                    print_line("try-put", name, one)
                bank.put_many([make_context(name, one) for name, one in many.items()])
                for name, one in many.items():
                    print_line("put", name, one)
                mine += many


def learn(where: str, output: str, number: int) -> None:
    """Learn one task after another until killed, printing which were learned."""
    log = os.open(output, os.O_WRONLY | os.O_APPEND)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(400, 16, generator=generator)
    with Learner.load(where) as learner:
        os.write(log, b"opened\n")
        for i in itertools.count():
            learner.learn(f"{number}-{i}", x, (x[:, i % 16] > 0).long(), batches=10, progress=False)
            os.write(log, f"put {number}-{i} 0\n".encode())


def run_learning(kills: int, *, seed: int = 1) -> dict[str, Any]:
    """Kill `kills` learners of one model folder, and count learned tasks that are gone, damaged or cannot predict."""
    dice = random.Random(seed)
    acknowledged: list[str] = []
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        where = str(Path(folder) / "model.crwn")
        with Learner(NeuroModNet(16, (64, 64), 2, seed=0)) as learner:
            learner.save(where)
        for number in range(kills):
            # Sometimes while the folder is opened or the first task learned, mostly during later tasks.
            wait_for = (b"", b"opened", b"put", b"put", b"put")[number % 5]
            lines = _kill_one(where, number, wait_for, dice.uniform(0.0, 0.6), target=learn)
            acknowledged += [name for word, name, _ in lines if word == "put"]
            try:
                with Learner.load(where) as learner:
                    wrong += [f"{name} is gone" for name in acknowledged if name not in learner.bank]
                    wrong += learner.bank.verify() if number % 10 == 9 or number == kills - 1 else []
                    for name in acknowledged[-3:]:
                        learner.predict(torch.zeros(2, 16), task=name)
            except Exception as error:
                wrong.append(str(error))
        leftovers = sorted(file.name for file in Path(where).iterdir() if ".part" in file.name or "-wal" in file.name)
    return {"kills": kills, "learned": len(acknowledged), "wrong": wrong, "files_left_over": leftovers}


def run(kills: int, where: str | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Kill `kills` writers of the bank at `where`; what was lost, damaged or half-written is counted."""
    dice = random.Random(seed)
    kept: dict[str, int] = {}  # what the bank must hold: name -> seed of its numbers
    lost: list[str] = []
    acknowledged = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        where = where or str(Path(folder) / "bank.sqlite")
        begun = time.perf_counter()
        for number in range(kills):
            # Now and then while the bank is still being made or opened, mostly while it is written.
            wait_for = b"" if number % 5 == 0 else b"opened"
            lines = _kill_one(where, number, wait_for, dice.uniform(0.0, 0.4))
            # The last thing tried may have happened or not; both are right, half of it is not.
            open_tries: dict[str, int | None] = {}  # name -> seed it was to have, None for deleting
            last_batch = ""  # what the last acknowledged name of a put_many starts with
            for word, name, value in lines:
                if word.startswith("try-"):
                    open_tries[name] = None if word == "try-delete" else int(value)
                    continue
                last_batch = name.rpartition("-")[0] if name.count("-") == 2 else ""
                acknowledged += 1
                open_tries.pop(name, None)
                if word == "put":
                    kept[name] = int(value)
                else:
                    kept.pop(name, None)
            try:
                with open_bank(where) as bank:
                    found = {name: bank.get(name).info["seed"] for name in bank} if number % 10 == 9 else None
                    happened = set()
                    new = [name for name in open_tries if name not in kept]
                    for name, tried in open_tries.items():
                        now = bank.get(name).info["seed"] if name in bank else None
                        if now not in (tried, kept.get(name)):
                            lost.append(name)
                        happened.add(now == tried)
                        if now is None:
                            kept.pop(name, None)
                        else:
                            kept[name] = now
                    # All open tries belong to one call: it happened or not, and it did if part of it was acknowledged.
                    begun_batch = last_batch and any(name.startswith(last_batch + "-") for name in new)
                    if len(happened) > 1 or (begun_batch and happened != {True}):
                        lost.append(f"half of {sorted(open_tries)}")
                    if found is not None and found != kept:
                        lost += sorted(found.keys() ^ kept.keys())
                    if len(bank) != len(kept):
                        lost.append(f"{len(bank)} tasks counted, {len(kept)} expected")
            except Exception as error:
                refused += 1
                lost.append(str(error))
        with open_bank(where) as bank:
            found = {name: bank.get(name).info["seed"] for name in bank}
            lost += sorted(name for name in found.keys() | kept.keys() if found.get(name) != kept.get(name))
            damaged = bank.verify()
        leftovers = sorted(file.name for file in Path(folder).iterdir() if file.name != "bank.sqlite")
    return {
        "kills": kills,
        "acknowledged": acknowledged,
        "contexts_at_end": len(found),
        "lost": lost,
        "damaged": damaged,
        "opens_refused": refused,
        "files_left_over": leftovers,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def _kill_one(
    where: str, number: int, wait_for: bytes, after: float, target: Callable[[str, str, int], None] = write
) -> list[list[str]]:
    """Start a writer, kill it `after` seconds past the word waited for, and return the lines it printed."""
    with tempfile.NamedTemporaryFile() as log:
        output = Path(log.name)
        writer = _processes.Process(target=target, args=(where, log.name, number))
        writer.start()
        while wait_for not in output.read_bytes() and writer.is_alive():
            time.sleep(0.005)
        time.sleep(after)
        writer.kill()
        writer.join()
        text = output.read_text()
    lines = [line.split(" ") for line in text.splitlines()]
    return [line for line in lines if len(line) == 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--bank", help="address of a bank; an SQLite file in a temporary folder by default")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    while_learning = arguments.kills // 4
    record = run(arguments.kills - while_learning, arguments.bank)
    record["while_learning"] = run_learning(while_learning) if while_learning else None
    write_record(record, arguments.out)
    learning_wrong = record["while_learning"] and record["while_learning"]["wrong"]
    if record["lost"] or record["damaged"] or record["opens_refused"] or learning_wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
