"""Tables of a suite from run records, ours and the paper's side by side: Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from crwn.experiments.config import USUAL_TASKS
from crwn.experiments.suite import Column, Filled, Suite
from crwn.report.tables import NOTHING, Table, number, ratio


def accuracy_table(suite: Suite, filled: Sequence[Filled]) -> Table:
    """Return every row with our accuracy, the paper's and the difference, for each column."""
    head = ["method"]
    for column in suite.column:
        head += [f"{column.label} %", "paper", "difference"]
    rows = []
    for row in suite.row:
        cells = [row.label]
        for column in suite.column:
            found = _at(filled, row.label, column.key)
            if found is None:
                cells += ["", "", ""]
                continue
            paper = found.cell.published
            cells += [
                _ours(found),
                NOTHING if paper is None else f"{paper.accuracy:.2f} ± {paper.deviation:.2f}",
                NOTHING if found.difference is None else f"{found.difference:+.2f}",
            ]
        rows.append(cells)
    return Table(head, rows)


def cost_tables(suite: Suite, filled: Sequence[Filled]) -> list[tuple[str, Table]]:
    """Return what a task costs in every row, with headings: one table, or one per column where networks differ."""
    if suite.costs_per_column:
        return [
            (f"What a task costs, {column.label}", _costs(suite, filled, [column], times=True))
            for column in suite.column
        ]
    return [("What a task costs", _costs(suite, filled, suite.column, times=False))]


def _costs(suite: Suite, filled: Sequence[Filled], columns: Sequence[Column], *, times: bool) -> Table:
    head = ["method", "parameters per task", "with shared ones spread", "paper", "ratio", "paper", "bytes per task"]
    for column in columns:
        where = f" ({column.label})" if len(columns) > 1 else ""
        head += [f"forgetting{where}", f"seconds of the quickest task{where}"]
        head += ["paper", "against SupSup", "paper"] * times
    rows = []
    for row in suite.row:
        there = [found for column in columns if (found := _at(filled, row.label, column.key)) is not None]
        if not there:
            continue
        # What a task costs is the same in all columns: the first one that was run has it.
        cells = [row.label, *_counts(filled, next((found for found in there if found.results), there[0]))]
        for column in columns:
            found = _at(filled, row.label, column.key)
            cells += [
                NOTHING if found is None or found.forgetting is None else f"{found.forgetting:.2f}",
                _own_seconds(found),
            ]
            cells += _times(filled, found) if times else []
        rows.append(cells)
    return Table(head, rows)


def as_csv(filled: Sequence[Filled]) -> str:
    """Return all cells with all their values as CSV, one line each."""
    lines = [_values(found) for found in filled]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _values(found: Filled) -> dict[str, object]:
    """Return what one line of the CSV holds, by column."""
    cell, paper, config = found.cell, found.cell.published, found.cell.config()
    first = found.results[0] if found.results else None
    return {
        "table": cell.suite.name,
        "row": cell.row.label,
        "column": cell.column.label,
        "scenario": config.scenario,
        "method": config.method,
        "size": config.size,
        "settings": " ".join(f"{key}={value}" for key, value in sorted((first or config).settings.items())),
        "seeds": " ".join(str(result.seed) for result in found.results),
        "tasks": len(first.tasks) if first else "",
        "protocol": found.unusual or ("the paper's" if first else ""),
        "accuracy": _plain(found.accuracy),
        "accuracy_std": _plain(found.deviation),
        "paper_accuracy": paper.accuracy if paper else "",
        "paper_deviation": paper.deviation if paper else "",
        "difference": _plain(found.difference),
        "forgetting": _plain(found.forgetting),
        "params_per_task": first.params_per_task if first else "",
        "params_per_task_amortised": _plain(first.params_per_task_amortised if first else None),
        "paper_params": (paper.params if paper else None) or "",
        "paper_ratio": (paper.ratio if paper else None) or "",
        "bytes_per_task": first.bytes_per_task if first else "",
        "seconds_of_quickest_task": _plain(found.seconds),
        "paper_seconds": _plain(paper.seconds if paper else None),
    }


