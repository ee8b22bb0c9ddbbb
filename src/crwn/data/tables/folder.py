"""A folder of tables: one file, or a file to train with and one to test with, for every task."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crwn.errors import DataError

ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".dat", ".parquet", ".pq")
_PART = re.compile(r"^(?P<name>.+?)[-_.](?P<part>train|test)$", re.IGNORECASE)


@dataclass(frozen=True)
class TableFiles:
    """The files of one task.

    Args:
        name: of the task: the file's name without its ending, and without `_TRAIN`.
        train: the file with the rows to learn from.
        test: the file with the rows to test with; None where a share of the rows is held out for that.
    """

    name: str
    train: Path
    test: Path | None = None


def find_tables(folder: Path, chosen: Callable[[Path], bool] | None = None) -> list[TableFiles]:
    """The tables in a folder and the folders below it, by the names of their tasks.

    `NAME_TRAIN.tsv` and `NAME_TEST.tsv` are one task; a file of another name is a task of its own.

    Args:
        chosen: whether a file is a table; by default those with the endings in `ENDINGS`, gzipped or not.

    Raises:
        DataError: there is no such folder, no table in it, or two of them have one name.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give one with a table for every task")
    chosen = chosen or _is_table
    files = sorted(path for path in folder.rglob("*") if path.is_file() and chosen(path))
    names = {path: _name(path) for path in files}
    parts = {(match["name"], match["part"].lower()) for name in names.values() if (match := _PART.match(name))}
    train: dict[str, Path] = {}
    test: dict[str, Path] = {}
    for path, name in names.items():
        match = _PART.match(name)
        paired = match is not None and {(match["name"], "train"), (match["name"], "test")} <= parts
        task = match["name"] if match is not None and paired else name
        into = test if match is not None and paired and match["part"].lower() == "test" else train
        if task in into:
            raise DataError(f'{into[task]} and {path} would both be task "{task}": rename one of them')
        into[task] = path
    if not train:
        raise DataError(f"{folder} has no tables: give one with files such as {_listed(ENDINGS)}")
    return [TableFiles(task, path, test.get(task)) for task, path in sorted(train.items())]


def _is_table(path: Path) -> bool:
    return Path(path.name.lower().removesuffix(".gz")).suffix in ENDINGS


def _name(path: Path) -> str:
    plain = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return Path(plain).stem


def _listed(endings: Sequence[str]) -> str:
    return ", ".join(f"*{ending}" for ending in endings)
