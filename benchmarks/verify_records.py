"""`crwn run --verify` on records of five methods: whether repeating them here gives the same accuracies.

    python benchmarks/verify_records.py --json results/bench/verify.json

Each record under results/rotated-mnist is repeated for its first task, with the threads it was made with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from write_record import write_record

METHODS = ("flynet-10d", "psp-256", "stl-256", "supsup-256", "batche-256")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("results/rotated-mnist"))
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    for name in METHODS:
        folder = options.records / name / "seed-0"
        arguments = ["run", "--verify", str(folder), "--tasks", str(options.tasks), "--json"]
        done = subprocess.run([sys.executable, "-m", "crwn", *arguments], stdout=subprocess.PIPE, text=True, check=True)
        found[name] = json.loads(done.stdout)
    write_record({"verified": found}, options.json)


if __name__ == "__main__":
    main()
