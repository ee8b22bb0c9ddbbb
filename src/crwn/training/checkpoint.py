"""The state of a task in the middle of learning, kept so that a killed run goes on where it was."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor


class Checkpoint:
    """Saves tensors, optimiser and step to one file, at most every `seconds`; nothing is saved for short tasks.

    Args:
        path: the file; written beside and renamed, so it is always whole.
        identity: what the state belongs to (tasks, recipe, seed); another identity on disk is ignored.
        seconds: how often to save, and how long a task may run before its first save.
    """

    def __init__(self, path: Path, identity: str, *, seconds: float = 30.0) -> None:
        self.path = path
        self.identity = identity
        self.seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.seconds

    def save(self, tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer, step: int) -> None:
        state = {f"context/{name}": value.detach().cpu().contiguous() for name, value in tensors.items()}
        for position, entries in optimizer.state_dict()["state"].items():
            for key, value in entries.items():
                state[f"optimizer/{position}/{key}"] = torch.as_tensor(value).cpu().contiguous()
        temporary = self.path.with_suffix(".part")
        with temporary.open("wb") as file:
            file.write(save(state, metadata={"identity": self.identity, "step": str(step)}))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        self._last = time.monotonic()

    def restore(self, tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> int:
        """Put a saved state back in place and return its step; 0 where there is none that fits."""
        self._last = time.monotonic()
        if not self.path.exists():
            return 0
        try:
            with safe_open(self.path, "pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("identity") != self.identity:
                    return 0
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return 0
        with torch.no_grad():
            for name, value in tensors.items():
                value.copy_(state[f"context/{name}"])
        entries: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            kind, _, rest = name.partition("/")
            if kind == "optimizer":
                position, _, key = rest.partition("/")
                entries.setdefault(int(position), {})[key] = value
        whole = optimizer.state_dict()
        whole["state"] = entries
        optimizer.load_state_dict(whole)
        return int(metadata["step"])

    def clear(self) -> None:
        """Forget the state: the task is done and kept elsewhere."""
        for path in (self.path, self.path.with_suffix(".part")):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
