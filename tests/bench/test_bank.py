"""The bank beside the driver alone: both sides are measured on the same rows."""

from __future__ import annotations

from crwn.bench.bank import measure_bank


def test_both_sides_are_measured() -> None:
    found = measure_bank(tasks=600, rounds=2)
    assert found["tasks"] == 600
    for name in ("put_many", "get", "get_many"):
        assert 0 < found[f"{name}_of_raw"] < 20
