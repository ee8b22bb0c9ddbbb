"""Tables from run records, ours and the paper's side by side: Markdown, CSV, LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

NUMERIC = set("0123456789+-−.,:%±KM ")


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up; columns of numbers stand to the right.

    >>> print(aligned(["task", "%"], [["left", "9.50"], ["right", "10.25"]]))
    | task  |     % |
    | ----- | ----: |
    | left  |  9.50 |
    | right | 10.25 |
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    widths = [max(3, width) for width in widths]
    right = [
        any(row[i].strip() for row in rows) and all(set(row[i]) <= NUMERIC | {"–"} for row in rows)
        for i in range(len(head))
    ]

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
