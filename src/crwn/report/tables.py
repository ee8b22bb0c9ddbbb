"""Tables as text: Markdown whose columns line up, and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NUMERIC = set("0123456789+-−.,:%±KM –")
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Cells as they are printed."""

    head: list[str]
    rows: list[list[str]]

    def markdown(self, width: int | None = None) -> str:
        """Return the table as Markdown, in parts where it is wider than `width`."""
        return fitted(self.head, self.rows, width)

    def latex(self) -> str:
        """Return a booktabs tabular."""
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
    """Return a Markdown table whose columns line up; columns of numbers are aligned to the right.

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


def fitted(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return the table in parts that are no wider than `width`, each beginning with the first column.

    >>> print(fitted(["task", "before", "after"], [["left", "9.50", "9.75"]], 20))
    | task | before |
    | ---- | -----: |
    | left |   9.50 |
    <BLANKLINE>
    | task | after |
    | ---- | ----: |
    | left |  9.75 |
    """
    whole = aligned(head, rows)
    if width is None or len(whole.partition("\n")[0]) <= width or len(head) < 3:
        return whole
    sizes = [max(3, *(len(row[i]) for row in (head, *rows))) + 3 for i in range(len(head))]
    parts: list[list[int]] = []
    for i in range(1, len(head)):
        if not parts or sizes[0] + sum(sizes[j] for j in parts[-1]) + sizes[i] + 1 > width:
            parts.append([])
        parts[-1].append(i)
    return "\n\n".join(
        aligned([head[0], *(head[i] for i in part)], [[row[0], *(row[i] for i in part)] for row in rows])
        for part in parts
    )


def number(value: float) -> str:
    """Return a count with separators, without decimals.

    >>> number(268800), number(9284.67), number(4)
    ('268,800', '9,285', '4')
    """
    return f"{value:,.0f}"


def ratio(value: float, reference: float) -> str:
    """Return a count as a ratio to the reference, written as in the paper.

    >>> ratio(1299, 268800), ratio(1014528, 268800), ratio(7841, 268800)
    ('1:207', '3.77:1', '1:34.3')
    """
    return f"1:{reference / value:.3g}" if value <= reference else f"{value / reference:.3g}:1"


def _tex(text: str) -> str:
    for sign, spelled in (("\\", r"\textbackslash{}"), ("%", r"\%"), ("#", r"\#"), ("_", r"\_"), ("&", r"\&")):
        text = text.replace(sign, spelled)
    return text.replace("±", r"$\pm$").replace("–", "--")
