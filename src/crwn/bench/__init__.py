"""Benchmarks of the machine at hand: crwn against a paper-style implementation, dense networks, loops and peers.

One file a benchmark of `crwn bench`; every figure is a ratio of two measurements of one run. May import:
`integrations`, `serve`, `report`, `insight`, `experiments`, `methods`, `scenarios`, `learner`, `training`, `contexts`,
`data`, `models`, `layers`, `_utils`, `errors`.
"""

from __future__ import annotations

from crwn.bench.record import BENCHMARKS, measure_all

__all__ = ["BENCHMARKS", "measure_all"]
