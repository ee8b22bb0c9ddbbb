"""Interactive figures of the report page, made with plotly: what the printed figures show, to hover over and zoom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crwn.report.card import Card, long_label, look
from crwn.report.heatmaps import lost, matrix
from crwn.report.records import Group
from crwn.report.style import COLOURS, family, method_label, task_step

MOST_CURVES = 40
VISIBLE_CURVES = 12
# What is left on in a network: colour, pattern and name. Alpha alone reaches far less and is written in words.
VARIANTS = {
    "both": (COLOURS["blue"], "", "local and global"),
    "local": (COLOURS["orange"], "/", "local only"),
    "pretrained": (COLOURS["vermillion"], "x", "pretrained on the first task"),
}


def cards(groups: Sequence[Group]) -> Iterator[Card]:
    """Yield every figure that the runs suffice for."""
    for scenario in dict.fromkeys(group.scenario for group in groups):
        here = [group for group in groups if group.scenario == scenario]
        main = [group for group in here if not _ablated(group)]
        if main:
            yield _by_params(main)
            yield _by_seconds(main)
        curves = [group for group in main if len(group.first.tasks) > 1]
        if curves:
            yield _curves(curves)
        if any(group.forgetting is not None for group in main):
            yield lost(main)
        yield from (card for group in here if (card := matrix(group)) is not None)
        if any(_ablated(group) for group in here):
            yield _ablations(here)


def _by_params(groups: Sequence[Group]) -> Card:
    figure = _trade_off(groups, lambda group: group.first.params_per_task_amortised, "parameters per task")
    for trace, members in zip(list(figure.data), _lines(groups), strict=True):
        theirs = [group for group in members if group.paper is not None]
        if theirs:
            figure.add_scatter(
                x=[g.paper.params_per_task(g.first.params_per_task_amortised) for g in theirs if g.paper is not None],
                y=[group.paper.accuracy for group in theirs if group.paper is not None],
                text=[f"{group.label}, the paper" for group in theirs],
                mode="markers",
                showlegend=False,
                visible=trace.visible,
                marker={"color": trace.marker.color, "symbol": f"{trace.marker.symbol}-open", "size": 15},
                hovertemplate="%{text}<br>%{y:.2f} %<extra></extra>",
                legendgroup=trace.legendgroup,
                meta=trace.meta,
            )
    return Card(
        f"params-{groups[0].scenario}",
        "trade-offs",
        groups[0].scenario,
        "Accuracy against parameters per task",
        "Parameters that are shared and trained are spread over the tasks. Hollow: the paper.",
        figure,
    )


def _by_seconds(groups: Sequence[Group]) -> Card:
    return Card(
        f"seconds-{groups[0].scenario}",
        "trade-offs",
        groups[0].scenario,
        "Accuracy against time",
        "Seconds of a run's quickest task, with set-up and evaluation, on the machine named in its details.",
        _trade_off(groups, lambda group: group.seconds, "seconds of the quickest task"),
    )


def _lines(groups: Sequence[Group]) -> list[list[Group]]:
    """Return the runs that a line joins: one family, one length, by parameters per task."""
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        found.setdefault((family(group.method, group.first.settings), group.short), []).append(group)
    return [sorted(members, key=lambda group: group.first.params_per_task_amortised) for members in found.values()]


def _trade_off(groups: Sequence[Group], x: Callable[[Group], float], axis: str) -> Any:
    from plotly import graph_objects as go

    figure = go.Figure()
    methods: dict[str, set[str]] = {}
    for group in groups:
        methods.setdefault(group.short, set()).add(group.method)
    for line in _lines(groups):
        label, colour, symbol, dash = look(line[0])
        short = line[0].short
        label += f", {short}" if short else ""
        # A length that only one method was run with is there to be switched on: it compares with nothing.
        alone = len(methods[short]) == 1 and len(methods) > 1
        figure.add_scatter(
            x=[x(group) for group in line],
            y=[group.accuracy for group in line],
            error_y={"array": [group.spread or 0.0 for group in line], "thickness": 1},
            text=[group.label + (f"<br>{group.short}" if group.short else "") for group in line],
            mode="lines+markers",
            name=label,
            visible="legendonly" if alone else True,
            marker={"color": colour, "symbol": symbol, "size": 10},
            line={"color": colour, "dash": dash, "width": 1.5},
            hovertemplate="%{text}<br>%{y:.2f} %<br>%{x:,.4~g}<extra></extra>",
            legendgroup=label,
            meta={"method": line[0].method},
        )
    figure.update_layout(xaxis={"type": "log", "title": axis}, yaxis={"title": "average test accuracy (%)"})
    return figure


def _curves(groups: Sequence[Group]) -> Card:
    from plotly import graph_objects as go

    figure = go.Figure()
    longest = max(len(group.first.tasks) for group in groups)
    # Whole runs first: a dozen lines at once is what eyes can follow, the others are there to be switched on.
    whole_first = sorted(groups, key=lambda group: -len(group.first.tasks))
    for place, group in enumerate(whole_first[:MOST_CURVES]):
        _, colour, symbol, dash = look(group)
        figure.add_scatter(
            x=list(range(1, len(group.first.tasks) + 1)),
            y=group.per_task,
            text=group.first.tasks,
            mode="lines+markers",
            name=long_label(group),
            visible=True if place < VISIBLE_CURVES else "legendonly",
            marker={"color": colour, "symbol": symbol, "size": 5},
            line={"color": colour, "dash": dash, "width": 1.5},
            hovertemplate="%{text}: %{y:.2f} %<extra>%{fullData.name}</extra>",
            meta={"method": group.method},
        )
    figure.update_layout(
        xaxis={
            "title": "task, in the order they were learned",
            "range": [0.5, longest + 0.5],
            "dtick": task_step(longest),
        },
        yaxis={"title": "accuracy at the end (%)"},
    )
    return Card(
        f"curves-{groups[0].scenario}",
        "tasks",
        groups[0].scenario,
        "Every task after the last one was learned",
        "One line a run, the mean over its seeds. Lines that fall to the left have forgotten their first tasks.",
        figure,
    )


def _ablations(groups: Sequence[Group]) -> Card:
    from plotly import graph_objects as go

    by_variant = _by_variant(groups)
    compared = {name for name, variant in by_variant if variant != "both"}
    names = [name for name in dict.fromkeys(name for name, _ in by_variant) if name in compared]
    figure = go.Figure()
    shown = []
    for variant, (colour, pattern, label) in VARIANTS.items():
        found = [(name, by_variant[name, variant]) for name in names if (name, variant) in by_variant]
        if not found:
            continue
        shown += [group.accuracy for _, group in found]
        figure.add_bar(
            x=[name for name, _ in found],
            y=[group.accuracy for _, group in found],
            name=label,
            marker={"color": colour, "pattern": {"shape": pattern}},
            hovertemplate="%{x}, " + label + "<br>%{y:.2f} %<extra></extra>",
            meta={"method": found[0][1].method},
        )
    low, high = min(shown, default=0.0), max(shown, default=100.0)
    figure.update_layout(
        barmode="group",
        xaxis={"automargin": True, "categoryorder": "array", "categoryarray": names},
        yaxis={"title": "average test accuracy (%)", "range": [max(0.0, low - 5), min(100.0, high + 1)]},
    )
    caption = "Local modulation (v), global modulation (alpha), both, and shared weights learned on the first task."
    alone = [
        f"{by_variant[n, 'global'].accuracy:.1f} ({n.replace('<br>', ' ')})"
        for n in names
        if (n, "global") in by_variant
    ]
    if alone:
        caption += f" Global modulation alone: {', '.join(alone)}."
    return Card(
        f"ablations-{groups[0].scenario}",
        "ablations",
        groups[0].scenario,
        "What each part contributes",
        f"{caption} The axis does not start at 0.",
        figure,
    )


def _ablated(group: Group) -> bool:
    return bool({"modulation", "pretrained"} & group.first.settings.keys())


def _by_variant(groups: Sequence[Group]) -> dict[tuple[str, str], Group]:
    """Return the runs by network and by what is left on in it, smaller networks first."""
    found: dict[tuple[str, str], Group] = {}
    for group in sorted(groups, key=lambda group: (group.method, group.first.params_per_task, group.short)):
        settings = dict(group.first.settings)
        variant = settings.pop("modulation", "both")
        if settings.pop("pretrained", "false").lower() == "true":
            variant = "pretrained"
        rest = "".join(f" {value}" for _, value in sorted(settings.items()))
        rest += f"<br>{group.short}" if group.short else ""
        found.setdefault((f"{method_label(group.method)}<br>{group.first.size}{rest}", variant), group)
    return found
