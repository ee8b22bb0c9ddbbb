"""The defects that an outsider's attack found, tried on one version of the code: which of them it has.

    python benchmarks/defects.py --json results/bench/defects.json                     # this version
    PYTHONPATH=OLD/src python benchmarks/defects.py --json results/bench/defects_before.json   # one in another folder

`scripts/hardness_page.py` makes `results/bench/hardness.md` of the two records, with the test that guards each defect.
The checks use what both versions have: commands, HTTP, `Learner`, and a few modules that were not renamed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import defects_doors
import defects_served
import defects_started
import defects_stored
import numpy as np
from attack_target import FEATURES, serving
from write_record import write_record

from crwn import Context, Learner, NeuroModNet

LONGEST = 300  # seconds for one check


def make_model(folder: Path, copies: int) -> Path:
    """A model with two learned tasks and many copies without sketches."""
    draw = np.random.default_rng(0)
    x = draw.random((200, FEATURES)).astype(np.float32)
    with Learner(NeuroModNet(FEATURES, (256, 256), 10, seed=0), bank=folder) as learner:
        for name in ("first", "second"):
            learner.learn(name, x, draw.integers(0, 10, 200), batches=20, progress=False)
        one = learner.context("first")
        learner.bank.put_many(
            Context(f"many {i:06}", one.tensors, one.classes, one.model, info={}) for i in range(copies)
        )
    return folder


def try_it(check: Callable[[Any], str], given: object) -> dict[str, Any]:
    def too_long(*_: object) -> None:
        raise TimeoutError(f"no end within {LONGEST} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST)
    began = time.monotonic()
    try:
        wrong = check(given)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.alarm(0)
    found = {"held": not wrong, "what": wrong, "seconds": round(time.monotonic() - began, 1)}
    print(check.__name__, found, file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="only these checks")
    parser.add_argument("--tasks", type=int, default=20_000, help="in the bank of the service")
    parser.add_argument("--json", type=Path, help="write the record here")
    parser.add_argument("--add", action="store_true", help="keep the other checks that the record of --json has")
    given = parser.parse_args()
    kept = given.add and given.json and given.json.exists()
    earlier: dict[str, Any] = json.loads(given.json.read_text()) if kept else {}
    found: dict[str, Any] = earlier.get("outcomes", {})
    note = {"note": earlier["note"]} if "note" in earlier else {}

    def chosen(checks: tuple[Callable[[Any], str], ...]) -> list[Callable[[Any], str]]:
        return [check for check in checks if not given.only or check.__name__ in given.only]

    def keep(check: Callable[[Any], str], given_to: object) -> None:
        found[check.__name__] = try_it(check, given_to)
        if given.json:  # after every check: a run that is stopped loses none
            held = sum(one["held"] for one in found.values())
            with contextlib.redirect_stdout(io.StringIO()):
                write_record({**note, "checks": len(found), "held": held, "outcomes": found}, given.json)

    for stored in chosen((*defects_stored.STORED, *defects_doors.DOORS)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            keep(stored, Path(place))
    for own in chosen(defects_started.STARTED):
        with tempfile.TemporaryDirectory() as place:
            keep(own, make_model(Path(place) / "small.crwn", 0))
    if served := chosen(defects_served.SERVED):
        with tempfile.TemporaryDirectory() as place:
            model = make_model(Path(place) / "large.crwn", given.tasks)
            with serving(model, Path(place) / "log") as target:
                for check in served:
                    keep(check, target)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
