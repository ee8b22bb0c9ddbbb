"""The bank against SQLite alone."""

from __future__ import annotations

from crwn.bench.bank import measure_bank


def test_reads_and_writes_are_compared_with_the_driver() -> None:
    found = {figure.name: figure for figure in measure_bank(tasks=600, reads=2, rounds=2)}
    assert list(found) == [f"serve.bank_{call}_of_raw" for call in ("get", "get_many", "put_many")]
    for figure in found.values():
        assert figure.spread[0] <= figure.value <= figure.spread[1]
        assert figure.value > 0
    assert found["serve.bank_put_many_of_raw"].facts["per_second"] > 0
    assert found["serve.bank_get_of_raw"].facts["raw_get_us"] > 0
