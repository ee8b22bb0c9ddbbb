"""What a run has learned, in its folder: contexts in the bank of a model folder, or tensors in `state/`.

A method that learns contexts makes its run folder a model folder: `model.json` and `bank.sqlite` stand beside the
records. Any other method keeps one file of tensors for every task, and one for what its tasks share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from crwn._utils import write_whole
from crwn.errors import ConfigError, CRWNError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from crwn.contexts import Context

Line = Mapping[str, Any]  # of metrics.jsonl


class RunStates:
    """The learned tensors of one run.

    Args:
        folder: of the run.
        damaged: raises the error for a folder whose files are not what was written.
    """

    def __init__(self, folder: Path, damaged: Callable[[str], NoReturn]) -> None:
        self.folder = folder
        self.path = folder / "state"
        self._damaged = damaged

    def write(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        """Store tensors in `state/` and return the checksum of the file."""
        from safetensors.torch import save

        data: bytes = save({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()})
        self._write(name, data)
        return hashlib.sha256(data).hexdigest()

    def read(self, name: str, checksum: str | None) -> dict[str, Tensor]:
        """Tensors from `state/`, checked."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        data = self._bytes(name, checksum)
        try:
            # Cloned, so that memory is aligned as in a run that was never interrupted.
            return {key: value.clone() for key, value in load(data).items()}
        except SafetensorError as error:
            self._damaged(f"state/{name}.safetensors cannot be read ({error})")

    def write_contexts(self, model: nn.Module, contexts: Sequence[Context]) -> list[str]:
        """Store contexts in the folder's bank, made with its `model.json` where there is none; their checksums."""
        from crwn.learner.folder import open_for
        from crwn.models import fingerprint

        bank, _ = open_for(model, self.folder, None, fingerprint(model))
        with bank:
            bank.put_many(list(contexts), replace=True)
        return [context.checksum for context in contexts]

    def read_contexts(self, checksums: Mapping[str, str]) -> dict[str, Context]:
        """The contexts of these tasks from the bank, each compared with its checksum."""
        from crwn.contexts.bank import open_bank
        from crwn.learner.folder import BANK

        if not checksums:
            return {}
        path = self.folder / BANK
        if not path.exists():
            self._damaged(f"{BANK} is missing")
        try:
            with open_bank(path) as bank:
                found = bank.get_many(list(checksums))
        except CRWNError as error:
            self._damaged(f"{BANK}: {error}")
        for context in found:
            if context.checksum != checksums[context.name]:
                self._damaged(f'{BANK} has another context for task "{context.name}" than was written')
        return {context.name: context for context in found}

    def task_states(
        self, lines: Sequence[Line], names: Sequence[str], *, tasks: int | None = None
    ) -> dict[str, dict[str, Tensor]]:
        """What `Method.restore` takes of every task, or of the first ones only, by name."""
        known = list(zip(names, lines, strict=False))[:tasks]
        contexts = self.read_contexts({name: line["context"] for name, line in known if "context" in line})
        states = {}
        for position, (name, line) in enumerate(known):
            if name in contexts:
                states[name] = dict(contexts[name].tensors)
            else:
                states[name] = self.read(f"task-{position:03d}", line.get("state"))
        if contexts and lines[0].get("context"):
            states[names[0]] |= {f"shared/{key}": value for key, value in self._trained().items()}
        return states

    def shared_state(self, lines: Sequence[Line]) -> dict[str, Tensor]:
        """What all tasks share after the last of these lines; empty where nothing is."""
        checksum = lines[-1].get("shared") if lines else None
        return {} if checksum is None else self.read(f"shared-{len(lines):03d}", checksum)

    def copy(self, lines: Sequence[Line], names: Sequence[str], source: RunStates) -> None:
        """Take over what another run has stored for these lines, checked."""
        checksums = {name: line["context"] for name, line in zip(names, lines, strict=False) if "context" in line}
        if checksums:
            from crwn.learner.folder import read_model

            contexts = source.read_contexts(checksums)
            self.write_contexts(read_model(source.folder), [contexts[name] for name in checksums])
        for position, line in enumerate(lines):
            if "context" not in line:
                self._write(f"task-{position:03d}", source._bytes(f"task-{position:03d}", line.get("state")))
        if (checksum := lines[-1].get("shared")) is not None:
            name = f"shared-{len(lines):03d}"
            self._write(name, source._bytes(name, checksum))

    def drop_shared(self, *, but: str) -> None:
        """Remove shared states that no longer count."""
        for path in self.path.glob("shared-*.safetensors"):
            if path.stem != but:
                path.unlink(missing_ok=True)

    def _trained(self) -> dict[str, Tensor]:
        """Frozen weights that the first task trained, where it did."""
        from crwn.learner.folder import read_description, read_model
        from crwn.models.trained import trained_weights

        if "trained" not in read_description(self.folder):
            return {}
        return trained_weights(read_model(self.folder))

    def _write(self, name: str, data: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)  # a folder that was copied may have lost it while it was empty
        write_whole(self.path / f"{name}.safetensors", data)

    def _bytes(self, name: str, checksum: str | None) -> bytes:
        path = self.path / f"{name}.safetensors"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if not any(self.path.glob("*.safetensors")):
                raise ConfigError(
                    f"{self.folder} has the record of a run but not what it learned: repeat the run with --out and "
                    "another folder to have it"
                ) from None
            self._damaged(f"state/{path.name} is missing")
        if hashlib.sha256(data).hexdigest() != checksum:
            self._damaged(f"state/{path.name} is not what was written")
        return data
