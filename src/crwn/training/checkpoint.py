"""Checkpoints inside the training of a task, so that a killed run resumes at its last saved step."""

from __future__ import annotations

import hashlib
import time
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from crwn._utils import write_whole


class Checkpoint:
    """Saves tensors, optimizer state and step to one file, at most every `seconds`; short tasks save nothing.

    Args:
        path: the file, written atomically.
        identity: identifies tasks, recipe and seed; a file with another identity is ignored.
        seconds: seconds between two saves, and before the first.
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
        self.path.parent.mkdir(parents=True, exist_ok=True)  # an empty folder may be lost in a copy of the run
        facts = {"identity": self.identity, "step": str(step), "checksum": _checksum(state, step)}
        write_whole(self.path, save(state, metadata=facts))
        self._last = time.monotonic()

    def restore(self, tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> int:
        """Load the saved state into tensors and optimizer and return its step; 0 if there is none that fits."""
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
        # Files of earlier versions have no checksum.
        if metadata.get("checksum", expected := _checksum(state, int(metadata["step"]))) != expected:
            warnings.warn(f"{self.path} is damaged: its task is trained from the start", stacklevel=2)
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
        """Delete the file: the task is trained and stored elsewhere."""
        self.path.unlink(missing_ok=True)


def _checksum(state: dict[str, Tensor], step: int) -> str:
    """SHA-256 of all tensors with their names, dtypes and shapes, and of the step."""
    digest = hashlib.sha256(str(step).encode())
    for name in sorted(state):
        value = state[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