def suite_text(suite: Suite, filled: Sequence[Filled], *, heading: str = "##", width: int | None = None) -> str:
    """Return a whole suite as Markdown: accuracies beside the paper's, costs, and notes on rows.

    Args:
        width: of the terminal; wider tables come in parts.
    """
    parts = [f"{heading} {suite.title}", suite.about, accuracy_table(suite, filled).markdown(width)]
    for title, table in cost_tables(suite, filled):
        parts += [f"{title}:", table.markdown(width)]
    if notes := [f"- {part.label}: {part.note}" for part in (*suite.column, *suite.row) if part.note]:
        parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"


def suite_latex(suite: Suite, filled: Sequence[Filled]) -> str:
    """Return the same tables as LaTeX."""
    tables = [(suite.title, accuracy_table(suite, filled)), *cost_tables(suite, filled)]
    return "\n".join(f"% {title}\n{table.latex()}" for title, table in tables)


def _at(filled: Sequence[Filled], row: str, column: str) -> Filled | None:
    return next((f for f in filled if f.cell.row.label == row and f.cell.column.key == column), None)


def _ours(found: Filled) -> str:
    if found.accuracy is None:
        return "not run"
    text = f"{found.accuracy:.2f}" + (f" ± {found.deviation:.2f}" if found.deviation is not None else "")
    remarks = [found.unusual] if found.unusual else []
    if len(found.results) == 1:
        remarks.append("1 seed")
    if found.in_bf16:
        remarks.append("bf16")
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _counts(filled: Sequence[Filled], found: Filled) -> list[str]:
    paper = found.cell.published
    printed = [(paper.params if paper else None) or NOTHING, (paper.ratio if paper else None) or NOTHING]
    if not found.results:
        return [NOTHING, NOTHING, printed[0], NOTHING, printed[1], NOTHING]
    first = found.results[0]
    reference = _reference(filled, found)
    spread = number(first.params_per_task_amortised)
    if first.params_per_task_amortised != first.params_per_task:
        usual = USUAL_TASKS.get(found.cell.column.scenario, len(first.tasks))
        if len(first.tasks) != usual:  # over fewer tasks than the paper's, so there is nothing to compare
            spread, reference = f"{spread} (over {len(first.tasks)} tasks)", None
    return [
        number(first.params_per_task),
        spread,
        printed[0],
        NOTHING if reference is None else ratio(first.params_per_task_amortised, reference),
        printed[1],
        number(first.bytes_per_task),
    ]


def _reference(filled: Sequence[Filled], found: Filled) -> float | None:
    """Return what ratios are against: the parameters of one network per task."""
    if found.cell.column.reference_params is not None:
        return found.cell.column.reference_params
    for other in filled:
        if other.cell.row.method == "stl" and other.cell.column == found.cell.column and other.results:
            return other.results[0].params_per_task_amortised
    return None


def _times(filled: Sequence[Filled], found: Filled | None) -> list[str]:
    """Return the paper's seconds where ours are of equally long tasks, and both times as shares of SupSup's."""
    if found is None:
        return [NOTHING] * 3
    base = next((f for f in filled if f.cell.row.method == "supsup" and f.cell.column == found.cell.column), None)
    paper, paper_base = found.cell.published, base.cell.published if base else None
    ours = NOTHING
    if found.seconds and base is not None and base.seconds and base.unusual == found.unusual:
        ours = f"{found.seconds / base.seconds:.2f}"
    theirs = NOTHING
    if paper and paper.seconds and paper_base and paper_base.seconds:
        theirs = f"{paper.seconds / paper_base.seconds:.2f}"
    return [_seconds(paper.seconds if paper and found.full_budget else None), ours, theirs]


def _own_seconds(found: Filled | None) -> str:
    """Return our seconds, with the length of a task where it is not the paper's, and the precision."""
    if found is None or found.seconds is None:
        return NOTHING
    remarks = ([] if found.full_budget else [found.results[0].length]) + (["bf16"] if found.in_bf16 else [])
    return _seconds(found.seconds) + (f" ({', '.join(remarks)})" if remarks else "")


def _seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
