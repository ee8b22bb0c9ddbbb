"""The strategy of the closed form: one round, in which clients send the sums that determine a context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from crwn.errors import DataError
from crwn.training.exact import Statistics
from crwn.training.exact.files import lower_triangle, square

PARTS = ("gram", "products", "weights", "counts")


def arrays_of(statistics: Statistics) -> dict[str, Array]:
    """Statistics as Flower's arrays: the lower triangle of the Gram matrix and the smaller sums."""
    parts = {name: getattr(statistics, name) for name in PARTS}
    parts["gram"] = lower_triangle(statistics.gram)
    return {name: Array(np.ascontiguousarray(value)) for name, value in parts.items()}


def statistics_from(arrays: Mapping[str, Array], like: Statistics) -> Statistics:
    """The statistics in Flower's arrays.

    Args:
        like: statistics of no rows with the model, classes and scaling of the federation.

    Raises:
        DataError: parts are missing, of other shapes, not finite, or cannot be sums over rows.
    """
    if set(arrays) != set(PARTS):
        raise DataError(f"sums of {sorted(arrays)}, expected {sorted(PARTS)}")
    found = {name: np.array(arrays[name].numpy()) for name in PARTS}
    shapes = {"gram": (like.width * (like.width + 1) // 2,), "products": like.products.shape}
    for name, value in found.items():
        wanted = shapes.get(name, (len(like.classes),))
        if value.shape != wanted:
            raise DataError(f"{name} of shape {value.shape}, expected {wanted}")
        if not np.isfinite(value).all():
            raise DataError(f"{name} has NaN or infinite values")
    gram = square(found["gram"].astype(np.float64), like.width)
    if (gram.diagonal() < 0).any() or (found["weights"] < 0).any() or (found["counts"] < 0).any():
        raise DataError("sums of squares, weights or counts are negative")
    sums = gram, found["products"].astype(np.float64), found["weights"].astype(np.float64)
    identity = like.model, like.below, like.classes, like.scaling, like.precision
    return Statistics(*identity, *sums, found["counts"].astype(np.int64))


class ExactSums(FedAvg):  # type: ignore[misc]
    """Adds up the sums of all clients; `total` holds the statistics of the union of their rows.

    Args:
        empty: statistics of no rows with the model, classes and scaling of the federation.
        clients: how many clients to wait for.
    """

    def __init__(self, empty: Statistics, clients: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self.total = empty

    def check(self, content: RecordDict) -> None:
        """Raise DataError for a reply that cannot be added."""
        self._statistics(content)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up replies, which were checked before."""
        for reply in replies:
            self.total = self.total.add(self._statistics(reply.content))
        return None, MetricRecord({"rows": self.total.rows})

    def _statistics(self, content: RecordDict) -> Statistics:
        records = list(content.array_records.values())
        if len(records) != 1:
            raise DataError(f"{len(records)} records of arrays, expected one")
        return statistics_from(records[0], self.total)
