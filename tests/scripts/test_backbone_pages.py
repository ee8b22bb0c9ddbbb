"""docs/backbones.md and docs/unknown-tasks.md show what their records hold."""

from __future__ import annotations

from backbone_pages import BACKBONES, UNKNOWN, adapters, inferred, mixed, order, protocols, runs
from fill_page import fill


def test_pages_and_records_are_the_same() -> None:
    backbones, unknown = BACKBONES.read_text(encoding="utf-8"), UNKNOWN.read_text(encoding="utf-8")
    assert fill(backbones, {"runs": runs(), "adapters": adapters(), "mixed": mixed()}) == backbones
    assert fill(unknown, {"inferred": inferred(), "protocols": protocols(), "order": order()}) == unknown
