"""The picture of the demo: test accuracy of every task while later tasks are learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crwn.cli.demo.runs import Demo
from crwn.report.style import saved


def draw_accuracy(demo: Demo, target: Path) -> list[Path]:
    """Draw one panel per method with a line per task, from when it was learned on; a falling line is forgetting."""

    def paint(figure: Any) -> bool:
        import matplotlib

        panels = figure.subplots(1, len(demo.results), sharey=True)
        count = len(next(iter(demo.results.values())).tasks)
        colours = matplotlib.colormaps["viridis"]([i / max(1, count - 1) * 0.9 for i in range(count)])
        for axes, (label, result) in zip(panels, demo.results.items(), strict=True):
            rows = result.matrix or []
            for task, name in enumerate(result.tasks):
                later = list(range(task, len(rows)))
                axes.plot(
                    [k + 1 for k in later],
                    [rows[k][task] for k in later],
                    color=colours[task],
                    marker="osD^vP"[task % 6],
                    markersize=4.5,
                    linewidth=1.6,
                    label=f"{name.rpartition('-')[2].lstrip('0') or '0'}°",
                )
            axes.set_title(f"{label}\n{result.params_per_task:,} parameters per task", fontsize=10)
            axes.set_xlabel("tasks learned")
            axes.set_xticks(range(1, count + 1))
            axes.set_ylim(0, 102)
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("test accuracy of each task (%)")
        panels[0].legend(title="rotated by", fontsize=8, title_fontsize=8, loc="lower left", frameon=False)
        return True

    return saved(target, (10.0, 3.6), paint)
