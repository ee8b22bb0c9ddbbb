"""`--module package:function`: the user's module that a model folder belongs to, built by their function."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from crwn.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn


def build_module(place: str | None) -> nn.Module | None:
    """What the function at `package.module:function` returns; None where no place is given.

    Modules are looked for in the folder the command runs in too.

    Raises:
        ConfigError: there is no such function, it raises an error, or it returns no module.
    """
    if place is None:
        return None
    from torch import nn

    name, sign, function = place.partition(":")
    if not (sign and name and function):
        raise ConfigError(f"--module {place}: write PACKAGE:FUNCTION, like mynets.small:make")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make = getattr(importlib.import_module(name), function)
    except ImportError as error:
        raise ConfigError(f"--module {place}: {name} cannot be imported ({error})") from error
    except AttributeError:
        raise ConfigError(f"--module {place}: {name} has no function {function}") from None
    try:
        found = make()
    except Exception as error:  # the user's function can raise anything
        raise ConfigError(f"--module {place}: {function}() failed ({type(error).__name__}: {error})") from error
    if not isinstance(found, nn.Module):
        raise ConfigError(f"--module {place}: {function}() returned {type(found).__name__}, not an nn.Module")
    return found
