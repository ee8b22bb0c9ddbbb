"""FC256 against the paper-style implementation with all instructions of the processor, and with AVX2 alone.

    python benchmarks/instruction_sets.py --json results/bench/instruction_sets.json

Why the ratio is another one on another processor: each side is measured twice, in processes that differ in nothing but
the instructions that torch and oneDNN may use. A minute for each on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from write_record import write_record

from crwn.bench.training import FULL, QUICK, against_paper_style
from crwn.data import load
from crwn.scenarios import make_scenario

LIMITS = {"all": {}, "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}}


def measure(quick: bool) -> dict[str, Any]:
    """Seconds a task of every side, and the ratio, with what this process may use."""
    sizes = QUICK if quick else FULL
    scenario = make_scenario(f"rotated-{sizes.data}", seed=0, tasks=16)
    figures = against_paper_style(sizes, load(sizes.data), scenario, "256", "gaussian", 0)
    return {one.name: one.as_json() for one in figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for tests")
    parser.add_argument("--here", action="store_true", help="measure in this process only, and print")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.quick)))
        return
    found = {}
    for name, limits in LIMITS.items():
        words = [sys.executable, __file__, "--here", *(["--quick"] if options.quick else [])]
        done = subprocess.run(words, env=os.environ | limits, stdout=subprocess.PIPE, text=True, check=True)
        found[name] = json.loads(done.stdout)
    write_record({"instructions": found}, options.json)


if __name__ == "__main__":
    main()
