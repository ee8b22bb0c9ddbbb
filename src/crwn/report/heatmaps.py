"""Heat maps of the report page: what each task lost, and accuracy matrices."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from crwn.report.card import Card, long_label
from crwn.report.records import Group
from crwn.report.style import task_step


def lost(groups: Sequence[Group]) -> Card:
    """Return a row for every run, a column for every task: points of accuracy lost at the end."""
    from plotly import graph_objects as go

    shown = [group for group in reversed(groups) if group.forgetting is not None]
    longest = max(len(group.first.tasks) for group in shown)
    rows = [[*group.lost, *[None] * (longest - len(group.lost))] for group in shown]
    most = max([abs(value) for row in rows for value in row if value is not None] + [1.0])
    figure = go.Figure(
        go.Heatmap(
            z=rows,
            x=list(range(1, longest + 1)),
            y=[long_label(group) for group in shown],
            meta={"diverging": True},  # the page has the colours, so that they suit light and dark
            zmid=0.0,
            zmin=-most,
            zmax=most,
            hovertemplate="%{y}<br>task %{x}: %{z:.2f} points lost<extra></extra>",
            colorbar={"title": {"text": "points lost", "side": "right"}, "thickness": 12},
        )
    )
    figure.update_layout(
        height=max(260, 90 + 24 * len(shown)),
        xaxis={"title": "task", "showgrid": False, "dtick": task_step(longest)},
        yaxis={"automargin": True, "ticklabelstep": 1, "showgrid": False},
    )
    return Card(
        f"lost-{groups[0].scenario}",
        "forgetting",
        groups[0].scenario,
        "Forgetting of each task",
        "Accuracy right after learning a task minus accuracy at the end: grey is nothing lost, red is forgotten; "
        "tasks that a run does not have are left blank.",
        figure,
    )


def matrix(group: Group) -> Card | None:
    """Return the accuracy of every task so far (across) after learning each task (down), the mean over seeds.

    None where the runs have one task, or no such matrix (`crwn run --matrix` makes it).
    """
    from plotly import graph_objects as go

    found = [run.result for run in group.runs if run.result.matrix is not None and len(run.result.tasks) > 1]
    if not found:
        return None
    tasks = found[0].tasks
    values = [
        [fmean(cells) for cells in zip(*rows, strict=True)]
        for rows in zip(*(result.matrix or [] for result in found), strict=True)
    ]
    whole = [[*row, *[None] * (len(tasks) - len(row))] for row in values]
    figure = go.Figure(
        go.Heatmap(
            z=whole,
            x=list(tasks),
            y=[f"after {name}" for name in tasks],
            colorscale="Viridis",
            zmin=min(50.0, *(value for row in values for value in row)),
            zmax=100.0,
            hovertemplate="%{y}<br>%{x}: %{z:.2f} %<extra></extra>",
            colorbar={"title": {"text": "accuracy (%)", "side": "right"}, "thickness": 12},
        )
    )
    figure.update_layout(
        height=max(320, 120 + 14 * len(tasks)),
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        xaxis={"automargin": True, "showgrid": False},
    )
    of = f"Mean of {len(found)} seeds." if len(found) > 1 else f"Seed {found[0].seed}."
    slug = "".join(c if c.isalnum() else "-" for c in long_label(group))
    return Card(
        f"matrix-{group.scenario}-{slug}",
        "forgetting",
        group.scenario,
        f"Accuracy matrix: {long_label(group)}",
        f"{of} Each row is measured after one more task was learned; a column that darkens downwards is forgotten.",
        figure,
    )
