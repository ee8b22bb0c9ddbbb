"""Draw docs/images/architecture.png and .svg: a modulated layer, FlyNet and NeuroModNet, with their sizes.

python scripts/architecture_figure.py [FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from crwn.layers import learned_parameters
from crwn.models import FlyNet, NeuroModNet
from crwn.report.style import COLOURS, GREY, saved

ROOT = Path(__file__).resolve().parents[1]
FROZEN, LOCAL, GLOBAL = "#E6E6E6", COLOURS["sky"], COLOURS["orange"]


def box(axes: Any, x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
    """Draw a labelled box around its centre."""
    from matplotlib.patches import FancyBboxPatch

    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0.02,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=colour, edgecolor=GREY, linewidth=1))
    axes.text(x, y, text, ha="center", va="center", fontsize=9)


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 1.1})


def layer(axes: Any, x: float, y: float, frozen: str, index: str) -> None:
    """Draw one modulated layer: the input is multiplied by v and alpha, then by the frozen weights."""
    box(axes, x, y, 0.62, 0.5, "⊙", "white")
    box(axes, x, y + 1.0, 0.95, 0.46, f"$v_{{k{index}}}$", LOCAL)
    box(axes, x, y - 1.0, 0.95, 0.46, rf"$\alpha_{{k{index}}}$", GLOBAL)
    arrow(axes, (x, y + 0.75), (x, y + 0.28))
    arrow(axes, (x, y - 0.75), (x, y - 0.28))
    arrow(axes, (x + 0.34, y), (x + 0.78, y))
    box(axes, x + 1.4, y, 1.2, 0.7, frozen, FROZEN)


def chain(axes: Any, y: float, title: str, first: str, parts: list[tuple[str, str, str]], learned: int) -> None:
    """Draw a network as a row of parts: (kind, label, index), from the input to the logits."""
    axes.text(0.0, y + 1.55, f"{title}: {learned:,} parameters per task", fontsize=10, fontweight="bold")
    x = 0.5
    box(axes, x, y, 0.9, 0.6, first, "white")
    end = x + 0.47
    for kind, label, index in parts:
        if kind == "layer":
            arrow(axes, (end, y), (end + 0.42, y))
            layer(axes, end + 0.75, y, label, index)
            end += 2.77
        else:
            width = 0.42 + 0.095 * len(label)
            arrow(axes, (end, y), (end + 0.4, y))
            box(axes, end + 0.42 + width / 2, y, width, 0.6, label, FROZEN if kind == "frozen" else "white")
            end += 0.44 + width
    arrow(axes, (end, y), (end + 0.4, y))
    box(axes, end + 0.9, y, 0.95, 0.6, "logits", "white")


def paint(figure: Any) -> bool:
    """Draw both networks at the paper's smallest sizes for MNIST."""
    axes = figure.subplots()
    axes.set_axis_off()
    fly = learned_parameters(FlyNet(784, 7840, 10, seed=0))
    deep = learned_parameters(NeuroModNet(784, (256, 256), 10, seed=0))
    chain(
        axes,
        4.3,
        "FlyNet, 10d",
        "784",
        [
            ("frozen", "E: sums of 7 inputs", ""),
            ("plain", "relu(x − γ mean x)", ""),
            ("layer", "R\n10 x 7840", ""),
        ],
        fly,
    )
    chain(
        axes,
        0.0,
        "NeuroModNet, FC256",
        "784",
        [
            ("layer", "$R_1$\n256 x 784", "1"),
            ("plain", "relu", ""),
            ("layer", "$R_2$\n256 x 256", "2"),
            ("plain", "relu", ""),
            ("layer", "$R_3$\n10 x 256", "3"),
        ],
        deep,
    )
    words = (
        ("frozen, from the seed", FROZEN),
        ("local: one entry per input, learned", LOCAL),
        ("global: a scalar, learned", GLOBAL),
    )
    for place, (text, colour) in enumerate(words):
        box(axes, 11.0, 5.5 - 0.62 * place, 0.45, 0.3, "", colour)
        axes.text(11.4, 5.5 - 0.62 * place, text, va="center", fontsize=8.5)
    axes.set_xlim(-0.2, 14.6)
    axes.set_ylim(-1.5, 6.2)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
    for path in saved(parser.parse_args().folder / "architecture", (11.5, 5.4), paint):
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
