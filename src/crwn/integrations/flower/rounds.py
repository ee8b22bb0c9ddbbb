"""Rounds of a federation: bytes of every client, and whose replies were left out, with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from crwn.errors import CRWNError, DataError

NO_REPLY = "no reply in time"


@dataclass
class Round:
    """One round: bytes to and from every client by its Flower node id, and who was left out."""

    number: int
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"round {self.number}: {len(self.received) - len(self._unused)} of {len(self.sent)} clients, "
            f"{_most(self.sent):,} bytes to a client, {_most(self.received):,} bytes from a client"
        ]
        lines += [f"round {self.number}: client {node} was left out: {why}" for node, why in self.rejected.items()]
        return "\n".join(lines)

    @property
    def _unused(self) -> set[int]:
        return self.received.keys() & self.rejected.keys()


def check_arrays(content: RecordDict, like: Mapping[str, Array]) -> None:
    """Raise DataError where a reply has other arrays than those that were sent, values that are not finite, or no rows.

    Args:
        like: the arrays that were sent.
    """
    records = list(content.array_records.values())
    found = {name: array.shape for record in records for name, array in record.items()}
    wanted = {name: array.shape for name, array in like.items()}
    if list(found.items()) != list(wanted.items()):  # in the same order, which some of Flower's strategies rely on
        raise DataError(f"arrays {_short(found)}, expected {_short(wanted)}")
    for name, array in records[0].items():
        if not np.isfinite(array.numpy()).all():
            raise DataError(f"{name} has NaN or infinite values")
    rows = [metrics.get("num-examples") for metrics in content.metric_records.values()]
    if len(rows) != 1 or not isinstance(rows[0], int | float) or not 0 < rows[0] < math.inf:
        raise DataError(f"num-examples is {rows}, expected one positive number")


class Watched(Strategy):  # type: ignore[misc]
    """Any Flower strategy, with its rounds counted and replies that cannot be used left out.

    A client that fails, does not reply in time or sends something that `check` refuses changes nothing; it is named in
    `rounds`.

    Args:
        strategy: the strategy that gets the other replies.
        check: raises CRWNError for a reply that must not be used.
        report: called with every finished round.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        check: Callable[[RecordDict], None],
        report: Callable[[Round], object] = print,
    ) -> None:
        self.strategy, self.check, self.report = strategy, check, report
        self.rounds: list[Round] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy, counted."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        sent = {message.metadata.dst_node_id: count_bytes(message.content) for message in messages}
        self.rounds.append(Round(server_round, sent))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the strategy makes of the replies that can be used."""
        current, usable = self.rounds[-1], []
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                current.rejected[node] = _last_line(reply.error.reason)
                continue
            current.received[node] = count_bytes(reply.content)
            try:
                self.check(reply.content)
                usable.append(reply)
            except CRWNError as error:
                current.rejected[node] = str(error)
        silent = current.sent.keys() - current.received.keys() - current.rejected.keys()
        current.rejected |= dict.fromkeys(sorted(silent), NO_REPLY)
        self.report(current)
        found: tuple[ArrayRecord | None, MetricRecord | None] = (None, None)
        return self.strategy.aggregate_train(server_round, usable) if usable else found

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy does."""
        messages: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """As the strategy does."""
        found: MetricRecord | None = self.strategy.aggregate_evaluate(server_round, replies)
        return found

    def summary(self) -> None:
        """Log the strategy's settings."""
        self.strategy.summary()


def count_bytes(content: RecordDict) -> int:
    """The bytes of all records of a message, as Flower counts them."""
    return sum(record.count_bytes() for record in content.values())


def _short(shapes: Mapping[str, object]) -> str:
    return str(shapes)[:120]


def _most(sizes: dict[int, int]) -> int:
    return max(sizes.values(), default=0)


def _last_line(reason: str | None) -> str:
    lines = (reason or "it failed").strip().splitlines()
    text = lines[-1].removesuffix("'>").strip()
    return text.rpartition("Message: ")[2][:200] or "it failed"
