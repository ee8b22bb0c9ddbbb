"""Benchmarks: how fast crwn is here, against a paper-style implementation, dense weights, loops and peers."""

from __future__ import annotations

from crwn.bench.record import BENCHMARKS, measure_all

__all__ = ["BENCHMARKS", "measure_all"]
