"""Random tensors that a seed determines."""

from __future__ import annotations

import torch


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
