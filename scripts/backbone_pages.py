"""Fill the tables of docs/backbones.md and docs/unknown-tasks.md from records under results/.

    python scripts/backbone_pages.py

The records are made by `crwn run split-cifar100 backbone|ranpac`, `crwn bench adapters adapter_speeds`,
`benchmarks/unknown_tasks.py` and `benchmarks/shared_head_order.py`; each has its command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fill_page import fill

from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
BACKBONES, UNKNOWN = (ROOT / "docs" / name for name in ("backbones.md", "unknown-tasks.md"))
BENCH, RUNS = ROOT / "results" / "bench", ROOT / "results" / "split-cifar100"
GAINS = {
    "backbone-efficientnet-lite0": "one gain per feature (`crwn run split-cifar100 backbone`)",
    "backbone-efficientnet-lite0-gains=4": "four gains per feature (`--set gains=4`), as `crwn learn` for five classes",
}
WITHOUT_TASK = {
    "backbone-efficientnet-lite0-protocol=class": "the shared head, 2,000 random units (its default)",
    "ranpac-2000-features=efficientnet-lite0-protocol=class": "`ranpac`, 2,000 random units",
    "backbone-efficientnet-lite0-head_units=5000-protocol=class": "the shared head, 5,000 random units",
    "ranpac-5000-features=efficientnet-lite0-protocol=class": "`ranpac`, 5,000 random units (its default)",
}
WAYS = {
    "context_1": "context in closed form, one gain per feature",
    "context_4": "context in closed form, four gains per feature",
    "ridge": "linear head, ridge regression",
    "probe": "linear head, by gradient",
    "context_last": "context in the last layer and the head, by gradient",
    "peft_ia3": "PEFT's IA3 in the last layer, linear head",
    "peft_lora": "PEFT's LoRA of rank 1 there, linear head",
    "peft_vera": "PEFT's VeRA of rank 256 there, linear head",
}
PEERS = {"ia3": "IA3, switched for each task", "vera": "VeRA, switched for each task", "lora": "LoRA, mixed"}
INFERRED = ("unknown_permuted", "unknown_rotated", "unknown_rotated_half")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _result(label: str) -> dict[str, Any] | None:
    path = RUNS / label / "seed-0" / "result.json"
    return read(path) if path.exists() else None


def runs() -> str:
    """Accuracy with the task given, of contexts on EfficientNet-Lite0."""
    rows = []
    for label, what in GAINS.items():
        if (found := _result(label)) is not None:
            accuracies = found["accuracy"]
            rows.append(
                [
                    what,
                    f"{found['params_per_task']:,}",
                    f"{found['average_accuracy']:.2f}",
                    f"{min(accuracies):.1f} – {max(accuracies):.1f}",
                ]
            )
    return aligned(
        ["20 tasks of Split-CIFAR100, task given", "parameters a task", "accuracy %", "of single tasks"], rows
    )


def adapters() -> str:
    """Accuracy, size and time of every way to learn a task on the same backbone."""
    details = read(BENCH / "adapters.json")["details"]
    rows = []
    for name, what in WAYS.items():
        found = details[f"adapters.accuracy_{name}"]
        every = f"{found['value']:.2f}" if found["tasks"] > found["first"] else "–"
        first = f"{found['accuracy_of_the_first']:.2f}"
        size = f"{found['params_per_task']:,}", f"{found['bytes_per_task']:,}"
        rows.append([what, *size, f"{found['seconds_per_task']:.2f}", first, every])
    ours = details["adapters.accuracy_context_1"]
    counts = f"first {ours['first']} tasks %", f"{ours['tasks']} tasks %"
    return aligned(["way", "parameters", "bytes", "seconds a task", *counts], rows)


def mixed() -> str:
    """Rows a second of batches whose rows have a task each: contexts, and PEFT's adapters, with ratios below."""
    details = read(BENCH / "adapter_speeds.json")["details"]
    counts = sorted(found["resident"] for name, found in details.items() if "vs_plain" in name)
    rows = []

    def row(what: str, name: str, field: str) -> None:
        found = [details[f"adapter_speeds.{name}_{count}"][field] for count in counts]
        rows.append([what, *(f"{one:,.0f}" if one >= 100 else f"{one:.3g}" for one in found)])

    for part, where in (("mixed", "whole network"), ("head", "after the features or maps")):
        row(f"{where}: contexts, rows/s", f"{part}_vs_ia3", "rows_a_second")
        for kind, name in PEERS.items():
            row(f"{where}: PEFT's {name}, rows/s", f"{part}_vs_{kind}", "rows_a_second_theirs")
        if part == "mixed":
            row("contexts over the plain backbone", "mixed_vs_plain", "value")
        for kind, name in PEERS.items():
            row(f"{where}: contexts over {name}", f"{part}_vs_{kind}", "value")
    return aligned(["resident tasks", *(f"{count:,}" for count in counts)], rows)


