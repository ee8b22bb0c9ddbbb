"""A profile accounts for all of the time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crwn.bench.profile import PARTS, main, measure


@pytest.mark.slow
def test_shares_add_up_to_one() -> None:
    record = measure(quick=True)
    assert len(record["profile"]) == 3
    for loop in record["profile"].values():
        assert set(loop["shares"]) == {*PARTS, "everything else"}
        assert sum(loop["shares"].values()) == pytest.approx(1.0)
        assert loop["shares"]["matrix products"] > 0
        assert list(loop["longest"].values()) == sorted(loop["longest"].values(), reverse=True)


def test_without_a_file_to_write_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_committed_record_has_the_same_parts() -> None:
    record = json.loads((Path(__file__).resolve().parents[2] / "results" / "bench" / "profile.json").read_text())
    assert len(record["profile"]) == 3
    for loop in record["profile"].values():
        assert set(loop["shares"]) == {*PARTS, "everything else"}
