"""What the server and all clients of a federation must agree on, as a Flower record."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from flwr.app import ConfigRecord

from crwn.contexts.labels import decode_label, encode_label
from crwn.data.standardize import Scaling, read_scaling
from crwn.errors import ConfigError, ContextError

KEY = "crwn"


@dataclass(frozen=True)
class Agreement:
    """The task that clients learn together.

    Args:
        task: its name.
        classes: all labels, in the order of the outputs; a client need not have rows of each.
        model: fingerprint of the model; clients make theirs from the same seed.
        scaling: `(mean, deviation)` that raw rows are standardized with; None where rows are bytes, whose scaling is
            a constant.
        batches: of one client in one round; None where clients send sums for the closed form.
    """

    task: str
    classes: tuple[Hashable, ...]
    model: str
    scaling: Scaling | None = None
    batches: int | None = None

    def record(self) -> ConfigRecord:
        """The agreement as the configuration that Flower sends to clients."""
        facts = {
            "task": self.task,
            "classes": [encode_label(label) for label in self.classes],
            "model": self.model,
            "scaling": self.scaling,
            "batches": self.batches,
        }
        return ConfigRecord({KEY: json.dumps(facts)})

    @classmethod
    def read(cls, record: ConfigRecord) -> Agreement:
        """The agreement in a configuration that `record` made.

        Raises:
            ConfigError: there is none.
        """
        try:
            facts: dict[str, Any] = json.loads(str(record[KEY]))
            scaling = None if facts["scaling"] is None else read_scaling(facts["scaling"])
            classes = tuple(decode_label(label) for label in facts["classes"])
            return cls(facts["task"], classes, facts["model"], scaling, facts["batches"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the server's configuration has no agreement of crwn ({error!r:.60}): start it with Federation"
            ) from None

    def check(self, model: str) -> None:
        """Raise ContextError unless the client's model is the server's."""
        if model != self.model:
            raise ContextError(
                f"this client's model is {model[:12]}..., the federation's is {self.model[:12]}...: "
                "make it with the same sizes and seed"
            )
