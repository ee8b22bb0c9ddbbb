"""A model folder: `model.json` describes the model, `bank.sqlite` beside it holds the contexts of its tasks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from operator import mul
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from crwn._utils import free_memory, write_whole
from crwn.contexts import Context, Store
from crwn.contexts.bank import Bank, open_bank
from crwn.errors import DataError, ModelError
from crwn.models import build, fingerprint, network_of
from crwn.models.convert import checksum, kept_weights, load_kept_weights
from crwn.models.trained import set_trained, trained_weights

FORMAT = 1
DESCRIPTION = "model.json"
BANK = "bank.sqlite"
MOST_WEIGHTS = 2**33  # 32 GB
LARGEST_DESCRIPTION = 2**24  # bytes of model.json
AT_ONCE = 1000  # contexts copied together
WEIGHTS = "weights.safetensors"  # weights that no seed makes: of a converted module, or trained by a first task


def find_folder(path: str | Path, *, first: bool = False) -> Path:
    """The model folder or run folder at `path`: `path` itself, or the one run below it.

    A folder that is neither and holds the run of a single seed (`seed-0/`) stands for that run. Any other path is
    returned unchanged, so that opening it reports what is missing.

    Args:
        first: take the first of several seeds instead of raising an error.

    Raises:
        ModelError: it holds the runs of several seeds.
    """
    folder = Path(path)
    if any((folder / name).exists() for name in (DESCRIPTION, "config.json")):
        return folder
    seeds = sorted(found.parent for found in folder.glob("seed-*/config.json"))
    if len(seeds) > 1 and not first:
        names = ", ".join(seed.name for seed in seeds)
        raise ModelError(f"{folder} has the runs of {len(seeds)} seeds: give one of {names}, like {seeds[0]}")
    return seeds[0] if seeds else folder


def open_folder_bank(path: str | Path) -> Bank:
    """Open the bank of a model folder or run folder without building its model."""
    folder = find_folder(path)
    return open_bank(folder / BANK, model=read_description(folder)["fingerprint"], create=False)


def write_description(folder: Path, model: nn.Module) -> None:
    """Write `model.json`, and check it instead where it is there already."""
    if (folder / DESCRIPTION).exists():
        check_description(folder, model)
        return
    record = {"format": FORMAT, **network_of(model).record, "fingerprint": fingerprint(model)}
    trained = trained_weights(model)
    if trained:
        record["trained"] = checksum(trained)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Copies: a buffer may be a view of another, which the format does not take.
        kept = {name: value.cpu().contiguous().clone() for name, value in (trained or kept_weights(model)).items()}
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
        if path.stat().st_size > LARGEST_DESCRIPTION:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, the most are {LARGEST_DESCRIPTION:,}")
        record = json.loads(path.read_text())
    except FileNotFoundError:
        if (folder / "metrics.jsonl").exists():
            raise ModelError(
                f"{folder} has the record of a run but no {DESCRIPTION}: its contexts are missing, or its method "
                "learns none; do the run again to have them"
            ) from None
        raise ModelError(f"{folder} is not a model folder: it has no {DESCRIPTION}") from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): it is damaged; restore it with `crwn restore`") from None
    if not isinstance(record, dict) or not isinstance(record.get("fingerprint"), str):
        raise ModelError(f"{path} is not a model description: it is damaged; restore it with `crwn restore`")
    if record.get("format") != FORMAT:
        raise ModelError(f"{path} has format {record.get('format')!r}, this crwn reads {FORMAT}: update crwn")
    return record


def read_model(folder: Path, model: nn.Module | None = None) -> nn.Module:
    """Make the folder's model again from its seed (or take the given one) and compare fingerprints."""
    record = read_description(folder)
    if model is None:
        if record.get("kind") == "own":
            raise ModelError(
                f"{folder} belongs to a custom module: build the same module and pass it as model=, or use --module"
            )
        try:
            _check_sizes(record)
            model = build(record)
        except (TypeError, ValueError, OverflowError, RuntimeError, MemoryError) as error:
            raise ModelError(f"{folder / DESCRIPTION} does not describe a network ({error}): it is damaged") from None
        if "trained" in record:
            set_trained(model, _read_weights(folder, record["trained"]))
    elif record["fingerprint"] != fingerprint(model):
        _load_kept(folder, record, model)
    check_description(folder, model)
    return model


