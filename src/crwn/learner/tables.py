"""What fits a table: the network, the recipe and the share held out, by its numbers of rows and columns."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from crwn.models import FlyNet, NeuroModNet

# Found on 13 tables of KEEL that the published comparison does not use, and on made ones with a rare class
# (benchmarks/table_search.py, docs/decisions.md). With ReLU some of those with a rare class learned nothing of it.
WIDTH = 1024
BATCHES = 300
EPOCHS = 30
MOST_BATCHES = 3000
WEIGHT_DECAY = 0.01  # for tables whose noise would be learned: kept where it is better on the rows held out
HELD_OUT = 0.2
FEWEST_HELD_OUT = 5
SMALL = 50_000


def is_table_network(model: nn.Module) -> bool:
    """Whether the network is one for tables: flat rows with a constant input."""
    return isinstance(model, FlyNet | NeuroModNet) and model.constant


def table_network(columns: int, outputs: int, *, rows: int, seed: int = 0, **settings: Any) -> NeuroModNet:
    """The network for a table: one hidden layer, wider for many rows, with GELU."""
    usual = {"hidden": (table_width(rows),), "activation": "gelu"}
    return NeuroModNet(in_features=columns, classes=outputs, seed=seed, constant=True, **usual | settings)


def table_width(rows: int) -> int:
    """The hidden width that fits this many rows.

    >>> table_width(400), table_width(20_000)
    (1024, 4096)
    """
    return WIDTH if rows < 5_000 else 4 * WIDTH


def table_recipe(rows: int | None) -> dict[str, Any]:
    """The recipe "best" for a table of so many rows, as fields of a `Recipe`.

    >>> table_recipe(400)["batches"], table_recipe(10_000)["batches"]
    (300, 2370)
    """
    epochs = 0 if rows is None else EPOCHS * math.ceil(rows / 128)
    batches = min(MOST_BATCHES, max(BATCHES, epochs))
    return {"optimizer": "adam", "rate": 0.05, "schedule": "onecycle", "batches": batches}


def held_out_share(rows: int, *, table: bool = True) -> float | None:
    """The share of rows that `crwn learn` holds out; None where rows are too few to spare any, or very many.

    >>> held_out_share(400), held_out_share(10), held_out_share(10**6)
    (0.2, None, None)
    """
    share = HELD_OUT if table else HELD_OUT / 2
    return share if FEWEST_HELD_OUT <= share * rows <= share * SMALL else None
