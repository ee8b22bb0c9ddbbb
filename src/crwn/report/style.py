"""How figures look: a colour, a marker and a dash per method, and one way to save them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crwn.experiments.suite import Filled

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = {
    "blue": "#0072B2",
    "sky": "#56B4E9",
    "green": "#009E73",
    "orange": "#E69F00",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "yellow": "#C8B900",
    "black": "#000000",
}
GREY = "#555555"
LOOKS = {
    "neuromodnet": ("NeuroModNet", "blue", "o", "-"),
    "neuromodnet hadamard": ("NeuroModNet-Hadamard", "sky", "^", "--"),
    "neuromodnet hadamard cosine": ("NeuroModNet-Hadamard, cosine", "sky", "v", ":"),
    "neuromodnet best": ("NeuroModNet-best", "vermillion", "d", "-"),
    "flynet": ("FlyNet", "green", "s", "-"),
    "supsup": ("SupSup", "orange", "D", "-."),
    "batche": ("BatchE", "purple", "P", "--"),
    "psp": ("PSP", "vermillion", "X", ":"),
    "stl": ("STL", "black", "*", "-"),
    "mtl": ("MTL (joint)", "black", "h", "--"),
    "finetune": ("Fine-tuning", "yellow", "<", "-"),
    "ewc": ("EWC", "yellow", ">", "--"),
    "replay": ("Replay", "yellow", "p", ":"),
}


@dataclass(frozen=True)
class Style:
    """How a family of runs is drawn."""

    label: str
    colour: str
    marker: str
    dash: str

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash, "markersize": 5, "linewidth": 1.4}


def family(cell: Filled) -> str:
    """Runs that belong on one line: a method with its settings, whatever the size."""
    settings = cell.cell.row.settings
    parts = [cell.cell.row.method]
    parts += [settings[key] for key in ("weights", "schedule", "recipe") if key in settings]
    return " ".join(parts)


def families(found: Sequence[Filled]) -> dict[str, list[Filled]]:
    """The cells by family, in the order of the table."""
    grouped: dict[str, list[Filled]] = {}
    for cell in found:
        grouped.setdefault(family(cell), []).append(cell)
    return grouped


def style_of(cell: Filled) -> Style:
    label, colour, marker, dash = LOOKS.get(family(cell), (family(cell), "black", ".", "-"))
    return Style(label, COLOURS[colour], marker, dash)


def saved(path: Path, size: tuple[float, float], paint: Callable[[Any], bool]) -> list[Path]:
    """Paint a figure and write it as PNG and SVG, the same bytes every time; nothing where there is nothing to show."""
    import matplotlib
    from matplotlib.figure import Figure

    settings = {
        "svg.hashsalt": "crwn",
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        if not paint(figure):
            return []
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
