"""A figure of the report page: what it shows, where it is placed, and how runs look in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crwn._utils import counted
from crwn.experiments.config import USUAL_BUDGET
from crwn.report.records import Group
from crwn.report.style import COLOURS, style_of

INK = COLOURS["black"]  # the page replaces it by its own text colour, light or dark
# Markers and dashes of matplotlib, by plotly's names; page.js draws the same markers in its legends.
SYMBOLS = {
    "o": "circle",
    "^": "triangle-up",
    "v": "triangle-down",
    "s": "square",
    "D": "diamond",
    "P": "cross",
    "d": "diamond-tall",
    "X": "x",
    "*": "star",
    "h": "hexagon",
    "<": "triangle-left",
    ">": "triangle-right",
    "p": "pentagon",
}
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


@dataclass(frozen=True)
class Card:
    """A figure with its place on the page.

    Args:
        name: unique on the page.
        section: key of `page.SECTIONS`.
        figure: a `plotly.graph_objects.Figure`.
    """

    name: str
    section: str
    scenario: str
    title: str
    caption: str
    figure: Any


def look(group: Group) -> tuple[str, str, str, str]:
    """Return name, colour, symbol and dash of the family that a run belongs to."""
    style = style_of(group.method, group.first.settings)
    return style.label, style.colour, SYMBOLS[style.marker], DASHES[style.dash]


def long_label(group: Group) -> str:
    """Return the label of a run with what tells it from a run of the same name but another length."""
    if group.scenario in USUAL_BUDGET:
        return f"{group.label}, {group.short}" if group.short else group.label
    return f"{group.label}, {counted(len(group.first.tasks), 'task')}, {group.first.length}"
