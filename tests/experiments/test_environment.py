"""What is written down about the machine."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from crwn._utils import cores
from crwn.experiments import environment
from crwn.experiments.environment import instruction_set, machine, peak_memory, usual_threads, versions


def test_peak_memory_is_the_process_s_own() -> None:
    large = np.ones(40 * 2**20, dtype=np.float64)  # 320 MB, held here while the other is started
    program = "from crwn.experiments.environment import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 10**6 < int(done.stdout) < large.nbytes < peak_memory()


@pytest.mark.parametrize(("value", "threads"), [("3", 3), ("0", None), ("many", None), ("", None)])
def test_threads_come_from_the_environment_or_the_cores(
    value: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert usual_threads() == (cores() if threads is None else threads)


def test_a_machine_is_described() -> None:
    found = machine(2)
    assert found["threads"] == 2
    assert found["cores"] == os.cpu_count()
    assert found["processor"]
    assert found["instruction_set"] == instruction_set()
    assert versions()["torch"] == metadata.version("torch")


def test_the_commit_is_that_of_the_checkout(tmp_path: Path) -> None:
    package = Path(environment.__file__).parents[1]
    checkout = tmp_path / "checkout"
    shutil.copytree(package, checkout / "src" / "crwn", ignore=shutil.ignore_patterns("__pycache__"))

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *words], cwd=checkout, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit() -> str:
        program = "from crwn.experiments.environment import commit; print(commit())"
        around = {**os.environ, "PYTHONPATH": str(checkout / "src"), "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=around)
        return done.stdout.strip()

    assert commit() == "None"
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "all")
    whole = git("rev-parse", "HEAD")
    assert commit() == whole[:12]
    file = checkout / "src" / "crwn" / "errors.py"
    file.write_text(file.read_text() + "\n")
    assert commit() == whole[:12] + "+"
