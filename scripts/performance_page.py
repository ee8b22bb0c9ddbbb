"""Write docs/performance.md and its plots from the records under results/bench.

python scripts/performance_page.py [RECORDS [PAGE]]
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from crwn._utils import write_whole
from crwn.bench.record import BENCHMARKS, place, recorded
from crwn.report.style import COLOURS, method_label, saved
from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
TITLES = {
    "training": "Learning a task",
    "convolution": "Learning images",
    "mixed": "A batch of many tasks",
    "scaling": "How time grows",
    "memory": "Memory",
    "serve": "The service",
    "images": "FlyNet on images, and bfloat16",
    "exact": "Contexts in closed form",
    "adapters": "Contexts on a backbone",
    "adapter_speeds": "Batches of many tasks on a backbone",
}
WORDS = {
    "adapters": (
        "Accuracies are percentages on Split-CIFAR100 with features of EfficientNet-Lite0 at 96 pixels; "
        "PEFT's adapters are on the last layer of the backbone, with a linear classifier for every task. The ratios "
        "`_vs_` of this record are of two threads on a busy machine, and of 256 adapters of PEFT's beside 10,000 "
        "contexts; the next section measures them with one thread and as many adapters."
    ),
    "adapter_speeds": (
        "Processor time of one thread. Every row of a batch belongs to another task where there are enough; PEFT's "
        "models hold as many adapters on the last layer, each with a linear classifier, as contexts are resident on "
        "our side. LoRA computes a mixed batch in one pass (`adapter_names`), IA3 and VeRA are switched for each task "
        "of the batch."
    ),
    "training": (
        "The paper-style implementation is written for this comparison from the paper's text: fully connected layers "
        "as 1x1 convolutions whose modulated kernels are built in every forward pass, autograd through the kernel, "
        "every image rotated by Pillow in a DataLoader (with the number of workers, 0 or 2, that is faster here), one "
        "task at a time. Ours learns as many tasks at once as a rule of sizes allows, in one process with all cores or "
        "in one process for each core, whichever is faster here; `_bf16` is ours with `precision=bf16` beside the same "
        "float32 measurement of the other side. Both are measured on the batches stated and "
        "extrapolated to the paper's 1,000 and one evaluation; the start of workers and the first batches count for "
        "neither. `roofline` figures are the share of the speed of its matrix products alone that a training step "
        "reaches, everything else in the step included; `_passes` leaves data and optimizer out."
    ),
    "convolution": (
        "One step of Adam on 128 images of 32 x 32 through the reduced ResNet-18 (10 channels in the first stage). The "
        "dense network is the same one with ordinary convolutions, all of whose weights are trained. A value of 0.95 "
        "against it means that a step of NeuroModNet costs 1.05 of its step. The methods of the paper are those of "
        "this package, which scale or mask the kernel, not the images: the paper's BatchE took longer."
    ),
    "mixed": (
        "Every row of a batch belongs to another task. Our side starts from the tasks' names: look them up, gather "
        "their contexts from the resident stack, one pass. The plain network is the frozen weights without any "
        "modulation, the least that any method has to do."
    ),
    "scaling": (
        "The slope of log time over log size, fitted round by round: 1 is growth in proportion, 0 is none. Sizes that "
        "belong together are measured in turns; the plots show times as multiples of the first."
    ),
    "memory": "Bytes of a context are those of its file, names, classes and checksum included.",
    "serve": (
        "Requests over HTTP from a process on the same cores, a row each. The ceiling is the same service with the "
        "model taken out. The record has requests a second and waiting times, which depend on what else the machine "
        "does: its load before measuring is in the record too. The page about serving shows them."
    ),
    "images": (
        "Seconds of FlyNet are those of whole tasks: the features of all images of a task and their mirror images, "
        "then its decoder, until the mean over the tasks has the accuracy that the paper prints for the other method. "
        "Seconds of NeuroModNet 1d and STL are 250 epochs of the measured step. `encoder_roofline` is the share that "
        "the encoder reaches of the speed of its products alone."
    ),
    "exact": (
        "FlyNet 10d on one rotation of MNIST: seconds of the process for the paper's 1,000 batches, divided by those "
        "for the closed form of all 60,000 rows. Below 1 the closed form takes longer: it adds the products of all "
        "pairs of features. What it is for is on the page about contexts in closed form."
    ),
}
AXES = {
    "tasks": "stacked tasks",
    "width_gaussian": "width, dense",
    "width_hadamard": "width, Hadamard",
    "rows": "rows",
    "resident": "resident tasks",
}


def write_page(records: Path, page: Path) -> None:
    """Write the page and its pictures, every figure from a record."""
    parts = [
        "# Performance",
        "This page is made from the records under `results/bench` by `python scripts/performance_page.py`; "
        "do not edit it. Every figure is a ratio of two things measured in turns in one run, so that other load slows "
        "both: the median over the rounds, with the smallest and largest. Where several machines have a record "
        "(`training.json`, `training-MACHINE.json`), the median is that of the machine where it is lowest and the "
        "spread that of all machines. Larger is better for crwn, except for exponents. `crwn bench` prints these "
        "records beside what it measures.",
    ]
    for name in BENCHMARKS:
        machines = recorded(records, name)
        if machines:
            record = machines[0]
            parts += [f"## {TITLES[name]}", WORDS[name], _figures(machines), *map(_made_by, machines)]
            parts += [f"Note: {note}." for note in record["notes"]]
            if name == "scaling":
                parts.append(_plots(record, page.parent / "images"))
    profile = _read(records / "profile.json")
    if profile is not None:
        parts += ["## Where the time goes", *_profile(profile), _made_by(profile)]
    searched = records / "recipe_search.jsonl"
    if searched.exists():
        parts += ["## The search for a better recipe", *_search(searched)]
    if (baselines := records / "baseline_search.jsonl").exists():
        parts += ["### The same search for the baselines", *_baseline_search(baselines)]
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, ("\n\n".join(part for part in parts if part) + "\n").encode())


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _figures(machines: list[dict[str, Any]]) -> str:
    """Return every figure of the machine where its median is lowest; the spread is that of all machines."""
    rows = []
    for name in dict.fromkeys(name for record in machines for name in record["details"]):
        found = [record["details"][name] for record in machines if name in record["details"]]
        detail = min(found, key=lambda one: float(one["value"]))
        low, high = min(one["spread"][0] for one in found), max(one["spread"][1] for one in found)
        rows.append(
            [f"`{name}`", _short(detail["value"]), f"{_short(low)} – {_short(high)}", detail["what"], _of(detail)]
        )
    return aligned(["figure", "median", "spread", "what", "made from"], rows)


def _of(detail: dict[str, Any]) -> str:
    """Return what a figure was made from, in words."""
    parts = []
    for unit in ("seconds", "bytes"):
        if f"{unit}_theirs" in detail:
            theirs, ours = detail[f"{unit}_theirs"], detail[f"{unit}_ours"]
            if unit == "seconds":
                parts.append(f"{_seconds(theirs)} / {_seconds(ours)}")
            else:
                parts.append(f"{theirs:,} / {ours:,} bytes")
    if "stack" in detail:
        parts.append(f"stack of {detail['stack']}")
    if "batches_measured" in detail:
        counts = detail["batches_measured"]
        some = counts.items() if isinstance(counts, dict) else [("", counts)]
        parts.append("batches measured: " + ", ".join(f"{who} {count}".strip() for who, count in some))
    if "workers" in detail:
        parts.append(f"theirs with {detail['workers']}")
    if "ours" in detail:
        parts.append(f"ours in {detail['ours']}")
    if "peak_gigaflops" in detail:
        parts.append(f"products alone at {detail['peak_gigaflops']:.0f} Gflop/s")
    if "rows_a_second" in detail:
        parts.append(f"{detail['rows_a_second']:,.0f} rows/s")
    if "sizes" in detail:
        parts.append("sizes " + ", ".join(f"{size:,}" for size in detail["sizes"]))
    return "; ".join(parts)


def _made_by(record: dict[str, Any]) -> str:
    return (
        f"Made by `{record['command']}` on {record['created'][:10]}: {place(record)}; "
        f"torch {record['versions']['torch']}, seed {record['seed']}."
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 0.1 else f"{1000 * value:.3g} ms"


def _plots(record: dict[str, Any], folder: Path) -> str:
    details = {name.partition(".")[2]: detail for name, detail in record["details"].items()}
    files = saved(folder / "scaling", (10.0, 3.6), partial(_paint, details=details))
    words = "Time as a multiple of the first size, against the size, both logarithmic; the dashed line is proportion."
    return f"![{words}](images/{files[0].name})\n\n{words}" if files else ""


def _paint(figure: Any, details: dict[str, Any]) -> bool:
    """Draw training on the left, mixed prediction on the right."""
    panels = figure.subplots(1, 2)
    for axes, names, title in (
        (panels[0], ("tasks", "width_gaussian", "width_hadamard"), "time of a training step"),
        (panels[1], ("rows", "resident"), "time of a mixed prediction"),
    ):
        longest = 1.0
        for name, colour, marker in zip(names, ("blue", "vermillion", "green"), "osD", strict=False):
            detail = details[name]
            times = [size / detail["sizes"][0] for size in detail["sizes"]]
            longest = max(longest, *times)
            label = f"{AXES[name]} from {detail['sizes'][0]}: exponent {detail['value']:.2f}"
            axes.plot(times, detail["times_the_first"], color=COLOURS[colour], marker=marker, markersize=4, label=label)
        axes.plot([1, longest], [1, longest], color="#555555", linestyle="--", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("size as a multiple of the first")
        axes.set_ylabel("time as a multiple of the first")
        axes.set_title(title)
        axes.legend(fontsize=8)
    return True


def _profile(record: dict[str, Any]) -> list[str]:
    """Return a table of shares, and a sentence on what limits each loop."""
    loops: dict[str, dict[str, Any]] = record["profile"]
    parts = list(next(iter(loops.values()))["shares"])
    rows = [
        [name, str(one["stack"]), *(f"{100 * one['shares'][part]:.0f}%" for part in parts)]
        for name, one in loops.items()
    ]
    table = aligned(["loop", "stack", *parts], rows)
    sentences = []
    for name, one in loops.items():
        part, share = max(one["shares"].items(), key=lambda pair: float(pair[1]))
        first = ", ".join(f"`{operator}` {100 * value:.0f}%" for operator, value in list(one["longest"].items())[:4])
        sentences.append(f"- {name}: {part} are the limit ({100 * share:.0f}% of the time). Longest: {first}.")
    words = "Shares of the time inside operators during training steps, as torch's profiler counts it."
    return [words, table, "\n".join(sentences)]


def _search(path: Path) -> list[str]:
    """Return the best candidates at every size, from the search's record."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    rows = []
    for params in sorted({line["numbers"] for line in lines}):
        some = sorted((one for one in lines if one["numbers"] == params), key=lambda one: -float(one["accuracy"]))
        base = next((one for one in some if not one["changed"]), None)
        shown = some[:3] + ([base] if base is not None and base not in some[:3] else [])
        for one in shown:
            changed = ", ".join(f"{key} {value}" for key, value in one["changed"].items()) or "nothing: the start"
            rows.append([f"{one['learned']:,}", f"{one['accuracy']:.2f}", f"{one['seconds']:.1f}", changed])
    words = (
        f"{len(lines)} candidates on Rotation-MNIST tasks 0-2, 1,000 batches of 128, evaluated on 10,000 held-out "
        "training images; the test set was not read. The best three of each size, and the start of the search."
    )
    head = ["parameters per task", "accuracy", "seconds a task", "changed against Hadamard, ReLU, RMSprop 0.02 cosine"]
    return [words, aligned(head, rows), "Made by `python benchmarks/recipe_search.py`."]


def _baseline_search(path: Path) -> list[str]:
    """Return every candidate of the baselines' search, the best first, from its record."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = []
    for method in dict.fromkeys(line["method"] for line in lines):
        for line in sorted((one for one in lines if one["method"] == method), key=lambda one: -float(one["accuracy"])):
            chosen = ", ".join(f"{key} {value}" for key, value in sorted(line["settings"].items()))
            rows.append([method_label(method), f"{line['accuracy']:.2f}", chosen or "the paper's recipe"])
    words = (
        "At most nine candidates for each, as many as the search above has lines, on the same tasks and the same "
        "held-out images; FC256 and FlyNet 10d. The best one is the preset `recipe=best` of its method. What was "
        "searched differs: only the recipe here, the structure of the frozen network too for NeuroModNet."
    )
    return [
        words,
        aligned(["method", "accuracy", "candidate"], rows),
        "Made by `python benchmarks/baseline_search.py`.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="?", default=ROOT / "results" / "bench", help="folder of records")
    parser.add_argument("page", type=Path, nargs="?", default=ROOT / "docs" / "performance.md", help="page to write")
    given = parser.parse_args()
    write_page(given.records, given.page)
    print(f"wrote {given.page.name}")


if __name__ == "__main__":
    main()
