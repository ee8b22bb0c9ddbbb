"""The report: every run under a folder as one HTML file that opens anywhere, without network."""

from __future__ import annotations

import base64
import json
import shlex
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from crwn import __version__
from crwn._utils import counted, write_whole
from crwn.errors import ConfigError, MissingExtraError
from crwn.report.agreement import is_close
from crwn.report.records import Group, read_groups

SECTIONS = {
    "trade-offs": "What accuracy costs",
    "tasks": "Task by task",
    "forgetting": "Forgetting",
    "ablations": "Ablations",
}
# Pictures of the atlas, in the order they are read.
PICTURES = {
    "map-effect": "Tasks placed by what their contexts do: similar tasks are close.",
    "inputs": "Where each task moved the context of its inputs.",
    "turned-back": "The same images turned back by their angle and averaged.",
    "by-angle": "Similarity of contexts against the angle between tasks.",
    "similarity": "Similarity of every pair of contexts.",
    "tree": "Which tasks join first.",
    "map-contexts": "Tasks placed by the contexts themselves.",
    "filters": "The frozen filters of the image encoder.",
    "amplified": "The filters that each task amplifies most, as multiples of what it does to the middle one.",
    "gaze": "Pictures, where they have features, and what speaks for (red) or against (blue) each task's prediction.",
    "alpha": "Alpha by layer and task.",
}

# Points below the best accuracy that the smallest task may have: a task that learned nothing does not count.
ABLE = 10.0


def write_page(records_dir: Path, out: Path) -> int:
    """Write the page of all finished runs under `records_dir`, and return how many runs it shows.

    Raises:
        MissingExtraError: plotly or jinja2 is not installed.
        ConfigError: there is no finished run, or a record is damaged.
    """
    try:
        from jinja2 import Environment
        from plotly.offline import get_plotlyjs

        from crwn.report.interactive import cards
    except ModuleNotFoundError:
        raise MissingExtraError("the report page", "report") from None
    groups = read_groups(records_dir)
    if not groups:
        raise ConfigError(f"{records_dir} holds no finished run: make one with `crwn run` or `crwn demo`")
    made = list(cards(groups))
    rows = [_row(group) for group in groups]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_template("page.html"))
    html = template.render(
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        css=_template("page.css"),
        script=_template("page.js"),
        plotly=get_plotlyjs(),
        sections={key: (title, [c for c in made if c.section == key]) for key, title in SECTIONS.items()},
        figures=_in_script({card.name: _plain(card.figure) for card in made}),
        rows=rows,
        filled={name for row in rows for name, value in row.items() if value is not None},
        details=[_detail(group) for group in groups],
        scenarios=sorted({group.scenario for group in groups}),
        methods=sorted({group.method for group in groups}),
        tiles=_tiles(groups),
        atlases=_atlases(records_dir),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, html.encode())
    return sum(len(group.runs) for group in groups)


def _row(group: Group) -> dict[str, Any]:
    first = group.first
    return {
        "label": group.label,
        "method": group.method,
        "scenario": group.scenario,
        "tasks": len(first.tasks),
        "short": group.short,
        "accuracy": group.accuracy,
        "spread": group.spread,
        "paper": group.paper.accuracy if group.paper else None,
        "difference": group.difference,
        "forgetting": group.forgetting,
        "params": first.params_per_task,
        "amortised": first.params_per_task_amortised,
        "bytes": first.bytes_per_task,
        "seconds": group.seconds,
        "seeds": len(group.runs),
    }


