"""Fill the tables of docs/scale.md, and draw its picture, from results/bench/scale.json.

    python scripts/scale_page.py

`benchmarks/scale_simulation.py` measures and writes that record.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from fill_page import fill

from crwn.report.style import COLOURS, saved
from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "bench" / "scale.json"
PAGE = ROOT / "docs" / "scale.md"
PICTURE = ROOT / "docs" / "images" / "scale"
# Fields of `Assumed` in benchmarks/scale_model.py.
ASSUMED = {
    "batches": "batches to learn a task (the paper's)",
    "days": "days in which all tasks are to be learned",
    "cores": "cores of a machine",
    "machine_hour": "dollars for a machine for an hour",
    "disk_month": "dollars for a gigabyte of replicated disk for a month",
    "busy": "share of a server's time that requests may take, so that they need not wait",
    "hit": "share of requests whose context a server has in memory",
    "bank_bytes": "bytes that one PostgreSQL server keeps",
    "driver_busy": "share of a Ray driver's time that handing out work may take",
}
BUSY = (
    "\n\n**This record was made on a machine that was busy with other work, so that two workers did not have two "
    "cores to themselves: it does not check the simulation. Run the script again on a quiet one.**"
)


def busy(costs: dict[str, Any]) -> bool:
    """Whether other work left less than one and a half cores free for the two workers."""
    return float(costs["busy_cores_before"]) > int(costs["machine"]["cores"]) - 1.5


def paint(figure: Any, record: dict[str, Any]) -> bool:
    """Draw tasks learned an hour against workers, and money against tasks."""
    left, right = figure.subplots(1, 2)
    curves: dict[str, list[list[float]]] = record["tasks_an_hour"]
    for (label, points), colour, marker in zip(curves.items(), ("blue", "vermillion"), "os", strict=True):
        left.loglog(*zip(*points, strict=True), color=COLOURS[colour], marker=marker, markersize=4, label=label)
    first = next(iter(curves.values()))
    left.loglog([n for n, _ in first], [n * first[0][1] for n, _ in first], "k:", label="in proportion")
    left.set(xlabel="workers of one core", ylabel="tasks learned an hour", title="Learning, simulated")
    left.legend(fontsize=8)
    plans = record["plans"]
    for key, label, colour, marker in (
        ("learning_dollars", "learning, once", "blue", "o"),
        ("disk_dollars_a_month", "disk, a month", "green", "D"),
        ("serving_dollars_a_month", f"serving {plans[0]['requests']:,.0f} requests a second, a month", "orange", "s"),
    ):
        costs = [plan[key] for plan in plans]
        right.loglog(
            [plan["tasks"] for plan in plans], costs, color=COLOURS[colour], marker=marker, markersize=4, label=label
        )
    right.set(xlabel="tasks", ylabel="dollars", title="Money, by the formulas")
    right.legend(fontsize=8)
    return True


def tables(record: dict[str, Any]) -> dict[str, str]:
    """Return the generated parts of the page, by the name of their place."""
    costs, found = record["costs"], record["check"]
    measured = [
        ("one task, one batch of 128 rows", f"{1e3 * costs['core_seconds_per_task_batch']:.3g} ms of one core"),
        ("a context", f"{costs.get('params_per_task', costs.get('numbers_per_task')):,.0f} parameters"),
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
        ("machines that serve", [f"{plan['serving_machines']:,}" for plan in plans]),
        ("dollars a month to serve", [f"{plan['serving_dollars_a_month']:,.0f}" for plan in plans]),
        ("bank reads a second", [f"{plan['bank_reads_a_second']:,.0f}" for plan in plans]),
    ]
    heads = [f"{plan['tasks']:,.0f} tasks" for plan in plans]
    versions = ", ".join(f"{name} {version}" for name, version in costs["versions"].items())
    assumed = [(ASSUMED[name], f"{value:,g}") for name, value in record["assumed"].items()]
    first = [(f"{one['tasks']:.2g}", one["what"], one["then"]) for one in record["limits"]]
    load = costs["busy_cores_before"]
    return {
        "costs": aligned(["what", "cost"], measured)
        + f"\n\nMeasured on {costs['machine']['processor']}, FC{costs['width']}, {versions}, "
        + f"with {load:.1f} of {costs['machine']['cores']} cores busy before.",
        "assumed": aligned(["assumed", "value"], assumed),
        "plans": aligned(["", *heads], [[name, *cells] for name, cells in rows]),
        "limits": aligned(["up to so many tasks", "this is enough", "then"], first),
        "check": f"Simulated with two workers: {found['simulated_seconds']:.2f} s, "
        f"{found['simulated_speedup']:.2f} times one worker. "
        f"Measured: {found['measured_seconds']:.2f} s, {found['measured_speedup']:.2f} times."
        + (BUSY if busy(costs) else ""),
    }


def main() -> None:
    record = json.loads(RECORD.read_text())
    saved(PICTURE, (10.0, 4.0), partial(paint, record=record))
    PAGE.write_text(fill(PAGE.read_text(), tables(record)))
    print(f"wrote {PAGE.name} and its picture")


if __name__ == "__main__":
    main()
