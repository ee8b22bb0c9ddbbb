"""Methods on equal, shortened schedules side by side."""

from __future__ import annotations

from pathlib import Path

from crwn.experiments.config import RunConfig
from crwn.report.schedules import equal_schedules
from invented_records import write_record


def write(base: Path, method: str, accuracy: float, *, tasks: int, epochs: int, seed: int = 0) -> None:
    config = RunConfig(scenario="split-cifar100", method=method, size="1d", tasks=tasks, epochs=epochs, seed=seed)
    write_record(base, config, accuracy)


def test_methods_are_compared_where_schedules_are_equal(tmp_path: Path) -> None:
    for method, accuracy in (("stl", 85.0), ("neuromodnet", 75.0), ("supsup", 80.0)):
        write(tmp_path, method, accuracy, tasks=5, epochs=25)
    write(tmp_path, "batche", 60.0, tasks=3, epochs=25)  # nothing to compare it with
    text = equal_schedules(tmp_path, "split-cifar100")
    assert text.startswith("### split-cifar100: 5 of 20 tasks, 25 epochs, equal for all")
    methods = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:]
    assert methods == ["STL 1d", "SupSup 1d", "NeuroModNet 1d"]
    assert text.endswith("Rows with a number of the paper are in its order.")


def test_another_order_is_told(tmp_path: Path) -> None:
    for method, accuracy in (("stl", 85.0), ("neuromodnet", 82.0), ("supsup", 80.0)):
        write(tmp_path, method, accuracy, tasks=5, epochs=25)
    text = equal_schedules(tmp_path, "split-cifar100")
    assert "Not in the paper's order: NeuroModNet 1d above SupSup 1d (by 2.00 on average over 5 tasks" in text


def test_methods_that_are_not_neighbours_are_compared_too(tmp_path: Path) -> None:
    for method, accuracy in (("stl", 76.4), ("neuromodnet", 76.5), ("supsup", 79.5)):
        write(tmp_path, method, accuracy, tasks=5, epochs=25)
    text = equal_schedules(tmp_path, "split-cifar100")
    assert "SupSup 1d above STL 1d" in text
    assert "NeuroModNet 1d above STL 1d" in text


def test_how_well_a_gap_is_known_is_told(tmp_path: Path) -> None:
    for seed, gap in enumerate((2.0, 4.0)):
        write(tmp_path, "stl", 80.0, tasks=1, epochs=25, seed=seed)
        write(tmp_path, "supsup", 80.0 + gap, tasks=1, epochs=25, seed=seed)
    text = equal_schedules(tmp_path, "split-cifar100")
    assert "SupSup 1d above STL 1d (by 3.00 on average over 2 tasks, standard error 1.00)." in text


def test_longest_schedule_first_and_full_length_left_out(tmp_path: Path) -> None:
    for method in ("stl", "supsup"):
        write(tmp_path, method, 80.0, tasks=2, epochs=3)
        write(tmp_path, method, 80.0, tasks=1, epochs=250)
        write(tmp_path, method, 80.0, tasks=20, epochs=250)
    text = equal_schedules(tmp_path, "split-cifar100")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "### split-cifar100: 1 of 20 tasks, equal for all",
        "### split-cifar100: 2 of 20 tasks, 3 epochs, equal for all",
    ]
    assert equal_schedules(tmp_path, "permuted-mnist") == ""
