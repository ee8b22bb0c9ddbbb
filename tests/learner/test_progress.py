"""Progress of learning: a bar on a terminal, lines now and then elsewhere, nothing with CRWN_QUIET."""

from __future__ import annotations

import io
import sys

import pytest
import torch

from crwn import Recipe, Rows
from crwn._utils import display
from crwn.learner.progress import progress_bar
from crwn.training import Step
from crwn.training.task import PreparedTask


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def groups() -> list[list[PreparedTask]]:
    rows = Rows(torch.zeros(8, 2), torch.zeros(8, dtype=torch.long))
    return [[PreparedTask("left", rows, range(2)), PreparedTask("right", rows, range(2))]]


def learn(*, shown: bool) -> None:
    with progress_bar(groups(), Recipe(batches=20), shown=shown) as (callback, encoding):
        encoding("features of images", 5, 10)
        for step in range(1, 21):
            callback(Step(step, 20, ("left", "right"), torch.tensor([0.5, 1.5]), 0.1, {}))


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("shown", [True, False])
def test_it_is_drawn_on_a_terminal_where_it_is_asked_for(
    shown: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    learn(shown=shown)
    drawn = stream.getvalue()
    if not (shown and terminal):
        assert drawn == ""
        return
    assert "5/10 images" in drawn
    assert "2 tasks" in drawn
    assert "40/40 batches" in drawn
    assert "loss 1.000" in drawn


def test_log_files_get_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("crwn._utils.LINE_EVERY", 0.0)
    learn(shown=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "features of images: 5 of 10 images"
    assert lines[1].startswith("2 tasks: 2 of 40 batches, loss 1.000, about ")
    assert lines[-1].startswith("2 tasks: 40 of 40 batches, loss 1.000, about 0 s left")
    monkeypatch.setenv("CRWN_QUIET", "1")
    learn(shown=True)
    assert capsys.readouterr().err == ""


def test_notebooks_get_bars_where_widgets_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    for found, how in ((object(), "bars"), (None, "lines")):
        monkeypatch.setattr("crwn._utils.find_spec", lambda _, found=found: found)
        assert display() == how
