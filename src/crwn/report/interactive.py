"""Interactive figures of the report page, made with plotly: what the printed figures show, to hover over and zoom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crwn.experiments.config import USUAL_BUDGET
from crwn.report.records import Group
from crwn.report.style import COLOURS, LOOKS

INK = "#000000"  # the page puts its own text colour here, light or dark
SYMBOLS = {"o": "circle", "^": "triangle-up", "v": "triangle-down", "s": "square", "D": "diamond", "P": "cross"}
SYMBOLS |= {
    "d": "diamond-tall",
    "X": "x",
    "*": "star",
    "h": "hexagon",
    "<": "triangle-left",
    ">": "triangle-right",
    "p": "pentagon",
}
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
MOST_CURVES = 40


@dataclass(frozen=True)
class Card:
    """A figure with its place on the page."""

    name: str
    section: str
    scenario: str
    title: str
    caption: str
    figure: Any


def cards(groups: Sequence[Group]) -> Iterator[Card]:
    """Every figure the runs suffice for."""
    for scenario in dict.fromkeys(group.scenario for group in groups):
        here = [group for group in groups if group.scenario == scenario]
        main = [group for group in here if not _ablated(group)]
        if main:
            yield _trade_off(
                main,
                "numbers",
                "Accuracy against learned numbers",
                "Learned numbers per task, those that are shared and trained spread over the tasks. Hollow: the paper.",
                lambda group: group.first.params_per_task_amortised,
                with_paper=True,
            )
            yield _trade_off(
                main,
                "seconds",
                "Accuracy against time",
                "Seconds of a run's quickest task, with set-up and evaluation, on the machine its details name.",
                lambda group: group.seconds,
                with_paper=False,
            )
            if len(main[0].first.tasks) > 1:
                yield _curves(main)
        if any(group.forgetting is not None for group in main):
            yield _lost(main)
        for group in here:
            for run in group.runs:
                if run.result.matrix is not None and len(run.result.tasks) > 1:
                    yield _matrix(group, run.result.matrix, run.result.tasks, run.result.seed)
        if any(_ablated(group) for group in here):
            yield _ablations(here)


def family(group: Group) -> str:
    """Runs that belong on one line: a method with its settings, whatever the size."""
    settings = dict(group.first.settings)
    if settings.get("schedule") == "cosine" and settings.get("rate") == "0.02":
        del settings["rate"]  # the suites' own cosine rows have a look and a name
    extra = [settings.pop(key) for key in ("weights", "schedule", "recipe") if key in settings]
    return " ".join([group.method, *extra, *(f"{key}={value}" for key, value in sorted(settings.items()))])


def look(group: Group) -> tuple[str, str, str, str]:
    """Name, colour, symbol and dash of a family."""
    known = LOOKS.get(family(group)) or LOOKS.get(group.method, (group.method, "black", "o", "-"))
    name = known[0] if family(group) in LOOKS else family(group).replace(group.method, known[0], 1)
    return name, INK if known[1] == "black" else COLOURS[known[1]], SYMBOLS[known[2]], DASHES[known[3]]


def _long_label(group: Group) -> str:
    """With what tells it from a run of the same name but another length."""
    if group.scenario in USUAL_BUDGET:
        return f"{group.label}, {group.short}" if group.short else group.label
    budget = " ".join(f"{value:,} {name}" for name, value in group.first.budget.items())
    return f"{group.label}, {len(group.first.tasks)} tasks, {budget}"


def _ablated(group: Group) -> bool:
    return bool({"modulation", "pretrained"} & group.first.settings.keys())


def _trade_off(
    groups: Sequence[Group], name: str, title: str, caption: str, x: Callable[[Group], float], *, with_paper: bool
) -> Card:
    from plotly import graph_objects as go

    figure = go.Figure()
    by_family: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        by_family.setdefault((family(group), group.short), []).append(group)
    for (_, short), members in by_family.items():
        line = sorted(members, key=x)
        label, colour, symbol, dash = look(line[0])
        label += f", {short}" if short else ""
        shared = {"legendgroup": label, "meta": {"method": line[0].method}}
        figure.add_scatter(
            x=[x(group) for group in line],
            y=[group.accuracy for group in line],
            error_y={"array": [group.spread or 0.0 for group in line], "thickness": 1},
            text=[group.label + (f"<br>{group.short}" if group.short else "") for group in line],
            mode="lines+markers",
            name=label,
            marker={"color": colour, "symbol": symbol, "size": 10},
            line={"color": colour, "dash": dash, "width": 1.5},
            hovertemplate="%{text}<br>%{y:.2f} %<br>%{x:,.4~g}<extra></extra>",
            **shared,
        )
        theirs = [group for group in line if group.paper is not None]
        if with_paper and theirs:
            figure.add_scatter(
                x=[group.paper.numbers(x(group)) for group in theirs if group.paper is not None],
                y=[group.paper.accuracy for group in theirs if group.paper is not None],
                text=[f"{group.label}, the paper" for group in theirs],
                mode="markers",
                showlegend=False,
                marker={"color": colour, "symbol": f"{symbol}-open", "size": 15},
                hovertemplate="%{text}<br>%{y:.2f} %<extra></extra>",
                **shared,
            )
    axis = {"numbers": "learned numbers per task", "seconds": "seconds of the quickest task"}[name]
    figure.update_layout(xaxis={"type": "log", "title": axis}, yaxis={"title": "average test accuracy (%)"})
    return Card(f"{name}-{groups[0].scenario}", "trade-offs", groups[0].scenario, title, caption, figure)


def _curves(groups: Sequence[Group]) -> Card:
    from plotly import graph_objects as go

    figure = go.Figure()
    for place, group in enumerate(groups[:MOST_CURVES]):
        _, colour, symbol, dash = look(group)
        figure.add_scatter(
            x=list(range(1, len(group.first.tasks) + 1)),
            y=group.per_task,
            text=group.first.tasks,
            mode="lines+markers",
            name=group.label,
            # All are there to be switched on; a dozen at once is what eyes can follow.
            visible=True if place < 12 else "legendonly",
            marker={"color": colour, "symbol": symbol, "size": 5},
            line={"color": colour, "dash": dash, "width": 1.5},
            hovertemplate="%{text}: %{y:.2f} %<extra>%{fullData.name}</extra>",
            meta={"method": group.method},
        )
    figure.update_layout(
        xaxis={"title": "task, in the order they were learned"}, yaxis={"title": "accuracy at the end (%)"}
    )
    return Card(
        f"curves-{groups[0].scenario}",
        "tasks",
        groups[0].scenario,
        "Every task after the last one was learned",
        "One line a run, the mean over its seeds. Lines that fall to the left have forgotten their first tasks.",
        figure,
    )


def _lost(groups: Sequence[Group]) -> Card:
    from plotly import graph_objects as go

    shown = [group for group in reversed(groups) if group.forgetting is not None]
    longest = max(len(group.first.tasks) for group in shown)
    rows = [[*group.lost, *[None] * (longest - len(group.lost))] for group in shown]
    most = max([abs(value) for row in rows for value in row if value is not None] + [1.0])
    figure = go.Figure(
        go.Heatmap(
            z=rows,
            x=list(range(1, longest + 1)),
            y=[_long_label(group) for group in shown],
            meta={"diverging": True},  # the page's own colours, so that nothing lost looks like the page itself
            zmid=0.0,
            zmin=-most,
            zmax=most,
            hovertemplate="%{y}<br>task %{x}: %{z:.2f} points lost<extra></extra>",
            colorbar={"title": {"text": "points lost", "side": "right"}, "thickness": 12},
        )
    )
    figure.update_layout(
        height=max(260, 90 + 24 * len(shown)), xaxis={"title": "task"}, yaxis={"automargin": True, "ticklabelstep": 1}
    )
    return Card(
        f"lost-{groups[0].scenario}",
        "forgetting",
        groups[0].scenario,
        "What was forgotten",
        "Accuracy right after learning a task minus accuracy at the end: plain is nothing lost, red is forgotten.",
        figure,
    )


def _matrix(group: Group, matrix: Sequence[Sequence[float]], tasks: Sequence[str], seed: int) -> Card:
    from plotly import graph_objects as go

    whole = [[*row, *[None] * (len(tasks) - len(row))] for row in matrix]
    figure = go.Figure(
        go.Heatmap(
            z=whole,
            x=list(tasks),
            y=[f"after {name}" for name in tasks],
            colorscale="Viridis",
            zmin=min(50.0, *(value for row in matrix for value in row)),
            zmax=100.0,
            hovertemplate="%{y}<br>%{x}: %{z:.2f} %<extra></extra>",
            colorbar={"title": {"text": "accuracy (%)", "side": "right"}, "thickness": 12},
        )
    )
    figure.update_layout(
        height=max(320, 120 + 14 * len(tasks)),
        yaxis={"autorange": "reversed", "automargin": True},
        xaxis={"automargin": True},
    )
    slug = "".join(c if c.isalnum() else "-" for c in _long_label(group))
    return Card(
        f"matrix-{group.scenario}-{slug}-{seed}",
        "forgetting",
        group.scenario,
        f"Accuracy matrix: {_long_label(group)}, seed {seed}",
        "Each row is measured after one more task was learned; a column that darkens downwards is being forgotten.",
        figure,
    )


def _ablations(groups: Sequence[Group]) -> Card:
    from plotly import graph_objects as go

    looks = {
        "both": ("#0072B2", "", "local and global"),
        "local": ("#E69F00", "/", "local only"),
        "global": ("#009E73", ".", "global only"),
        "pretrained": ("#D55E00", "x", "pretrained on the first task"),
    }
    plain = _by_variant(groups)
    names = sorted({name for name, variant in plain if variant != "both"})
    figure = go.Figure()
    for variant, (colour, pattern, label) in looks.items():
        found = [(name, plain[name, variant]) for name in names if (name, variant) in plain]
        if not found:
            continue
        figure.add_bar(
            x=[name for name, _ in found],
            y=[group.accuracy for _, group in found],
            name=label,
            marker={"color": colour, "pattern": {"shape": pattern}},
            hovertemplate="%{x}, " + label + "<br>%{y:.2f} %<extra></extra>",
            meta={"method": found[0][1].method},
        )
    low = min((group.accuracy for (name, _), group in plain.items() if name in names), default=0.0)
    figure.update_layout(
        barmode="group", yaxis={"title": "average test accuracy (%)", "range": [max(0.0, low - 5), 100]}
    )
    return Card(
        f"ablations-{groups[0].scenario}",
        "ablations",
        groups[0].scenario,
        "What each part contributes",
        "Local modulation (v), global modulation (alpha), both, and shared weights learned on the first task.",
        figure,
    )


def _by_variant(groups: Sequence[Group]) -> dict[tuple[str, str], Group]:
    found: dict[tuple[str, str], Group] = {}
    for group in groups:
        settings = dict(group.first.settings)
        variant = settings.pop("modulation", "both")
        if settings.pop("pretrained", "false").lower() == "true":
            variant = "pretrained"
        rest = "".join(f" {value}" for _, value in sorted(settings.items())) + (
            f", {group.short}" if group.short else ""
        )
        found.setdefault((f"{LOOKS.get(group.method, (group.method,))[0]} {group.first.size}{rest}", variant), group)
    return found