def _check_sizes(record: dict[str, Any]) -> None:
    """Raise ValueError for sizes whose frozen weights would not fit into memory, before any are made."""
    config = record.get("config")
    sizes: list[int] = []
    for key, value in config.items() if isinstance(config, dict) else ():
        if "seed" not in key:
            sizes += [abs(one) for one in (value if isinstance(value, list) else [value]) if type(one) is int]
    dense = isinstance(config, dict) and config.get("weights") != "hadamard"
    first, second = sorted([*sizes, 1, 1])[-2:]
    # One layer may join the two largest sizes, others the neighbours in the list of hidden layers.
    weights = max(first * second, sum(map(mul, sizes, sizes[1:]))) if dense else sum(sizes)
    free = free_memory()
    most = MOST_WEIGHTS if free is None else min(MOST_WEIGHTS, free // 4)  # 4 bytes each
    if weights > most:
        raise ValueError(f"sizes like {first} and {second} make more than {most:,} weights, the most memory has")


def _load_kept(folder: Path, record: dict[str, Any], model: nn.Module) -> None:
    """Load the weights stored in the folder into a module converted by the same call."""
    config = record.get("config")
    expected = config.get("kept") if isinstance(config, dict) else None
    if expected is None or not hasattr(model, "crwn_description"):
        return
    load_kept_weights(model, _read_weights(folder, expected))


def _read_weights(folder: Path, expected: object) -> dict[str, Tensor]:
    """The weights that are stored with a model, compared with the checksum of its description."""
    path = folder / WEIGHTS
    try:
        tensors = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} cannot be read ({error}): the frozen weights are stored there; restore it") from None
    if checksum(tensors) != expected:
        raise ModelError(f"{path} has other weights than {DESCRIPTION} describes: restore it with `crwn restore`")
    return tensors


def check_description(folder: Path, model: nn.Module) -> None:
    """Refuse a model that is not the one the folder was made with."""
    stored = read_description(folder)
    saved, here = stored["fingerprint"], fingerprint(model)
    if saved != here:
        what = "use the same architecture, weights and seed"
        config = network_of(model).config
        added = [key for key in ("constant", "mirrored") if config.get(key) and key not in (stored.get("config") or {})]
        if added and stored.get("config") == {key: config[key] for key in config if key not in added}:
            how = ", ".join(f"{key}=False" for key in added)
            what = f"the folder's has no {' or '.join(added)} input, like those of earlier versions: make it with {how}"
        raise ModelError(
            f"model folder {folder} was made with model {saved[:12]}..., this model is {here[:12]}...: {what}"
        )


def open_for(
    model: nn.Module, bank: str | Path | Bank | None, store: Store | None, made_by: str
) -> tuple[Bank, Path | None]:
    """The bank a learner stores its contexts in, and its model folder where it has one.

    Args:
        bank: as for `Learner`: nothing, a folder, an address, or a bank.
        made_by: the model's fingerprint.
    """
    if bank is not None and not isinstance(bank, str | Path):
        return bank, None
    if bank is None or "://" in str(bank):
        return open_bank(None if bank is None else str(bank), store=store, model=made_by), None
    folder = Path(bank)
    file = folder / BANK
    if file.exists() and not (folder / DESCRIPTION).exists():
        # A bank of another model is refused before anything is written beside it.
        open_bank(file, model=made_by).close()
    write_description(folder, model)
    return open_bank(file, store=store, model=made_by), folder


def check_bank(folder: Path) -> None:
    """Refuse a folder without contexts."""
    if not (folder / BANK).exists():
        raise DataError(f"{folder} has no {BANK}: its contexts are missing; restore it with `crwn restore`")


def read_checked(path: str | Path, model: nn.Module | None = None) -> tuple[Path, nn.Module]:
    """The model folder at a path or of the run there, and its model; its bank is checked."""
    folder = find_folder(path)
    found = read_model(folder, model)
    check_bank(folder)
    return folder, found


def write_folder(folder: Path, model: nn.Module, bank: Bank, made_by: str, forgotten: Collection[str]) -> None:
    """Write a model folder with all contexts of a bank, and drop the forgotten tasks that are in it: all or nothing.

    The contexts are one transaction, and a new folder gets its description last: killed at any moment, it has what it
    had before, or cannot be loaded until it is saved again.
    """
    if (folder / DESCRIPTION).exists():
        check_description(folder, model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot write model folder {folder}: {error.strerror or error}") from None
    with open_bank(folder / BANK, store=bank.store, model=made_by) as target:
        dropped = [name for name in set(forgotten) - set(bank.names()) if name in target]
        target.put_many(_all_contexts(bank), replace=True, delete=dropped)
    write_description(folder, model)


def _all_contexts(bank: Bank) -> Iterator[Context]:
    names = bank.names()
    for at in range(0, len(names), AT_ONCE):
        yield from bank.get_many(names[at : at + AT_ONCE])


def copy_contexts(source: Bank, target: Bank, *, replace: bool = False) -> None:
    """Copy all contexts of a bank to another, `AT_ONCE` at a time."""
    names = source.names()
    for at in range(0, len(names), AT_ONCE):
        target.put_many(source.get_many(names[at : at + AT_ONCE]), replace=replace)