def inferred() -> str:
    """Tasks inferred for single rows and groups, and rows of none of them."""
    records = [read(BENCH / f"{name}.json") for name in INFERRED]
    head = [
        "test rows of",
        *(
            f"{one['scenario']}, {one['tasks']} tasks" + (" (every second)" if one["left_out"] else "")
            for one in records
        ),
    ]

    def row(what: str, part: str, field: str, form: str = ".1f") -> list[str]:
        return [what, *(format(one[part][field], form) if one[part] else "–" for one in records)]

    rows = [
        row("single rows: task right, %", "single_rows", "right_percent"),
        row("their mean probability", "single_rows", "mean_probability", ".2f"),
        row("expected calibration error", "single_rows", "calibration_error", ".3f"),
        row("single rows called strange, %", "single_rows", "none_of_these_percent"),
        row("groups of 16: task right, %", "groups_of_16", "right_percent"),
        row("groups of 16: false alarms, %", "groups_of_16", "none_of_these_percent"),
        row("the same, groups of one class", "groups_of_16_of_one_class", "none_of_these_percent"),
        row("groups of 16 of tasks not learned: none of these, %", "unlearned_groups_of_16", "none_of_these_percent"),
        ["bytes of a density", *(f"{one['density_bytes_per_task']:,}" for one in records)],
    ]
    return aligned(head, rows)


def protocols() -> str:
    """All classes of all tasks without the task."""
    rows = []
    for label, what in WITHOUT_TASK.items():
        if (found := _result(label)) is not None:
            known = found["without_task"]
            rows.append(
                [what, f"{known['accuracy']:.2f}", f"{known['task_accuracy']:.2f}", f"{found['average_accuracy']:.2f}"]
            )
    return aligned(
        ["100 classes of CIFAR-100 in 20 steps", "class right %", "task right %", "with the task given %"], rows
    )


def order() -> str:
    """Answers of the shared head with its tasks in several orders, and how far its probabilities are off."""
    found = read(BENCH / "shared_head_order.json")
    rows = [
        [what, f"{right:.2f}", f"{changed:.2f}"]
        for what, right, changed in zip(
            ("as in the scenario", "reversed", *["shuffled"] * found["orders"]),
            found["class_right_percent"],
            found["answers_changed_percent"],
            strict=False,
        )
    ]
    error = f"{found['calibration_error']:.2f}"
    rows.append(["expected calibration error of the answers' probabilities", error, ""])
    return aligned(["order of the 20 tasks", "class right %", "answers unlike the first order's %"], rows)


def main() -> None:
    filled = {
        BACKBONES: {"runs": runs(), "adapters": adapters(), "mixed": mixed()},
        UNKNOWN: {"inferred": inferred(), "protocols": protocols(), "order": order()},
    }
    for page, parts in filled.items():
        page.write_text(fill(page.read_text(encoding="utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