def _detail(group: Group) -> dict[str, Any]:
    record = group.runs[0].record
    machine, versions = record.get("machine", {}), record.get("versions", {})
    recipe = {key: value for key, value in record["chosen"].get("recipe", {}).items() if value is not None}
    first = group.first
    facts = {
        "tasks": f"{len(first.tasks)}: {first.tasks[0]} to {first.tasks[-1]}",
        "recipe": ", ".join(f"{key} {value}" for key, value in recipe.items()),
        "learned per task": f"{first.params_per_task:,} parameters, {first.bytes_per_task:,} bytes",
        "counted": first.count_note,
        "learned together": f"{counted(record['chosen'].get('stack_size', 1), 'task')} at a time",
        "seconds per task": f"{first.setup_seconds:.2f} set-up, {first.training_seconds:.2f} training, "
        f"{first.evaluation_seconds:.2f} evaluation",
        "peak memory": f"{first.peak_memory_bytes / 2**20:,.0f} MB",
        "machine": ", ".join(f"{key} {value}" for key, value in machine.items()),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items()),
        "finished": first.finished,
    }
    if first.class_incremental is not None:
        found = first.class_incremental
        facts["task inferred"] = (
            f"from {found['group']:.0f} rows: task {found['task_accuracy']:.2f} %, class {found['accuracy']:.2f} %"
        )
    commands = [
        (run.result.seed, run.record.get("command", shlex.join(["crwn", "run", group.scenario, group.method])))
        for run in group.runs
    ]
    return {
        "label": group.label,
        "method": group.method,
        "scenario": group.scenario,
        "accuracy": group.accuracy,
        "short": group.short,
        "facts": {key: value for key, value in facts.items() if value},
        "commands": commands,
    }


def _tiles(groups: list[Group]) -> list[tuple[str, str, str]]:
    """Return headlines: a value, what it is, and of which run."""
    whole = [group for group in groups if not group.short] or groups  # an average over few tasks means little
    best = max(whole, key=lambda group: group.accuracy)
    independent = [group for group in whole if group.method in ("neuromodnet", "flynet")]
    runs = sum(len(group.runs) for group in groups)
    tiles = [
        (f"{runs:,}", "run" if runs == 1 else "runs", counted(len({group.scenario for group in groups}), "scenario")),
        (f"{best.accuracy:.2f}%", "best average accuracy", f"{best.label}, {best.scenario}"),
    ]
    if independent:
        ours = max(independent, key=lambda group: group.accuracy)
        able = [group for group in independent if group.accuracy > ours.accuracy - ABLE]
        small = min(able, key=lambda group: group.first.bytes_per_task)
        if ours is not best:
            tiles.append((f"{ours.accuracy:.2f}%", "best with frozen weights", f"{ours.label}, {ours.scenario}"))
        small_label = f"{small.label}, {small.accuracy:.1f}%"
        tiles.append((f"{small.first.bytes_per_task / 1000:,.1f} kB", "smallest task", small_label))
    compared = [group.difference for group in groups if group.difference is not None]
    if compared:
        close = sum(map(is_close, compared))
        tiles.append((f"{close} of {len(compared)}", "match the paper", "within 0.5 points, above or below"))
    return tiles


def _atlases(base: Path) -> list[dict[str, Any]]:
    """Return the atlases under the folder (`crwn atlas` writes them), with their pictures as base64."""
    found = []
    for path in sorted(base.rglob("atlas.json"))[:4]:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            source, rings, tests = record["source"], record["rings"], record["tests"]
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path} is not an atlas: make it again with `crwn atlas`") from None
        pictures = [
            (name, caption, base64.b64encode((path.parent / f"{name}.png").read_bytes()).decode())
            for name, caption in PICTURES.items()
            if (path.parent / f"{name}.png").exists()
        ]
        findings = [
            f"{test['structure']}, {test['measure']}: correlation {test['correlation']:+.2f}, p = {test['p_value']:.4f}"
            for test in tests
            if test["layer"] == "all"
        ]
        findings += [f"ring on the map of {name}: {value:.2f}" for name, value in rings.items()]
        found.append({"source": source, "tasks": record["tasks"], "findings": findings, "pictures": pictures})
    return found


def _plain(figure: Any) -> dict[str, Any]:
    """Return a figure as data, without plotly's own template: the page has the colours."""
    spec: dict[str, Any] = figure.to_plotly_json()
    spec["layout"].pop("template", None)
    return spec


def _in_script(data: object) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":"), default=list).replace("<", "\\u003c")


def _template(name: str) -> str:
    return files("crwn.report").joinpath("templates", name).read_text(encoding="utf-8")
