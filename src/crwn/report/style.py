"""How figures look: a colour, a marker and a dash per method, and one way to save them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crwn.experiments.suite import Filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which can be told apart with any kind of colour vision.
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
    "stl best": ("STL-best", "black", "*", ":"),
    "supsup best": ("SupSup-best", "orange", "D", ":"),
    "flynet best": ("FlyNet-best", "green", "s", ":"),
    "batche best": ("BatchE-best", "purple", "P", ":"),
    "mtl": ("MTL (joint)", "black", "h", "--"),
    "finetune": ("Fine-tuning", "yellow", "<", "-"),
    "ewc": ("EWC", "yellow", ">", "--"),
    "replay": ("Replay", "yellow", "p", ":"),
}
TITLES = {
    "rotated-mnist": "Rotation-MNIST",
    "permuted-mnist": "Permuted-MNIST",
    "split-cifar100": "Split-CIFAR100",
    "split-mini-imagenet": "Split-miniImageNet",
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


def method_label(method: str) -> str:
    """Return the name of a method as tables and legends print it."""
    return LOOKS.get(method, (method,))[0]


def family(method: str, settings: Mapping[str, str]) -> str:
    """Return what runs on one line share: the method with its settings, whatever the size.

    >>> family("neuromodnet", {"weights": "hadamard", "rate": "0.003"})
    'neuromodnet hadamard rate=0.003'
    """
    rest = dict(settings)
    if rest.get("schedule") == "cosine" and rest.get("rate") == "0.02":
        del rest["rate"]  # the rate of the suites' own cosine rows, which have a look of their own
    named = [rest.pop(key) for key in ("weights", "schedule", "recipe") if key in rest]
    return " ".join([method, *named, *(f"{key}={value}" for key, value in sorted(rest.items()))])


def families(found: Sequence[Filled]) -> dict[str, list[Filled]]:
    """Return the cells by family, in the order of the table."""
    grouped: dict[str, list[Filled]] = {}
    for cell in found:
        grouped.setdefault(family(cell.cell.row.method, cell.cell.row.settings), []).append(cell)
    return grouped


def style_of(method: str, settings: Mapping[str, str]) -> Style:
    """Return the style of a family; unknown settings keep the look of their method and are added to its label."""
    name = family(method, settings)
    label, colour, marker, dash = LOOKS.get(name) or LOOKS.get(method, (method, "black", "o", "-"))
    if name not in LOOKS:
        label = name.replace(method, label, 1)
    return Style(label, COLOURS[colour], marker, dash)


def protocol(found: Sequence[Filled]) -> str:
    """Return in brackets what all cells alike differ in from the paper's protocol; empty where they do not."""
    unusual = {cell.unusual for cell in found}
    return f" ({unusual.pop()})" if len(unusual) == 1 and unusual != {""} else ""


def task_step(tasks: int) -> int:
    """Return how many tasks lie between two ticks of an axis: whole tasks, about ten ticks.

    >>> task_step(3), task_step(36), task_step(1000)
    (1, 5, 100)
    """
    return next((size for size in (1, 2, 5, 10, 20, 50) if tasks <= 10 * size), tasks // 10)


def task_axis(axes: Axes, tasks: int) -> None:
    """Number tasks from 1 along the x-axis."""
    step = task_step(tasks)
    axes.set_xticks(sorted({1, *range(step, tasks + 1, step)}))
    axes.set_xlim(0.5 if tasks < 10 else 0.0, tasks + max(0.5, tasks / 50))
    axes.set_xlabel("task, in the order they were learned")


def legend_beside(axes: Axes, notes: Sequence[Any] = ()) -> None:
    """Put the legend to the right of the axes, what explains marks (`notes`) last."""
    handles, labels = axes.get_legend_handles_labels()
    own = {id(note) for note in notes}
    order = sorted(range(len(handles)), key=lambda i: id(handles[i]) in own)
    axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        fontsize=8,
        frameon=False,
    )


def saved(path: Path, size: tuple[float, float], paint: Callable[[Any], bool]) -> list[Path]:
    """Paint a figure and write it as PNG and SVG, the same bytes every time; nothing where `paint` returns False."""
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
        files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
        figure.savefig(files[0], dpi=150, metadata={"Software": None})
        figure.savefig(files[1], metadata={"Date": None})
    return files
