"""The client of a federation: an owner of rows, who sends sums or a context, never rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from crwn import contexts
from crwn.contexts import ContextInfo
from crwn.errors import DataError
from crwn.integrations.flower.agreement import Agreement
from crwn.integrations.flower.sums import arrays_of
from crwn.learner import Learner
from crwn.learner.exact import BYTE_SCALING

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"  # names of the parts of a message, as Flower's strategies use

Load = Callable[[Context], tuple[Any, Any]]


def client_app(load: Load, make_model: Callable[[], nn.Module], *, mods: list[Any] | None = None) -> ClientApp:
    """A Flower `ClientApp` for federations of crwn.

    Args:
        load: the client's rows and labels; `context.node_config` is its configuration in Flower.
        make_model: the model, the same on every client.
        mods: Flower's modifiers, such as `LocalDpMod` or `fixedclipping_mod`.
    """
    app = ClientApp(mods=mods)

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        agreed = Agreement.read(message.content.config_records[CONFIG])
        learner = Learner(make_model())
        agreed.check(learner.fingerprint)
        x, y = load(context)
        x = np.asarray(x)
        if agreed.batches is None:
            arrays, rows = _sums(learner, agreed, x, y)
        else:
            arrays, rows = _trained(learner, agreed, message.content.array_records[ARRAYS], x, y), len(x)
        parts = {ARRAYS: ArrayRecord(arrays), METRICS: MetricRecord({"num-examples": rows})}
        return Message(content=RecordDict(parts), reply_to=message)

    return app


def _sums(learner: Learner, agreed: Agreement, x: Any, y: Any) -> tuple[dict[str, Array], int]:
    scaling = _scaling(learner, agreed, x)
    found = learner.statistics_of(x, y, classes=agreed.classes, scaling=scaling)
    return arrays_of(found), found.rows


def _trained(learner: Learner, agreed: Agreement, begin: ArrayRecord, x: Any, y: Any) -> dict[str, Array]:
    """The context after some batches of this client's rows, from the one that the server sent."""
    info = ContextInfo(scaling=_scaling(learner, agreed, x))
    learner.add(contexts.Context(agreed.task, tensors_of(begin), agreed.classes, agreed.model, info=info))
    found = learner.learn(agreed.task, x, y, resume=True, batches=agreed.batches, progress=False)
    # In the order they came in: Flower's parts for differential privacy pair arrays by their positions.
    return {name: Array(found.tensors[name].numpy()) for name in begin}


def _scaling(learner: Learner, agreed: Agreement, x: Any) -> Any:
    if agreed.scaling is not None:
        return agreed.scaling
    if x.dtype == np.uint8:
        return learner.byte_scaling or BYTE_SCALING
    raise DataError(
        f"rows of {x.dtype} need one scaling for all clients: give scaling=(mean, deviation) to the Federation"
    )


def tensors_of(record: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """The tensors of a context from a Flower record."""
    return {name: torch.from_numpy(np.array(array.numpy(), dtype=np.float32)) for name, array in record.items()}
