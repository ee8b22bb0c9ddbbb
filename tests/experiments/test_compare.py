"""Methods side by side: the same seeds, differences from the first method, and a paired test."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from crwn.errors import ConfigError
from crwn.experiments import RunConfig
from crwn.experiments.compare import compare, paired_test
from crwn.report.comparison import comparison_csv, comparison_table

TINY = {"scenario": "rotated-digits", "tasks": 2, "batches": 3, "threads": 1}


def configs(*methods: str) -> list[RunConfig]:
    return [RunConfig(method=name, size="8", **TINY) for name in methods]


def test_methods_are_compared_with_the_first_by_seeds(tmp_path: Path) -> None:
    first, other = compare(configs("finetune", "stl"), [0, 1, 2], tmp_path)
    assert (first.difference, first.p_value) == (None, None)
    assert other.difference == pytest.approx(other.accuracy - first.accuracy)
    expected = ttest_rel(other.accuracies, first.accuracies).pvalue
    assert other.p_value == pytest.approx(expected)
    table = comparison_table([first, other])
    assert [row[0] for row in table.rows] == ["finetune 8", "stl 8"]
    assert f"{other.accuracy:.2f} ± {other.accuracy_std:.2f}" in table.markdown()
    assert table.latex().count(r" \\") == 3
    assert comparison_csv([first, other]).count("\n") == 3
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert len(stamps) == 6
    again = compare(configs("finetune", "stl"), [0, 1, 2], tmp_path)
    assert [one.accuracies for one in again] == [first.accuracies, other.accuracies]
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}, "nothing is repeated"


def test_one_seed_has_neither_deviation_nor_test(tmp_path: Path) -> None:
    _, other = compare(configs("finetune", "stl"), [0], tmp_path)
    assert (other.accuracy_std, other.p_value) == (None, None)
    assert "±" not in comparison_table([other]).markdown()


def test_a_method_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stl-8-tasks=2-batches=3 is given twice"):
        compare(configs("stl", "stl"), [0], tmp_path)


def test_equal_differences_have_no_p_value() -> None:
    assert paired_test([1.5, 1.5, 1.5]) is None
    assert paired_test([1.5]) is None
