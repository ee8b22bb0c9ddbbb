"""docs/results.md, made from committed records: `python -m crwn.report.results_page results docs/results.md`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from crwn.experiments.folder import RunFolder
from crwn.experiments.suite import SUITES, Filled, fill_best, load_suite
from crwn.files import write_whole
from crwn.report.figures import draw_all
from crwn.report.pretrained import comparison
from crwn.report.schedules import equal_schedules
from crwn.report.tables import as_csv, suite_latex, suite_text

CAPTIONS = {
    "accuracy-per-task": "Test accuracy of each task after learning all",
    "accuracy-and-numbers": "Average accuracy against learned numbers per task; hollow marks are the paper's",
    "accuracy-and-seconds": "Average accuracy against the seconds of the quickest task",
    "forgetting": "Methods that share trained weights, beside one that does not: accuracy of each task at the end",
    "pretrained": "Pretrained mode against random weights, task by task",
    "ablation": "What local and global modulation contribute",
    "accuracy-matrix": "Accuracy of every task so far after learning each task",
}


def write_page(records: Path, page: Path) -> None:
    """Tables beside the page's figures, from the most complete records of every cell."""
    figures = page.parent / "figures"
    tables = records / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Results",
        "This page is made from the records under `results/` by `python -m crwn.report.results_page`; do not edit it. "
        "Every record is a run folder, without its `state/` but for Split-CIFAR100: `config.json` (versions, machine, "
        "threads, stack size, the command that repeats it), `metrics.jsonl` (a line per task) and `result.json`.",
        "Accuracies are percentages on the test rows, means over tasks after the last one was learned, with the "
        "deviation over seeds. Runs that are shorter than the paper's say so in brackets, and so does a single seed.",
        "Seconds are wall time of the quickest task of a run, set-up and evaluation included: machines were shared and "
        "runs paused, and that task was disturbed least. They tell an order of magnitude; speeds are compared as "
        "ratios measured in one run, on the page about performance.",
        _machines(records),
    ]
    for name in SUITES:
        suite = load_suite(name)
        filled = [fill_best(cell, records) for cell in suite.cells()]
        parts.append(suite_text(suite, filled).rstrip())
        parts.append(_differences(filled))
        parts.append(comparison(filled))
        if suite.costs_per_column:
            parts += [equal_schedules(records, column.scenario) for column in suite.column]
        write_whole(tables / f"{name}.csv", as_csv(filled).encode())
        write_whole(tables / f"{name}.tex", suite_latex(suite, filled).encode())
    parts += sorted(note.read_text().rstrip() for note in records.glob("notes/*.md"))
    parts.append("## Figures")
    for path in draw_all(records, figures):
        if path.suffix == ".png":
            caption = next(text for start, text in CAPTIONS.items() if path.stem.startswith(start))
            place = next(
                (
                    s
                    for s in ("rotated-mnist", "permuted-mnist", "split-cifar100", "split-mini-imagenet")
                    if s in path.stem
                ),
                "",
            )
            words = f"{caption}{f' ({place})' if place else ''}."
            parts.append(f"![{words}](figures/{path.name})\n\n{words} ([SVG](figures/{path.stem}.svg))")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, ("\n\n".join(part for part in parts if part) + "\n").encode())


def _differences(filled: list[Filled]) -> str:
    """How many of the cells that follow the paper's protocol agree with it."""
    whole = [cell for cell in filled if cell.difference is not None and not cell.unusual]
    if not whole:
        return ""
    low = [cell for cell in whole if (cell.difference or 0.0) < -0.5]
    text = f"{len(whole) - len(low)} of the {len(whole)} cells run at full length are within 0.5 points or above."
    if low:
        text += f" Below: {', '.join(_below(cell) for cell in low)}."
    return text


def _below(cell: Filled) -> str:
    said = f"{cell.cell.row.label} on {cell.cell.column.label} ({cell.difference:+.2f}"
    if cell.forgetting:
        said += f"; right after learning {cell.right_after:.2f}"
    return said + ")"


def _machines(records: Path) -> str:
    """On what the runs were done."""
    seen: Counter[str] = Counter()
    for path in sorted(records.glob("*/*/seed-*/config.json")):
        record = RunFolder(path.parent).record()
        if record is not None and "machine" in record:
            machine, versions = record["machine"], record["versions"]
            seen[
                f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, "
                f"torch {versions['torch']}"
            ] += 1
    if not seen:
        return ""
    return "Runs by machine: " + "; ".join(f"{count} on {name}" for name, count in seen.most_common()) + "."


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m crwn.report.results_page RECORDS PAGE", file=sys.stderr)
        return 2
    write_page(Path(arguments[0]), Path(arguments[1]))
    print(json.dumps({"page": arguments[1]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
