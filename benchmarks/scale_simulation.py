"""Write results/bench/scale.json: what large numbers of tasks cost, from what one task costs here.

    python benchmarks/scale_simulation.py [--costs FILE] [--json]

Costs are measured unless a file holds them (as benchmarks/scale_costs.py prints them). `scripts/scale_page.py` puts
the record into docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import scale_model

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "bench" / "scale.json"
CASES = (1e6, 1e8, 1e9)
REQUESTS = 1e5
WORKERS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
DEATHS = {0.0: "no worker dies", 1.0: "every worker dies once an hour"}


def make_record(costs: dict[str, Any]) -> dict[str, Any]:
    """Compute plans, limits and simulated curves from measured costs."""
    assumed = scale_model.Assumed()
    curves = {
        label: [[workers, _tasks_an_hour(costs, assumed, workers, deaths)] for workers in WORKERS]
        for deaths, label in DEATHS.items()
    }
    return {
        "command": "python benchmarks/scale_simulation.py",
        "costs": costs,
        "assumed": asdict(assumed),
        "plans": [scale_model.plan(costs, tasks, REQUESTS, assumed) for tasks in CASES],
        "limits": scale_model.limits(costs, assumed),
        "check": scale_model.check(costs),
        "tasks_an_hour": curves,
    }


def _tasks_an_hour(costs: dict[str, Any], assumed: scale_model.Assumed, workers: int, deaths: float) -> float:
    count = max(workers * int(costs["stack"]) * 4, 64)
    taken = scale_model.simulate(
        costs, count, workers, batches=assumed.batches, stack=int(costs["stack"]), deaths_an_hour=deaths
    )
    return count / taken * 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="a file of costs, instead of measuring them")
    parser.add_argument("--json", action="store_true", help="print the record too")
    wanted = parser.parse_args()
    if wanted.costs is None:
        from scale_costs import measure

        costs = measure()
    else:
        costs = json.loads(wanted.costs.read_text())
        costs = costs.get("costs", costs)
    record = make_record(costs)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2) if wanted.json else f"wrote {RECORD.name}")


if __name__ == "__main__":
    main()
