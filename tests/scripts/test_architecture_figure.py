"""The picture of the networks has the counts of the models."""

from __future__ import annotations

from pathlib import Path

from architecture_figure import paint
from PIL import Image

from crwn.report.style import saved


def test_both_networks_are_drawn_with_their_counts(tmp_path: Path) -> None:
    png, svg = saved(tmp_path / "architecture", (11.5, 5.4), paint)
    with Image.open(png) as image:
        assert len(set(image.convert("L").tobytes())) > 20
    text = svg.read_text(encoding="utf-8")
    assert "7,841 parameters per task" in text
    assert "1,299 parameters per task" in text
