"""The standing attack in its short form: nothing breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).resolve().parents[2] / "benchmarks" / "attack.py"


@pytest.mark.slow
def test_nothing_breaks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ATTACK), "--quick"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout, done.stderr
    record = json.loads(done.stdout)
    broken = {name: one for name, one in record["outcomes"].items() if one["broken"]}
    assert (broken, record["answers_500"], record["damaged_contexts"]) == ({}, 0, []), done.stderr[-2000:]
    assert record["service_alive"]
    assert record["named_predictions_failed"] == 0
    assert set(record["skipped"]) <= {"postgres", "postgres_hangs", "readers_without_rights"}, (
        "only PostgreSQL and root may be missing"
    )
    assert record["kinds"] >= 51
