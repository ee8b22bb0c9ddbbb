"""The outputs of a model for a whole dataset with one context, and their accuracy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.models import network_of
from crwn.models.convert.checks import readable_errors
from crwn.models.vectorize import no_attention_fast_path


@torch.no_grad()
def predict_logits(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    rows: Rows,
    *,
    classes: int | None = None,
    batch_size: int = 1000,
    device: str | torch.device = "cpu",
) -> Tensor:
    """Logits of all rows with one context, `[rows, classes]`, in evaluation mode."""
    network = network_of(model)
    call = network.caller()

    def logits_of(x: Tensor) -> Tensor:
        if network.pure:
            return call(placed, x)
        with no_attention_fast_path(), readable_errors(model, x):
            return call(placed, x)

    training = model.training
    model.eval()
    try:
        placed = {name: value.to(device) for name, value in tensors.items()}
        parts = [logits_of(x.to(device)).float().cpu() for x in rows.batches(batch_size)]
    finally:
        model.train(training)
    logits = torch.cat(parts)
    return logits if classes is None else logits[:, :classes]


def accuracy(logits: Tensor, y: Tensor) -> float:
    """The share of rows whose largest logit is at their class."""
    return float((logits.argmax(dim=1) == y).float().mean())
