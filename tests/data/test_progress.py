import pytest

from crwn.data import progress_bar


def test_the_bar_is_on_stderr_and_names_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crwn.data.progress.display", lambda: "bars")  # as on a terminal
    with progress_bar() as progress:
        for done in (10, 50, 100):
            progress("reading", done, 100)
        progress("elsewhere", 7, None)
    told = capsys.readouterr()
    assert told.out == ""
    assert "reading" in told.err
    assert "100%" in told.err
    assert "elsewhere" in told.err


def test_nothing_told_is_nothing_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar():
        pass
    assert capsys.readouterr().err == ""
