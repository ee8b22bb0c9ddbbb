"""The real thing: `crwn run` killed at random moments ends with the numbers of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crwn.experiments.folder import RunFolder
from processes import receive_ctrl_c

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(out: Path, *words: str) -> subprocess.Popen[str]:
    code = "from crwn.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", *words, "--json", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=receive_ctrl_c,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def wait_until_working(process: subprocess.Popen[str]) -> None:
    """Wait for the line that a run prints when it begins."""
    assert process.stderr is not None
    process.stderr.readline()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("rotated-digits", "supsup", "--size", "64", "--tasks", "4", "--batches", "150", "--set", "batch_size=32"),
        ("rotated-digits", "finetune", "--size", "64", "--tasks", "6", "--batches", "150"),
    ],
    ids=["independent", "sequential"],
)
def test_killed_at_random_moments(words: tuple[str, ...], tmp_path: Path) -> None:
    code, out, err = finish(start(tmp_path / "whole", *words))
    assert code == 0, err
    expected = json.loads(out)
    whole = RunFolder(tmp_path / "whole" / "seed-0").result()
    assert whole is not None
    length = whole.seconds_per_task * len(whole.tasks)

    random_moments = random.Random(0)
    killed = 0
    for _ in range(4):
        process = start(tmp_path / "killed", *words)
        wait_until_working(process)
        time.sleep(random_moments.uniform(0, 0.5 * length))
        process.send_signal(signal.SIGKILL)
        finish(process)
        killed += process.returncode == -signal.SIGKILL
    assert killed, "every run ended before it was killed"
    code, out, err = finish(start(tmp_path / "killed", *words))
    assert code == 0, err
    result = json.loads(out)
    for name in expected.keys() - {"seconds_per_task", "run_dirs"}:
        assert result[name] == expected[name], name
    again = RunFolder(tmp_path / "killed" / "seed-0").result()
    assert again is not None
    assert again.deterministic() == whole.deterministic()


@pytest.mark.slow
def test_interrupted_with_one_clean_line(tmp_path: Path) -> None:
    words = ("rotated-digits", "finetune", "--size", "64", "--tasks", "30", "--batches", "200")
    process = start(tmp_path / "run", *words)
    wait_until_working(process)
    assert process.stderr is not None
    process.stderr.readline()  # the first task is learned
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("error: stopped; finished tasks are saved")
    assert "Traceback" not in err
    assert 1 <= len(RunFolder(tmp_path / "run" / "seed-0").lines()) < 30
