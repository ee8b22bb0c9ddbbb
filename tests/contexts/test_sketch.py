"""Sketches of a task's rows: read back, and refused where they are damaged."""

from __future__ import annotations

import torch

from crwn.contexts.sketch import SIZE, make_sketch, open_sketches


def test_sketches_survive_and_nonsense_does_not() -> None:
    x = torch.randn(50, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 1
    nonsense = [None, 3, {}, {"scale": 1, "values": "%%"}, {"scale": 1, "values": "AAAA"}, {"scale": 0, "values": ""}]
    known, means = open_sketches([*nonsense, make_sketch(x)])
    assert known == [len(nonsense)]
    assert means.shape == (1, SIZE)
    assert open_sketches(nonsense)[0] == []
