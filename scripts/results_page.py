"""Write docs/results.md, its figures and results/tables from the records under results/.

python scripts/results_page.py [RECORDS [PAGE]]
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from crwn._utils import write_whole
from crwn.experiments.folder import RunFolder
from crwn.experiments.suite import SUITES, fill_best, load_suite
from crwn.report.agreement import agreement_table, agreement_text
from crwn.report.figures import draw_all
from crwn.report.pretrained import comparison
from crwn.report.schedules import equal_schedules
from crwn.report.suite_tables import as_csv, suite_latex, suite_text

ROOT = Path(__file__).resolve().parents[1]
CAPTIONS = {
    "accuracy-per-task": "Test accuracy of each task after learning all",
    "accuracy-and-parameters": "Average accuracy against parameters per task; hollow marks are the paper's",
    "accuracy-and-seconds": "Average accuracy against the seconds of the quickest task",
    "forgetting": "Methods that share trained weights, and one that does not: accuracy of each task at the end",
    "pretrained": "Pretrained mode against random weights, task by task",
    "ablation": "What local and global modulation contribute",
    "accuracy-matrix": "Accuracy of every task so far after learning each task",
}


def write_page(records: Path, page: Path, *, tables: Path | None = None) -> None:
    """Write the page from the most complete records of every cell, and its figures beside it.

    Args:
        tables: where the tables are written as CSV and LaTeX; `tables/` among the records by default.
    """
    figures = page.parent / "figures"
    tables = tables or records / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Results",
        "This page is made from the records under `results/` by `python scripts/results_page.py`; do not edit it. "
        "Every record is a run folder: `config.json` (versions, machine, threads, stack size, the command that repeats "
        "it), `metrics.jsonl` (a line per task) and `result.json`. `results/README.md` describes them.",
        "Accuracies are percentages on the test rows, means over tasks after the last one was learned, with the "
        "deviation over seeds. In brackets: how a run is shorter than the paper's, and where only one seed was run.",
        "Seconds are wall time of the quickest task of a run, set-up and evaluation included: machines were shared and "
        "runs paused, and that task was disturbed least. They give an order of magnitude; speeds are compared as "
        "ratios measured in one run, on the page about performance.",
        _machines(records),
    ]
    suites = [load_suite(name) for name in SUITES]
    every = {suite.name: [fill_best(cell, records) for cell in suite.cells()] for suite in suites}
    parts += [
        "## How much of the paper is repeated",
        agreement_table({suite.title: every[suite.name] for suite in suites}).markdown(),
        "Counted are the cells that the paper prints, each once: rows of ours beside them (Hadamard weights, joint "
        "training, tuned recipes) are not. Full length is all tasks and all batches or epochs. A result above the "
        "paper's by more than half a point is a difference like one below. Cells marked bf16 were learned and "
        "evaluated with `precision=bf16`, whose accuracies `docs/decisions.md` compares; the last column counts them.",
    ]
    for suite in suites:
        name, filled = suite.name, every[suite.name]
        parts.append(suite_text(suite, filled).rstrip())
        parts.append(agreement_text(filled))
        parts.append(comparison(filled))
        if suite.costs_per_column:
            for column in suite.column:
                if equal := equal_schedules(records, column.scenario):
                    parts += [equal, column.note]
        write_whole(tables / f"{name}.csv", as_csv(filled).encode())
        write_whole(tables / f"{name}.tex", suite_latex(suite, filled).encode())
    parts += sorted(note.read_text().rstrip() for note in records.glob("notes/*.md"))
    parts.append("## Figures")
    for path in draw_all(records, figures):
        if path.suffix == ".png":
            start, caption = next(item for item in CAPTIONS.items() if path.stem.startswith(item[0]))
            of = path.stem.removeprefix(start).strip("-")
            words = f"{caption} ({of})." if of else f"{caption}."
            parts.append(f"![{words}](figures/{path.name})\n\n{words} ([SVG](figures/{path.stem}.svg))")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, ("\n\n".join(part for part in parts if part) + "\n").encode())


def _machines(records: Path) -> str:
    """Return the machines of the runs, as a sentence."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="?", default=ROOT / "results", help="folder of run records")
    parser.add_argument("page", type=Path, nargs="?", default=ROOT / "docs" / "results.md", help="page to write")
    given = parser.parse_args()
    write_page(given.records, given.page)
    print(f"wrote {given.page.name}")


if __name__ == "__main__":
    main()
