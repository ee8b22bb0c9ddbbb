"""A model on disk: `model.json` says how to make it again, `bank.sqlite` beside it keeps what its tasks learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from crwn.convert import checksum, kept_weights, put_back
from crwn.errors import ModelError
from crwn.files import write_whole
from crwn.models import Network, build, describe, fingerprint

FORMAT = 1
DESCRIPTION = "model.json"
BANK = "bank.sqlite"
WEIGHTS = "weights.safetensors"  # what a converted module keeps of its own, stored once


def write_description(folder: Path, model: nn.Module) -> None:
    """Write `model.json`, and check it instead where it is there already."""
    if (folder / DESCRIPTION).exists():
        check_description(folder, model)
        return
    described = describe(model) if isinstance(model, Network) else {"kind": "own", "config": _own(model)}
    record = {"format": FORMAT, **described, "fingerprint": fingerprint(model)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Copies: a buffer may be a view of another, which the format does not take.
        kept = {name: value.cpu().contiguous().clone() for name, value in kept_weights(model).items()}
        if kept:
            write_whole(folder / WEIGHTS, save(kept))
        write_whole(folder / DESCRIPTION, (json.dumps(record, indent=2) + "\n").encode())
    except OSError as error:
        raise ModelError(f"cannot write model folder {folder}: {error.strerror or error}") from None


def read_description(folder: Path) -> dict[str, Any]:
    """The content of `model.json`, checked for its form."""
    path = folder / DESCRIPTION
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}: check the path, or make one with `crwn learn`")
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a model folder: it has no {DESCRIPTION}") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): it is damaged; restore it from a copy") from None
    if not isinstance(record, dict) or not isinstance(record.get("fingerprint"), str):
        raise ModelError(f"{path} is not a model description: it is damaged; restore it from a copy")
    if record.get("format") != FORMAT:
        raise ModelError(f"{path} has format {record.get('format')!r}, this crwn reads {FORMAT}: update crwn")
    return record


def read_model(folder: Path, model: nn.Module | None = None) -> nn.Module:
    """Make the folder's model again from its seed (or take the given one) and compare fingerprints."""
    record = read_description(folder)
    if model is None:
        if record.get("kind") == "own":
            raise ModelError(f"{folder} belongs to a network of your own: build it again and pass it as model=")
        try:
            model = build(record)
        except (TypeError, ValueError, OverflowError, RuntimeError, MemoryError) as error:
            raise ModelError(f"{folder / DESCRIPTION} does not describe a network ({error}): it is damaged") from None
    elif record["fingerprint"] != fingerprint(model):
        _load_kept(folder, record, model)
    check_description(folder, model)
    return model


def _load_kept(folder: Path, record: dict[str, Any], model: nn.Module) -> None:
    """Put the weights that the folder keeps into a module converted by the same call."""
    config = record.get("config")
    expected = config.get("kept") if isinstance(config, dict) else None
    if expected is None or not hasattr(model, "crwn_description"):
        return
    path = folder / WEIGHTS
    try:
        tensors = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} cannot be read ({error}): the frozen weights are kept there; restore it") from None
    if checksum(tensors) != expected:
        raise ModelError(f"{path} has other weights than {DESCRIPTION} says: it is damaged; restore it from a copy")
    put_back(model, tensors)


def check_description(folder: Path, model: nn.Module) -> None:
    """Refuse a model that is not the one the folder was made with."""
    saved, here = read_description(folder)["fingerprint"], fingerprint(model)
    if saved != here:
        raise ModelError(
            f"model folder {folder} was made with model {saved[:12]}..., this model is {here[:12]}...: "
            "use the same architecture, weights and seed"
        )


def _own(model: nn.Module) -> Any:
    return getattr(model, "crwn_description", {"class": type(model).__name__})
