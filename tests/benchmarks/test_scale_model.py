"""The simulation behind docs/scale.md agrees with its formulas, and the record with both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COSTS = {
    "core_seconds_per_task_batch": 0.001,
    "stack": 4,
    "numbers_per_task": 1000,
    "put_seconds": 1e-5,
    "get_seconds": 1e-4,
    "disk_bytes_per_task": 6000,
    "bytes_float32": 5000,
    "bytes_int8": 2000,
    "answer_seconds_fixed": 0.001,
    "answer_seconds_per_row": 1e-5,
    "request_core_seconds": 0.001,
    "ray_seconds_per_piece": 0.001,
    "ray_start_seconds": 5.0,
    "worker_tasks": 8,
    "worker_batches": 100,
    "seconds_1_workers": 0.8,
    "seconds_2_workers": 0.41,
}


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_more_workers_are_faster_until_the_driver_is_busy() -> None:
    from scale_model import simulate

    def seconds(workers: int) -> float:
        return simulate(COSTS, 4000, workers, batches=100, stack=4)

    assert seconds(1) == pytest.approx(4000 * 0.1 + 1000 * 0.001, rel=1e-3)
    assert seconds(1) / seconds(10) == pytest.approx(10, rel=0.02)
    # A thousand pieces at a millisecond each cannot be handed out in less than a second.
    assert 1.0 < seconds(10_000) < 1.6


def test_deaths_cost_time_and_everything_is_still_learned() -> None:
    from scale_model import simulate

    calm = simulate(COSTS, 400, 4, batches=1000, stack=4)
    assert simulate(COSTS, 400, 4, batches=1000, stack=4, deaths_an_hour=60.0) > calm * 1.02


def test_plan_follows_the_formulas() -> None:
    from scale_model import Assumed, limits, plan

    found = plan(COSTS, 1e6, 1e5, Assumed())
    assert found["core_hours"] == pytest.approx(1e6 * 1000 * 0.001 / 3600)
    assert found["disk_bytes"] == 6e9
    assert found["serving_machines"] == 11  # 100,000 requests of 1.005 ms on 16 cores, 60% busy
    assert plan(COSTS, 1e9, 1e5, Assumed())["learning_dollars"] == pytest.approx(1000 * found["learning_dollars"])
    reached = [one["tasks"] for one in limits(COSTS, Assumed())]
    assert reached == sorted(reached)


def test_the_record_follows_from_its_costs() -> None:
    from scale_simulation import RECORD, make_record

    record = json.loads(RECORD.read_text())
    assert json.loads(json.dumps(make_record(record["costs"]))) == record
