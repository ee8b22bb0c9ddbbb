"""Write results/bench/scale.json, docs/images/scale.png and the tables of docs/scale.md.

python benchmarks/scale_simulation.py [--costs FILE] [--json]

Costs are measured here unless a file has them (as benchmarks/scale_costs.py prints them).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import scale_model

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "bench" / "scale.json"
PAGE = ROOT / "docs" / "scale.md"
PICTURE = ROOT / "docs" / "images" / "scale.png"
CASES = (1e6, 1e8, 1e9)
REQUESTS = 1e5
WORKERS = (1, 4, 16, 64, 256, 1024, 4096, 16384)


NAMES = {0.0: "no worker dies", 1.0: "every worker dies once an hour"}
BUSY = (
    "\n\n**This record was made on a machine that was busy with other work, so that two workers did not have two "
    "cores to themselves: it does not check the simulation. Run the script again on a quiet one.**"
)


def busy(costs: dict[str, Any]) -> bool:
    """Whether other work left less than one and a half cores free for the two workers."""
    return float(costs["busy_cores_before"]) > costs["machine"]["cores"] - 1.5


def make_record(costs: dict[str, Any]) -> dict[str, Any]:
    assumed = scale_model.Assumed()
    curves = {}
    for deaths in NAMES:
        curves[NAMES[deaths]] = [[workers, _tasks_an_hour(costs, assumed, workers, deaths)] for workers in WORKERS]
    return {
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


def draw(record: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for label, points in record["tasks_an_hour"].items():
        left.loglog(*zip(*points, strict=True), marker="o", label=label)
    per_core = record["tasks_an_hour"][NAMES[0.0]][0][1]
    left.loglog(WORKERS, [per_core * workers for workers in WORKERS], "k:", label="in proportion")
    left.set(xlabel="workers of one core", ylabel="tasks learned an hour", title="Learning, simulated")
    left.legend()
    tasks = [plan["tasks"] for plan in record["plans"]]
    right.loglog(tasks, [plan["learning_dollars"] for plan in record["plans"]], marker="o", label="learning, once")
    right.loglog(tasks, [plan["disk_dollars_a_month"] for plan in record["plans"]], marker="o", label="disk, a month")
    serving = [plan["serving_dollars_a_month"] for plan in record["plans"]]
    right.loglog(tasks, serving, marker="o", label=f"answering {REQUESTS:,.0f} requests a second, a month")
    right.set(xlabel="tasks", ylabel="dollars", title="Money, by the formulas")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def tables(record: dict[str, Any]) -> dict[str, str]:
    """The generated parts of the page, by the name of their place."""
    costs, found = record["costs"], record["check"]
    measured = [
        ("one task, one batch of 128 rows", f"{1e3 * costs['core_seconds_per_task_batch']:.3g} ms of one core"),
        ("a context", f"{costs['numbers_per_task']:,.0f} numbers"),
        *((f"a context as {kind}", f"{costs[f'bytes_{kind}']:,} bytes") for kind in ("float32", "float16", "int8")),
        ("a context in the bank's file", f"{costs['disk_bytes_per_task']:,.0f} bytes"),
        ("put, 1,000 in a transaction", f"{1e6 * costs['put_seconds']:.3g} µs each"),
        ("get, one by name", f"{1e3 * costs['get_seconds']:.3g} ms"),
        ("one HTTP request of one row", f"{1e3 * costs['request_core_seconds']:.3g} ms of one core"),
        (
            "the model alone, tasks mixed",
            f"{1 / costs['answer_seconds_per_row']:,.0f} rows a second and core",
        ),
        ("Ray, start with two workers", f"{costs['ray_start_seconds']:.3g} s"),
        ("Ray, a piece of work that does nothing", f"{1e3 * costs['ray_seconds_per_piece']:.3g} ms"),
    ]
    plans = record["plans"]
    rows = [
        ("core hours to learn all", [f"{plan['core_hours']:,.0f}" for plan in plans]),
        ("machines that learn all in the time given", [f"{plan['learning_machines']:,}" for plan in plans]),
        ("dollars to learn all", [f"{plan['learning_dollars']:,.0f}" for plan in plans]),
        ("Ray drivers", [f"{plan['drivers']:,}" for plan in plans]),
        ("disk, float32", [f"{plan['disk_bytes'] / 1e9:,.1f} GB" for plan in plans]),
        ("disk, int8", [f"{plan['disk_bytes_int8'] / 1e9:,.1f} GB" for plan in plans]),
        ("dollars a month for disk", [f"{plan['disk_dollars_a_month']:,.2f}" for plan in plans]),
        ("banks", [f"{plan['banks']:,}" for plan in plans]),
        ("share of one bank's time to write all", [f"{100 * plan['put_share']:.2g}%" for plan in plans]),
        ("machines that answer", [f"{plan['serving_machines']:,}" for plan in plans]),
        ("dollars a month to answer", [f"{plan['serving_dollars_a_month']:,.0f}" for plan in plans]),
        ("bank reads a second", [f"{plan['bank_reads_a_second']:,.0f}" for plan in plans]),
    ]
    heads = [f"{plan['tasks']:,.0f} tasks" for plan in plans]
    versions = ", ".join(f"{name} {version}" for name, version in costs["versions"].items())
    texts = {one.name: one.metadata["text"] for one in fields(scale_model.Assumed)}
    assumed = [(texts[name], f"{value:,g}") for name, value in record["assumed"].items()]
    first = [(f"{one['tasks']:.2g}", one["what"], one["then"]) for one in record["limits"]]
    load = costs["busy_cores_before"]
    return {
        "costs": table(["what", "cost"], measured)
        + f"\n\nMeasured on {costs['machine']['processor']}, FC{costs['width']}, {versions}, "
        + f"with {load:.1f} of {costs['machine']['cores']} cores busy before.",
        "assumed": table(["assumed", "value"], assumed),
        "plans": table(["", *heads], [[name, *cells] for name, cells in rows]),
        "limits": table(["up to so many tasks", "this is enough", "then"], first),
        "check": f"Simulated with two workers: {found['simulated_seconds']:.2f} s, "
        f"{found['simulated_speedup']:.2f} times one worker. "
        f"Measured: {found['measured_seconds']:.2f} s, {found['measured_speedup']:.2f} times."
        + (BUSY if busy(costs) else ""),
    }


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines: list[Sequence[object]] = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def fill(page: str, parts: Mapping[str, str]) -> str:
    """The page with its generated parts put in between their marks."""
    for name, text in parts.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = place.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        assert count == 1, f"the page has no place for {name}"
    return page


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
    draw(record, PICTURE)
    PAGE.write_text(fill(PAGE.read_text(), tables(record)))
    print(json.dumps(record, indent=2) if wanted.json else f"wrote {RECORD.name}, {PICTURE.name}, {PAGE.name}")


if __name__ == "__main__":
    main()
