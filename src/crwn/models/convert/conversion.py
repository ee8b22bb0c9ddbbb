"""The attributes by which `neuromodulate` marks a module that it converts."""

from __future__ import annotations

from typing import Any, Protocol, cast

from torch import nn


class Conversion(Protocol):
    """The attributes that `neuromodulate` adds to a module."""

    crwn_description: dict[str, Any]  # tells this conversion from others
    crwn_made: list[str]  # names of the values that the seed makes again
    crwn_sums: dict[str, str]  # checksums of those values, to see later whether they were changed


def conversion(module: nn.Module) -> Conversion | None:
    """The attributes that `neuromodulate` added; None for a module that it did not convert."""
    return cast(Conversion, module) if hasattr(module, "crwn_description") else None


def converted(module: nn.Module) -> bool:
    """Whether the module was made by `neuromodulate`."""
    return conversion(module) is not None


def conversion_of(module: nn.Module) -> Conversion:
    """The attributes of a module that is known to be converted."""
    return cast(Conversion, module)
