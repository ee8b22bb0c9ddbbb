"""A standing attack on the service, its bank, PostgreSQL and a run, on loopback only: what was tried and what held.

    python benchmarks/attack.py --json results/bench/attack.json      # about 15 minutes
    python benchmarks/attack.py --quick                               # about two
    python benchmarks/attack.py --json FILE --add --only KIND...      # some kinds anew, in the same record

Every kind is bounded in count and time. While a kind over HTTP runs, a client predicts with a named task and its
waiting times are recorded. A try is broken when it is answered with 500, with a status that the kind does not allow,
or wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attacks_bodies
import attacks_doors
import attacks_files
import attacks_http
import attacks_poison
import attacks_postgres
import attacks_storage
import numpy as np
from attack_target import FEATURES, Outcome, Probe, Target, serving
from write_record import write_record

from crwn import Learner, NeuroModNet
from crwn.contexts import Context

ROW = [0.5] * FEATURES
# A kind over HTTP is repeated until so many named predictions were measured meanwhile, or so many seconds are over.
SAMPLES, SECONDS = 100, 20.0
BEFORE = 2.0  # seconds in which nothing attacks


def make_model(folder: Path, tasks: int) -> object:
    """A model with two learned tasks and many copies without sketches; returns the label of `ROW` in the first."""
    draw = np.random.default_rng(0)
    x = draw.random((200, FEATURES)).astype(np.float32)
    with Learner(NeuroModNet(FEATURES, (256, 256), 10, seed=0), bank=folder) as learner:
        for name in ("first", "second"):
            learner.learn(name, x, draw.integers(0, 10, 200), batches=100, progress=False)
        one = learner.context("first")
        learner.bank.put_many(
            Context(f"many {i:06}", one.tensors, one.classes, one.model, info={}) for i in range(tasks)
        )
        return learner.predict(np.array([ROW], np.float32), "first").tolist()[0]


def attack_http(target: Target, wanted: object, share: float, only: list[str]) -> dict[str, Any]:
    """Every kind over HTTP, with the named predictions before and meanwhile and the growth of the log."""
    found: dict[str, Any] = {}
    for attack in (*attacks_http.ATTACKS, *attacks_bodies.ATTACKS, *attacks_poison.ATTACKS):
        if only and attack.__name__ not in only:
            continue
        with Probe(target.port, "first", ROW, wanted) as before:
            time.sleep(BEFORE * share)
        out, size = Outcome(), target.log.stat().st_size
        began = time.perf_counter()
        with Probe(target.port, "first", ROW, wanted) as probe:
            try:
                while True:
                    attack(target, out, share)
                    if len(probe.seconds) >= SAMPLES * share or time.perf_counter() - began >= SECONDS:
                        break
            except Exception as error:  # the attacker could not go on: the service's fault until shown otherwise
                out.check(False, f"{type(error).__name__}: {error}"[:200])
        found[attack.__name__] = out.record() | {
            "seconds": round(time.perf_counter() - began, 1),
            "log_bytes": target.log.stat().st_size - size,
            "named_predictions": probe.record() | {"p99_ms_before": before.record()["p99_ms"]},
            "load": round(os.getloadavg()[0], 1),
        }
        _report(attack.__name__, found[attack.__name__])
    return found


def attack_storage(model: Path, share: float, only: list[str]) -> dict[str, Any]:
    """Every kind against what is stored."""
    found: dict[str, Any] = {}
    for attack in (*attacks_storage.ATTACKS, *attacks_files.ATTACKS, *attacks_doors.ATTACKS, *attacks_postgres.ATTACKS):
        if only and attack.__name__ not in only:
            continue
        out, began = Outcome(), time.perf_counter()
        try:
            attack(model, out, share)
        except Exception as error:
            out.check(False, f"{type(error).__name__}: {error}"[:200])
        found[attack.__name__] = out.record() | {
            "seconds": round(time.perf_counter() - began, 1),
            "load": round(os.getloadavg()[0], 1),
        }
        _report(attack.__name__, found[attack.__name__])
    return found


def _report(name: str, outcome: dict[str, Any]) -> None:
    print(f"{name}: {json.dumps(outcome)}", file=sys.stderr, flush=True)


def totals(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the record says in one line."""
    waits = {name: one["named_predictions"]["p99_ms"] for name, one in kinds.items() if "named_predictions" in one}
    return {
        "kinds": len(kinds),
        "tries": sum(one["tries"] for one in kinds.values()),
        "broken": sum(one["broken"] for one in kinds.values()),
        "answers_500": sum(one["answers"].get("500", 0) for one in kinds.values()),
        "skipped": [name for name, one in kinds.items() if not one["tries"]],
        "named_predictions_failed": sum(
            sum(one["named_predictions"]["failed"].values()) for one in kinds.values() if "named_predictions" in one
        ),
        "worst_p99_ms": max(waits.values(), default=0.0),
        "p99_over_1_s": [name for name, wait in waits.items() if wait >= 1000.0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tries, in about two minutes")
    parser.add_argument("--tasks", type=int, help="in the bank; 20,000 by default, 2,000 with --quick")
    parser.add_argument("--only", nargs="+", default=[], help="only these kinds")
    parser.add_argument("--json", type=Path, nargs="?", const=Path("attack.json"), help="write the record here")
    parser.add_argument("--add", action="store_true", help="keep the other kinds that the record of --json has")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the service that is attacked ends too
    # A shell lets its background processes ignore SIGINT, which those that are attacked would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = json.loads(given.json.read_text()) if given.add and given.json and given.json.exists() else {}
    share = 0.1 if given.quick else 1.0
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "attacked.crwn"
        wanted = make_model(model, given.tasks or (2000 if given.quick else 20_000))
        with serving(model, Path(folder) / "log") as target:
            kinds = attack_http(target, wanted, share, given.only)
            alive = target.process.poll() is None
        kinds |= attack_storage(model, share, given.only)
        with Learner.load(model) as learner:
            damaged = learner.bank.verify()[:5]
    commands = []
    if before:
        commands = [*before.get("commands_before", []), before["command"]]
        kinds = before["outcomes"] | kinds
        alive, damaged = alive and before["service_alive"], damaged + before["damaged_contexts"]
    summary = totals(kinds) | {"service_alive": alive, "damaged_contexts": damaged}
    write_record({"quick": given.quick, **summary, "outcomes": kinds, "commands_before": commands}, given.json)
    sys.exit(1 if summary["broken"] or not alive or damaged else 0)


if __name__ == "__main__":
    main()
