"""Fill the tables of docs/serving.md from the records under results/bench.

python scripts/serving_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fill_page import fill

from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "results" / "bench"
PAGE = ROOT / "docs" / "serving.md"
GROUPS = ("1", "4", "16", "64")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BENCH / name).read_text())
    return found


def bank() -> str:
    """Return the table of a bank of a million contexts."""
    found = read("bank_million.json")
    rows = [
        ("contexts of NeuroModNet-FC256", f"{found['tasks']:,}"),
        ("on disk", f"{found['bytes'] / 1e9:.2f} GB, {found['bytes_per_task']:,} bytes a task"),
        ("written with `put_many`", f"{found['put_many_per_second']:,} a second"),
        ("one durable `put`", f"{found['put_ms']:.1f} ms"),
        ("open and count", f"{found['open_and_count_ms']:.1f} ms"),
        (
            "`get` of a random task",
            f"{found['get_p50_ms'] * 1000:.0f} us (p50), {found['get_p99_ms'] * 1000:.0f} us (p99)",
        ),
        ("a page of 100 entries from the middle", f"{found['page_of_100_ms']:.1f} ms"),
        ("256 tasks taken from the bank", f"{found['batch_of_256_tasks_first_ms']:.1f} ms"),
        ("the same when resident", f"{found['batch_of_256_tasks_resident_ms']:.2f} ms"),
        ("256 rows of 256 resident tasks predicted", f"{found['predict_256_rows_of_256_tasks_ms']:.1f} ms"),
        ("`crwn serve` to the first `/healthz`", f"{found['serve_healthz_seconds']:.1f} s"),
        (
            "`sqlite3` alone: one task, each of 256",
            f"{found['raw_get_us']:.0f} us, {found['raw_get_many_us_per_task']:.0f} us",
        ),
        (
            "share of `sqlite3` alone on the same rows",
            f"`get` {found['get_of_raw']:.2f}, `get_many` {found['get_many_of_raw']:.2f}, "
            f"`put_many` {found['put_many_of_raw']:.2f}",
        ),
    ]
    words = f"The load of the machine was {found['load']:.1f} when the bank was filled and read."
    return aligned(["a bank of a million (SQLite)", ""], rows) + f"\n\n{words}\n\n`{found['command']}`"


def harm() -> str:
    """Return the table of kills, damaged files and generated requests."""
    kills, damages = read("bank_kills.json"), read("damages.json")
    learning, outcomes = kills["while_learning"], damages["outcomes"]
    rows = [
        (
            f"{kills['kills']} kills (SIGKILL) of a process that writes",
            f"{kills['acknowledged']:,} acknowledged changes: {len(kills['lost'])} lost, "
            f"{len(kills['damaged'])} damaged",
        ),
        (
            f"{learning['kills']} kills of a process that learns",
            f"{learning['learned']} learned tasks: {len(learning['wrong'])} gone or damaged",
        ),
        (
            f"{damages['damages']:,} random damages of model folders and context files",
            f"{outcomes.get('refused', 0):,} refused in one line, "
            f"{outcomes.get('unharmed', 0)} without effect, "
            f"{outcomes.get('wrong', 0)} wrong predictions, {outcomes.get('traceback', 0)} tracebacks",
        ),
    ]
    if (BENCH / "requests.json").exists():
        requests = read("requests.json")
        rows.append(
            (
                f"{requests['requests']:,} generated requests to every endpoint",
                f"{requests['answers_500']} responses with status 500, no traceback, the bank intact afterwards",
            )
        )
    return aligned(["test", "outcome"], rows)


def store() -> str:
    """Return the table of accuracy and bytes by how contexts are stored."""
    rows = []
    for run in read("store_accuracy.json")["runs"]:
        for kind in ("float32", "float16", "int8"):
            one = run[kind]
            rows.append((f"`{run['run']}`", kind, f"{one['accuracy']:.2f}", f"{one['bytes']:,}"))
    return aligned(["run", "stored as", "mean accuracy", "bytes of a context"], rows)


def inference() -> str:
    """Return the tables of task inference: how often it is right, and how long it takes."""
    tables = []
    for name in ("inference_permuted.json", "inference_rotated.json"):
        if not (BENCH / name).exists():
            continue
        found = read(name)
        right = found["right_percent"]
        ways = ("exhaustive", "auto", "sketch", "one-shot")
        rows: list[tuple[str, ...]] = [(way, *(f"{right[group][way]:.1f}" for group in GROUPS)) for way in ways]
        supsup = found.get("supsup_right_percent")
        if supsup:
            for way in ("one-shot", "binary"):
                label = f"SupSup FC{supsup['size']}, {way}"
                rows.append((label, *(f"{supsup[group][way]:.1f}" for group in GROUPS)))
        rejected = found["none_said_of_strangers_percent"]
        if rejected:
            key = "none said of learned tasks"
            rows.append(("`none_of_these`, unlearned tasks", *(f"{rejected[g]:.1f}" for g in GROUPS)))
            rows.append(("`none_of_these`, learned tasks", *(f"{right[g][key]:.1f}" for g in GROUPS)))
        head = f"{found['scenario']}, {found['tasks']} tasks, FC{found['size']}: percent right"
        tables.append(aligned([head, *(f"groups of {group}" for group in GROUPS)], rows))
        times = found["milliseconds"]
        costs = [(way, *(f"{times[count][way]:,.1f} ms" for count in times)) for way in ways]
        tables.append(aligned(["one group of 16", *(f"{int(count):,} tasks" for count in times)], costs))
        tables.append(f"`{found['command']}`")
    return "\n\n".join(tables)


def load() -> str:
    """Return the tables of requests a second against connections, with and without the model."""
    found = read("serve.json")
    rows, words = [], []
    for name, one in found["details"].items():
        if name.startswith("serve.bank_"):
            continue
        size = name.removeprefix("serve.fc").partition("_")[0]
        if name.endswith("_rows_per_second"):
            words.append(f"FC{size}: {one['value']:,.0f} rows a second in raw bodies of 256 rows of mixed tasks.")
            continue
        rows.append(
            (
                f"FC{size}, {one['body']}",
                f"{one['connections']}",
                f"{one['requests_per_second']:,.0f}",
                f"{one['ceiling_requests_per_second']:,.0f}",
                f"{one['value']:.2f}",
                f"{one['p50_ms']:.1f}",
                f"{one['p99_ms']:.1f}",
                f"{one['rows_per_pass']:.1f}",
            )
        )
    head = [
        "model, body",
        "connections",
        "requests a second",
        "without the model",
        "share",
        "p50, ms",
        "p99, ms",
        "rows a pass",
    ]
    words.append(
        f"Measured with {found['machine']['cores']} cores shared with the load generator; the load of the machine "
        f"before was {found['machine']['load'][0]:.1f}. Requests a second and waiting times are those of the fastest "
        "of the rounds, shares medians over rounds in turns."
    )
    return aligned(head, rows) + "\n\n" + " ".join(words) + f"\n\n`{found['command']}`"


def attacks() -> str:
    """Return the table of the standing attack."""
    found = read("attack.json")
    rows = []
    for name, one in found["outcomes"].items():
        waits = one.get("named_predictions")
        shown = "" if waits is None else f"{waits['p99_ms']:,.0f}"
        rows.append((name.replace("_", " "), f"{one['tries']:,}", f"{one['broken']}", shown))
    head = ["attack", "tries", "broken", "p99 of named predictions meanwhile, ms"]
    words = (
        f"{found['tries']:,} tries of {found['kinds']} kinds: {found['broken']} broken, {found['answers_500']} answers "
        f"with status 500, {found['named_predictions_failed']} named predictions failed."
    )
    loads = [one["load"] for one in found["outcomes"].values() if "load" in one]
    words += f" The load of the machine was {min(loads):.0f} to {max(loads):.0f}." if loads else ""
    shared = found["outcomes"].get("postgres", {}).get("measured")
    if shared:
        seen, forgot = shared["slowest_seen_seconds"], shared["slowest_forgotten_seconds"]
        words += (
            " Two services on one PostgreSQL: what one stored, the other predicted with and inferred after "
            f"{seen:.2f} s at most, and forgot after {forgot:.2f} s."
        )
    commands = [*found.get("commands_before", []), found["command"]]
    return aligned(head, rows) + f"\n\n{words}\n\n" + ", then ".join(f"`{one}`" for one in commands)


def parts() -> dict[str, str]:
    """Return the generated parts of the page, by the name of their place."""
    return {
        "bank": bank(),
        "harm": harm(),
        "store": store(),
        "inference": inference(),
        "load": load(),
        "attacks": attacks(),
    }


def main() -> None:
    PAGE.write_text(fill(PAGE.read_text(), parts()))
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
