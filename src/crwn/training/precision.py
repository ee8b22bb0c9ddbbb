"""bfloat16 where the processor multiplies in it: half the memory traffic, about twice the products a second.

Products and activations are bfloat16; contexts, their gradients, the optimizer, statistics and losses stay float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from crwn.errors import ConfigError
from crwn.layers.conv import use_exact_alpha
from crwn.layers.weights import Gaussian, Patches
from crwn.models.functional import replica
from crwn.training.recipe import Recipe

Precision = Literal["float32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bf16")
FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # as Linux names them: Intel and AMD, and ARM


@cache
def has_bf16() -> bool:
    """Whether the processor multiplies in bfloat16; without that it is slower than float32."""
    try:
        words = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return torch.cuda.is_available()
    return torch.cuda.is_available() or any(flag in words for flag in FLAGS)


def check_precision(precision: Precision) -> Precision:
    """The precision; ConfigError where it is unknown, or this machine has no use for it."""
    if precision not in PRECISIONS:
        raise ConfigError(f'unknown precision "{precision}": choose one of {", ".join(PRECISIONS)}')
    if precision == "bf16" and not has_bf16():
        raise ConfigError(
            "precision=bf16 needs a processor with AVX512_BF16 or AMX, this one has neither: use precision=float32"
        )
    return precision


def convert_frozen(network: nn.Module, precision: Precision) -> nn.Module:
    """Convert the dense frozen weights of a network that nothing else uses, once instead of at every product.

    Weights that are trained (the first task of pretrained mode) stay float32, and autocast converts them.
    """
    check_precision(precision)
    if precision == "bf16":
        for module in network.modules():
            if isinstance(module, Gaussian | Patches) and not isinstance(module.weight, nn.Parameter):
                module.weight = module.weight.to(torch.bfloat16)  # a new tensor: replicas share the old one
    return network


def replica_to_train(model: nn.Module, recipe: Recipe, device: str | torch.device = "cpu") -> nn.Module:
    """A replica of the model in training mode, with what the recipe's precision changes in it."""
    trained = convert_frozen(replica(model).to(device).train(), recipe.precision)
    if recipe.uses_exact_alpha and not use_exact_alpha(trained) and recipe.exact_alpha:
        raise ConfigError(
            "exact_alpha=True has no effect: the network has no modulated convolution of crwn's own, leave it out"
        )
    return trained


def in_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """The model itself for float32; else a replica with converted frozen weights, to be called in `computing_in`."""
    return model if precision == "float32" else convert_frozen(replica(model).eval(), precision)


@contextmanager
def computing_in(precision: Precision, device: str = "cpu") -> Iterator[None]:
    """Products inside the block are computed in this precision."""
    if precision == "float32":
        yield
        return
    with torch.autocast(device, dtype=torch.bfloat16):
        yield
