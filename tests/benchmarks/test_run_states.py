"""Scripts that need what a run learned refuse a record without it, and name the command that learns it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, run

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "results" / "split-cifar100" / "psp-1d-epochs=25" / "seed-0"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("method", ["supsup", "neuromodnet"])
def test_a_finished_run_has_its_states(method: str, tmp_path: Path) -> None:
    from run_states import require_states

    config = RunConfig(scenario="rotated-digits", method=method, size="16", tasks=2, batches=2, threads=1)
    run(config, tmp_path)
    require_states(tmp_path)


def test_a_committed_record_has_none() -> None:
    from run_states import require_states

    with pytest.raises(ConfigError, match=r"crwn run split-cifar100 psp --size 1d .* --out FOLDER"):
        require_states(RECORD)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    from run_states import require_states

    with pytest.raises(ConfigError, match="holds no run"):
        require_states(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "before"),
    [("method_order.py", []), ("store_accuracy.py", []), ("task_inference.py", ["rotated-mnist", "--supsup"])],
)
def test_scripts_say_so_in_one_line(script: str, before: list[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *before, str(RECORD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "a record without what the run learned" in done.stderr
    assert len(done.stderr.splitlines()) == 1
