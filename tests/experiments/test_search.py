"""A search judged on held-out training rows, which goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig
from crwn.experiments.experiment import build
from crwn.experiments.search import Range, Trial, parse_ranges, search

CONFIG = RunConfig(scenario="rotated-digits", method="stl", size="8", tasks=2, batches=4)
RANGES = {"rate": Range(0.001, 0.1), "batch_size": Range(16, 64)}


def test_a_stopped_search_goes_on(tmp_path: Path) -> None:
    seen: list[Trial] = []

    def stop(trial: Trial) -> None:
        seen.append(trial)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(CONFIG, RANGES, tmp_path / "s", trials=3, show=stop)
    found = search(CONFIG, RANGES, tmp_path / "s", trials=3, show=seen.append)
    assert len(seen) == len(found) == 3
    assert sorted((one.accuracy for one in seen), reverse=True) == [one.accuracy for one in found]
    assert all(0.001 <= float(one.settings["rate"]) <= 0.1 for one in found)
    assert all(16 <= int(one.settings["batch_size"]) <= 64 for one in found)
    assert len({one.settings["rate"] for one in found}) == 3
    with pytest.raises(ConfigError, match="holds a search with other ranges"):
        search(CONFIG, {"rate": Range(0.1, 0.2)}, tmp_path / "s", trials=3)


def test_test_rows_are_never_seen() -> None:
    whole, part = build(CONFIG).scenario[0], build(CONFIG, hold_out=0.25).scenario[0]
    rows = {tuple(row) for row in whole.train.raw(slice(None)).tolist()}
    trained = {tuple(row) for row in part.train.raw(slice(None)).tolist()}
    judged = {tuple(row) for row in part.test.raw(slice(None)).tolist()}
    assert trained | judged == rows
    assert not trained & judged


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": "0.1..0.01"}, "--set rate=0.1..0.01: give a range"),
        ({"rate": "a..b"}, "give a range of numbers"),
        ({"rate": "0.1"}, "nothing to search"),
    ],
)
def test_ranges_that_are_none(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_ranges(settings)
