"""`crwn demo` from beginning to end on digits, and a second time over what is there."""

import sys
from pathlib import Path

import pytest

from crwn import Learner
from crwn.cli import main
from crwn.data import load


def demo(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["crwn", "demo", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


@pytest.mark.slow
def test_the_demo_from_beginning_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert demo(monkeypatch, "--data", "digits", "--out", str(out)) == 0
    told = capsys.readouterr().out
    rows = {
        cells[0]: cells[1:] for line in told.splitlines() if len(cells := [c.strip() for c in line.split("|")[1:-1]])
    }
    assert rows["task"] == ["NeuroModNet", "FlyNet", "fine-tuning"]
    forgotten = [float(cell.split()[0]) for cell in rows["forgetting"]]
    assert forgotten[:2] == [0.0, 0.0]
    assert forgotten[2] > 10
    assert "Try next:" in told
    for name in ("turned-digits.crwn", "runs", "atlas", "report.html"):
        assert (out / name).exists(), name
    assert list(out.glob("accuracy*.png"))
    assert list((out / "atlas").glob("inputs.png"))

    with Learner.load(out / "turned-digits.crwn") as learner:
        assert len(learner.tasks) == 6
        digits = load("digits")
        upright = learner.tasks[0]
        assert learner.score(digits.x_test, digits.y_test, task=upright) > 0.85
        assert 1 < learner.context(upright).info["accuracy"] <= 100

    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")}
    assert len(before) == 3
    assert demo(monkeypatch, "--data", "digits", "--out", str(out)) == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")} == before


def test_other_data_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo(monkeypatch, "--data", "cats", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err == 'error: the demo runs on mnist or digits, not on "cats"\n'
