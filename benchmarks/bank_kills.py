"""Kill a process that writes to a bank, again and again, and look whether anything acknowledged was lost.

    python benchmarks/bank_kills.py --kills 200 --out results/bank_kills.json

Each round starts a writer that puts, replaces and deletes contexts and says on its output what the bank acknowledged,
kills it (SIGKILL) at a random moment, opens the bank again and compares it with what was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WRITER = """
import os, random, sys
import torch
from crwn.bank import open_bank
from crwn.context import Context

where, round_, start = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dice = random.Random(round_)

def context(name, seed):
    values = torch.randn(1296, generator=torch.Generator().manual_seed(seed))
    tensors = {"v": values, "alpha": values[0]}
    return Context(name, tensors, (0, 1), "ab" * 32, "2026-01-01T00:00:00+00:00", {"seed": seed})

def say(*words):
    os.write(1, (" ".join(str(word) for word in words) + "\\n").encode())

say("started")
seed = start
with open_bank(where) as bank:
    say("opened")
    mine = []
    while True:
        seed += 1
        choice = dice.random()
        if choice < 0.6 or len(mine) < 3:
            name = f"{round_}-{seed}"
            say("try-put", name, seed)
            bank.put(context(name, seed))
            mine.append(name)
            say("put", name, seed)
        elif choice < 0.8:
            name = dice.choice(mine)
            say("try-put", name, seed)
            bank.put(context(name, seed), replace=True)
            say("put", name, seed)
        elif choice < 0.9:
            name = mine.pop(dice.randrange(len(mine)))
            say("try-delete", name, 0)
            bank.delete(name)
            say("delete", name, 0)
        else:
            many = [(f"{round_}-{seed}-{i}", seed + i) for i in range(20)]
            for name, one in many:
                say("try-put", name, one)
            bank.put_many([context(name, one) for name, one in many])
            for name, one in many:
                say("put", name, one)
            mine += [name for name, _ in many]
            seed += 20
"""


def run(kills: int, where: str | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Kill `kills` writers of the bank at `where`; what was lost, damaged or half-written is counted."""
    from crwn.bank import open_bank

    dice = random.Random(seed)
    kept: dict[str, int] = {}  # what the bank must hold: name -> seed of its numbers
    lost: list[str] = []
    acknowledged = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        where = where or str(Path(folder) / "bank.sqlite")
        begun = time.perf_counter()
        for number in range(kills):
            # Now and then while the bank is still being made or opened, mostly while it is written.
            wait_for = b"started" if number % 5 == 0 else b"opened"
            lines = _kill_one(where, number, wait_for, dice.uniform(0.0, 0.4))
            # The last thing tried may have happened or not; both are right, half of it is not.
            open_tries: dict[str, str] = {}
            for word, name, value in lines:
                if word.startswith("try-"):
                    open_tries[name] = word
                    continue
                acknowledged += 1
                open_tries.pop(name, None)
                if word == "put":
                    kept[name] = int(value)
                else:
                    kept.pop(name, None)
            try:
                with open_bank(where) as bank:
                    found = {name: bank.get(name).info["seed"] for name in bank} if number % 10 == 9 else None
                    for name, word in open_tries.items():
                        if name in bank:
                            kept[name] = bank.get(name).info["seed"]
                        elif word == "try-delete" or name not in kept:
                            kept.pop(name, None)
                        else:
                            lost.append(name)
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


def _kill_one(where: str, number: int, wait_for: bytes, after: float) -> list[list[str]]:
    """Start a writer, kill it `after` seconds past the word waited for, and give the lines it said."""
    with tempfile.NamedTemporaryFile() as said:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, where, str(number), str(number * 100_000)],
            stdout=said,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        output = Path(said.name)
        while wait_for not in output.read_bytes() and writer.poll() is None:
            time.sleep(0.005)
        time.sleep(after)
        writer.kill()
        writer.wait()
        text = output.read_text()
    lines = [line.split(" ") for line in text.splitlines()]
    return [line for line in lines if len(line) == 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--bank", help="address of a bank; an SQLite file in a temporary folder by default")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    record = run(arguments.kills, arguments.bank)
    text = json.dumps(record, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)
    if record["lost"] or record["damaged"] or record["opens_refused"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
