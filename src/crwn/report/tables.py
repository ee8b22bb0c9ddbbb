"""Tables from run records, ours and the paper's side by side: Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from crwn.experiments.config import USUAL_TASKS
from crwn.experiments.suite import Column, Filled, Suite

NUMERIC = set("0123456789+-−.,:%±KM –")
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Cells as they are printed."""

    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        return aligned(self.head, self.rows)

    def latex(self) -> str:
        """A booktabs tabular."""
        columns = "l" + "r" * (len(self.head) - 1)
        lines = [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(_tex(cell) for cell in self.head) + r" \\",
            r"\midrule",
            *(" & ".join(_tex(cell) for cell in row) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up; columns of numbers stand to the right.

    >>> print(aligned(["task", "%"], [["left", "9.50"], ["right", "10.25"]]))
    | task  |     % |
    | ----- | ----: |
    | left  |  9.50 |
    | right | 10.25 |
    """
    widths = [max(3, *(len(row[i]) for row in (head, *rows))) for i in range(len(head))]
    right = [i > 0 and all(set(row[i].split(" (")[0]) <= NUMERIC for row in rows) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (width - 1) + ":" if to_right else "-" * width for width, to_right in zip(widths, right, strict=True)]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *(line(row) for row in rows)])


def number(value: float) -> str:
    """A count for people.

    >>> number(268800), number(9284.67), number(4)
    ('268,800', '9,285', '4')
    """
    return f"{value:,.0f}"


def ratio(value: float, reference: float) -> str:
    """How a count compares with the reference, as the paper writes it.

    >>> ratio(1299, 268800), ratio(1014528, 268800), ratio(7841, 268800)
    ('1:207', '3.77:1', '1:34.3')
    """
    return f"1:{reference / value:.3g}" if value <= reference else f"{value / reference:.3g}:1"


def accuracy_table(suite: Suite, filled: Sequence[Filled]) -> Table:
    """Every row with our accuracy, the paper's and the difference, for each column."""
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
    """What a task costs in every row, with a heading: one table, or one per column where the networks differ."""
    if suite.costs_per_column:
        return [
            (f"What a task costs, {column.label}", _costs(suite, filled, [column], times=True))
            for column in suite.column
        ]
    return [("What a task costs", _costs(suite, filled, suite.column, times=False))]


def _costs(suite: Suite, filled: Sequence[Filled], columns: Sequence[Column], *, times: bool) -> Table:
    head = ["method", "numbers per task", "with shared ones spread", "paper", "ratio", "paper", "bytes per task"]
    for column in columns:
        where = f" ({column.label})" if len(columns) > 1 else ""
        head += [f"forgetting{where}", f"seconds of the quickest task{where}"]
        head += ["paper", "against SupSup", "paper"] * times
    rows = []
    for row in suite.row:
        there = [found for column in columns if (found := _at(filled, row.label, column.key)) is not None]
        if not there:
            continue
        # What a task costs is the same in all columns: the first one that was run tells it.
        cells = [row.label, *_counts(filled, next((found for found in there if found.results), there[0]))]
        for column in columns:
            found = _at(filled, row.label, column.key)
            cells += [
                NOTHING if found is None or found.forgetting is None else f"{found.forgetting:.2f}",
                _seconds(None if found is None else found.seconds),
            ]
            cells += _times(filled, found) if times else []
        rows.append(cells)
    return Table(head, rows)


def as_csv(filled: Sequence[Filled]) -> str:
    """All cells with all numbers, one line each, for machines."""
    out = io.StringIO()
    names = [
        "table",
        "row",
        "column",
        "scenario",
        "method",
        "size",
        "settings",
        "seeds",
        "tasks",
        "protocol",
        "accuracy",
        "accuracy_std",
        "paper_accuracy",
        "paper_deviation",
        "difference",
        "forgetting",
        "params_per_task",
        "params_per_task_amortised",
        "paper_params",
        "paper_ratio",
        "bytes_per_task",
        "seconds_of_quickest_task",
        "paper_seconds",
    ]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for found in filled:
        cell, paper = found.cell, found.cell.published
        config = cell.config()
        first = found.results[0] if found.results else None
        writer.writerow(
            [
                cell.suite.name,
                cell.row.label,
                cell.column.label,
                config.scenario,
                config.method,
                config.size,
                " ".join(f"{key}={value}" for key, value in sorted(config.settings.items())),
                " ".join(str(result.seed) for result in found.results),
                len(first.tasks) if first else "",
                found.unusual or ("the paper's" if first else ""),
                _plain(found.accuracy),
                _plain(found.deviation),
                paper.accuracy if paper else "",
                paper.deviation if paper else "",
                _plain(found.difference),
                _plain(found.forgetting),
                first.params_per_task if first else "",
                _plain(first.params_per_task_amortised if first else None),
                paper.params if paper and paper.params else "",
                paper.ratio if paper and paper.ratio else "",
                first.bytes_per_task if first else "",
                _plain(found.seconds),
                _plain(paper.seconds if paper else None),
            ]
        )
    return out.getvalue()


def suite_text(suite: Suite, filled: Sequence[Filled], *, heading: str = "##") -> str:
    """A whole suite as Markdown: accuracies beside the paper's, costs, and what there is to say about rows."""
    parts = [f"{heading} {suite.title}", suite.about, accuracy_table(suite, filled).markdown()]
    for title, table in cost_tables(suite, filled):
        parts += [f"{title}:", table.markdown()]
    if said := [f"- {row.label}: {row.note}" for row in suite.row if row.note]:
        parts.append("\n".join(said))
    return "\n\n".join(parts) + "\n"


def suite_latex(suite: Suite, filled: Sequence[Filled]) -> str:
    """The same tables for a paper."""
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
    """What ratios are against: one network per task."""
    if found.cell.column.reference_params is not None:
        return found.cell.column.reference_params
    for other in filled:
        if other.cell.row.method == "stl" and other.cell.column == found.cell.column and other.results:
            return other.results[0].params_per_task_amortised
    return None


def _times(filled: Sequence[Filled], found: Filled | None) -> list[str]:
    """The paper's seconds, and both times as shares of SupSup's."""
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
    return [_seconds(paper.seconds if paper else None), ours, theirs]


def _seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _tex(text: str) -> str:
    for sign, spelled in (("\\", r"\textbackslash{}"), ("%", r"\%"), ("#", r"\#"), ("_", r"\_"), ("&", r"\&")):
        text = text.replace(sign, spelled)
    return text.replace("±", r"$\pm$").replace("–", "--")
