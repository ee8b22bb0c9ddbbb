"""`torch.compile` where there is a C++ compiler, and a warning where there is none."""

from __future__ import annotations

import os
import shutil
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

COMPILERS = ("g++", "clang++")


def find_compiler() -> str | None:
    """The path of the C++ compiler that torch uses: `$CXX`, or the first installed of `COMPILERS`; None without one."""
    named = os.environ.get("CXX")
    return next((found for name in ([named] if named else COMPILERS) if (found := shutil.which(name))), None)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled on its first call together with its gradient; unchanged, with a warning, where that fails.

    Libraries in torch's cache that were cut short, by a process killed while it compiled, are made anew.
    """
    if find_compiler() is None:
        warnings.warn("no C++ compiler found: learning without torch.compile, which takes longer", stacklevel=2)
        return function
    _remove_cut_libraries()
    # The last batch of an epoch is often smaller: two fixed shapes run faster than one dynamic shape.
    fast: Callable[..., Any] | None = torch.compile(function, dynamic=False)

    def call(*arguments: Any) -> Any:
        nonlocal fast
        import torch._functorch.config as settings
        from torch._dynamo.exc import TorchDynamoException

        if fast is not None:
            try:
                # The gradient too, not later in `backward`, where a failure would end the training.
                with settings.patch(force_non_lazy_backward_lowering=True):
                    return fast(*arguments)
            except TorchDynamoException as error:
                reason = str(error).strip().splitlines()[0]
                warnings.warn(f"torch.compile failed ({reason}): learning without it", stacklevel=2)
                fast = None
        return function(*arguments)

    return call


def _remove_cut_libraries() -> None:
    """Remove what torch would load as it is, to fail, crash, or conclude that there are no vector instructions."""
    from filelock import FileLock, Timeout
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    folder = Path(cache_dir())
    for file in _libraries_in(folder):
        try:
            if _is_whole(file):
                continue
            # torch holds this lock while it writes the library.
            with FileLock(folder / "locks" / f"{file.name.partition('.')[0]}.lock", timeout=0):
                if not _is_whole(file):
                    file.unlink()
        except (OSError, Timeout):
            continue  # another process writes or removed it, or it is not ours


def _libraries_in(folder: Path) -> Iterator[Path]:
    """All libraries below a folder in which other processes make and remove folders."""
    for path, _, names in os.walk(folder):  # passes over folders that are gone, `Path.rglob` raises
        yield from (Path(path) / name for name in names if name.endswith(".so"))


def _is_whole(file: Path) -> bool:
    """Whether a library ends behind its table of sections, as an ELF file does; other formats are not looked into."""
    with file.open("rb") as read:
        head = read.read(64)
    if len(head) < 64:
        return False
    if not head.startswith(b"\x7fELF\x02\x01"):
        return True
    (sections,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
    return bool(sections) and sections + size * count <= file.stat().st_size
