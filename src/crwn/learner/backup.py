"""A model folder as one file: a consistent copy of its bank, also while others write to it, and all files beside it.

The file is a zip (stored, not compressed) with `backup.json`, which has the SHA-256 of every file. Copying the folder's
files by hand is not enough: a bank that is in use keeps its last changes in a log beside it (`bank.sqlite-wal`), and a
copy that is put back beside the log of another bank is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import sqlite3
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from crwn._utils import atomic_file, counted, sync_folder
from crwn.contexts.bank import open_bank
from crwn.contexts.bank.failures import as_bank_error
from crwn.errors import BankError, ModelError
from crwn.learner.folder import BANK, DESCRIPTION, find_folder, read_description

FORMAT = 1
RECORD = "backup.json"
_BLOCK = 1 << 20


def back_up(place: str | Path, file: str | Path) -> dict[str, Any]:
    """Write the model folder to one file, which is there whole or not at all; returns counts of tasks and bytes.

    Raises:
        ModelError: it is no model folder, or the file cannot be written.
        BankError: a context in the bank is damaged.
    """
    folder, target = find_folder(place), Path(file)
    made_by = read_description(folder)["fingerprint"]
    if target.exists() and not target.is_file():
        raise ModelError(f"cannot write backup {target}: it is no file; give the name of a new one")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as scratch, atomic_file(target) as out:
            copy = Path(scratch) / BANK
            _copy_bank(folder / BANK, copy)
            with open_bank(copy, model=made_by, create=False) as bank:
                damaged, tasks = bank.verify(), len(bank)
            if damaged:
                raise BankError(f"{folder}, damaged: {counted(len(damaged), 'task')}; nothing is written: {damaged[0]}")
            sources = {BANK: copy} | {str(one.relative_to(folder)): one for one in _files(folder)}
            checksums = {}
            with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
                for name, source in sorted(sources.items()):
                    archive.write(source, name)
                    checksums[name] = _checksum(source)
                record = {"format": FORMAT, "fingerprint": made_by, "tasks": tasks, "files": checksums}
                archive.writestr(RECORD, json.dumps(record, indent=1))
    except OSError as error:
        raise ModelError(f"cannot write backup {target}: {error.strerror or error}: choose another place") from None
    return {"tasks": tasks, "bytes": target.stat().st_size}


def restore(file: str | Path, place: str | Path, *, replace: bool = False) -> dict[str, Any]:
    """Make a model folder of a backup; a folder of that name is there whole, the old or the new one.

    Raises:
        ModelError: the file is no backup or is damaged, or the folder exists and `replace` is False.
    """
    source, folder = Path(file), Path(place)
    if folder.exists() and not replace:
        raise ModelError(f"{folder} exists: choose another name, or --replace to put the backup in its place")
    scratch = folder.with_name(f".{folder.name[:20]}.{secrets.token_hex(8)}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch.mkdir()
        record = _unpack(source, scratch)
        aside = folder.with_name(f".{folder.name[:20]}.{secrets.token_hex(8)}.old")
        if folder.exists():
            folder.rename(aside)  # whole, with its log: a server that has it open notices
        scratch.rename(folder)
        sync_folder(folder.parent)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise ModelError(f"cannot restore {source} to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"tasks": record["tasks"]}


def _copy_bank(path: Path, target: Path) -> None:
    """A consistent copy of a bank, also while it is written."""
    if not path.exists():
        raise ModelError(f"{path} is not there: there is nothing to back up")
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as error:
        raise as_bank_error("back up", str(path), error) from None


def _files(folder: Path) -> list[Path]:
    """All files of a model folder but its bank, the bank's log and what an interrupted write left."""
    found = [one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()]
    return [one for one in found if not one.name.startswith((BANK, ".")) and one.name != RECORD]


def _unpack(source: Path, scratch: Path) -> dict[str, Any]:
    wrong = f"{source} is damaged or no backup of crwn"
    try:
        with zipfile.ZipFile(source) as archive:
            record = json.loads(archive.read(RECORD))
            if record["format"] != FORMAT:
                raise ModelError(f"{source} has format {record['format']!r:.20}, this crwn reads {FORMAT}: update crwn")
            files = dict(record["files"])
            if not {BANK, DESCRIPTION} <= files.keys() or set(archive.namelist()) != {*files, RECORD}:
                raise ModelError(f"{wrong}: it does not have the files that it lists: use another backup")
            for name, expected in files.items():
                packed_as = archive.getinfo(name)
                if packed_as.compress_type != zipfile.ZIP_STORED or packed_as.file_size != packed_as.compress_size:
                    raise ModelError(f"{wrong}: {name!r:.60} is compressed, which backups are not: use another backup")
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts:
                    raise ModelError(f"{wrong}: it has a file named {name!r:.60}: use another backup")
                target = scratch / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as packed, atomic_file(target) as out:
                    shutil.copyfileobj(packed, out, _BLOCK)
                if _checksum(target) != expected:
                    raise ModelError(f"{wrong}: {name} has another checksum than it had: use another backup")
    except FileNotFoundError:
        raise ModelError(f"there is no backup {source}: check the path") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, EOFError, RecursionError) as error:
        raise ModelError(f"{wrong} ({error}): use another backup") from None
    if read_description(scratch)["fingerprint"] != record.get("fingerprint"):
        raise ModelError(f"{wrong}: its model is another one than it lists: use another backup")
    return dict(record)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
