"""`crwn serve` as a process: its address, its refusals, and its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import crwn
from crwn.learner import Learner
from serving import Array

COMMAND = [sys.executable, "-c", "from crwn.cli import main; main()", "serve"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "CRWN_TOKEN"}


def test_other_hosts_need_a_token(taught: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(taught), "--host", "0.0.0.0"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"error: host 0\.0\.0\.0 can be reached from other machines: give a token .*\n", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_ends_in_order_while_learning(
    taught: Path, tmp_path: Path, digits: tuple[Array, Array], how: signal.Signals
) -> None:
    x, y = digits
    folder = tmp_path / "digits.crwn"
    shutil.copytree(taught, folder)
    process = subprocess.Popen(
        [*COMMAND, str(folder), "--port", "0"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line
        with crwn.Client(found[0]) as client:
            for event in client.learn("long", x, y, batches=200_000):
                if event["step"] > 3:
                    break
            process.send_signal(how)
            assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    with Learner.load(folder) as learner:
        assert learner.tasks == ["mirrored", "upright"]
        assert learner.bank.verify() == []
