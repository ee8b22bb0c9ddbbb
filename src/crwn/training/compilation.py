"""`torch.compile` where there is a C++ compiler, and a warning where there is none."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch

COMPILERS = ("g++", "clang++")


def find_compiler() -> str | None:
    """The path of the C++ compiler that torch uses: `$CXX`, or the first installed of `COMPILERS`; None without one."""
    named = os.environ.get("CXX")
    return next((found for name in ([named] if named else COMPILERS) if (found := shutil.which(name))), None)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled on its first call; unchanged, with a warning, where that fails."""
    if find_compiler() is None:
        warnings.warn("no C++ compiler found: learning without torch.compile, which takes longer", stacklevel=2)
        return function
    # The last batch of an epoch is often smaller: two fixed shapes run faster than one dynamic shape.
    fast: Callable[..., Any] | None = torch.compile(function, dynamic=False)

    def call(*arguments: Any) -> Any:
        nonlocal fast
        from torch._dynamo.exc import TorchDynamoException

        if fast is not None:
            try:
                return fast(*arguments)
            except TorchDynamoException as error:
                reason = str(error).strip().splitlines()[0]
                warnings.warn(f"torch.compile failed ({reason}): learning without it", stacklevel=2)
                fast = None
        return function(*arguments)

    return call
