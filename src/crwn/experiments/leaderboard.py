"""Every table of a folder as a task of one model, with its accuracy beside scikit-learn's classifiers on the same rows.

A share of every table is held out to test with, or its own file of test rows is used. Nothing is chosen by those rows.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crwn.data.image_set import Array
from crwn.data.tables import Table, TableEncoding, labels_of, learn_encoding, read_csv
from crwn.data.tables.folder import TableFiles
from crwn.data.tables.frames import read_parquet
from crwn.errors import CRWNError, DataError
from crwn.layers.weights import named_generator
from crwn.learner import Learner
from crwn.learner.tables import held_out_share, table_network

FILE = "leaderboard.jsonl"
OURS = "crwn"
MARK = "learned_from_folder"  # in the facts of a context: the share of rows that it was not learned from


@dataclass(frozen=True)
class Reading:
    """How the files are read.

    Args:
        label: the column with the labels: its name, or "first" or "last".
        header: whether the first line of a file names the columns.
        ignore: columns that are no inputs, in the files that have them.
        test: share of the rows to test with, where there is no file of test rows.
        most: rows to learn from at most, drawn at random; None for all.
        seed: of the rows that are drawn.
    """

    label: str = "label"
    header: bool = True
    ignore: tuple[str, ...] = ()
    test: float = 0.25
    most: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Line:
    """What the leaderboard says of one table: percent of the test rows that are right, or why it was not learned."""

    task: str
    rows: int = 0
    tested: int = 0
    columns: int = 0
    classes: int = 0
    majority: float = 0.0
    accuracy: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Split:
    """A table in two parts, and how its columns become numbers."""

    train: Table
    test: Table
    encoding: TableEncoding
    labels: Array

    @property
    def classes(self) -> int:
        """The number of different labels to learn."""
        return len(set(self.labels.tolist()))


def read_split(files: TableFiles, how: Reading) -> Split:
    """Read a task's rows to learn from and to test with.

    Raises:
        DataError: a file cannot be read, or has too few rows.
    """
    table = _read(files.train, how)
    if files.test is None:
        test = max(1, round(how.test * len(table)))
        if len(table) - test < 2:
            raise DataError(f"{files.train} has {len(table)} rows: too few to learn from some and test with others")
        chosen, held = _parts(labels_of(table, table.label), test, how.seed)
        train, rest = table.select(chosen), table.select(held)
    else:
        order = named_generator("leaderboard", files.name, how.seed).permutation(len(table))
        train, rest = table.select(order.tolist()), _read(files.test, how)
    if how.most is not None:
        train = train.select(range(min(how.most, len(train))))
    return Split(train, rest, learn_encoding(train), labels_of(train, train.label))


def _read(path: Path, how: Reading) -> Table:
    parquet = path.suffix.lower() in (".parquet", ".pq")
    table = read_parquet(path) if parquet else read_csv(path, header=how.header)
    named = how.label
    if named in ("first", "last") and named not in table.names:
        named = table.names[0 if named == "first" else -1]
    if named not in table.names:
        raise DataError(
            f"{path} has no column {named!r}: name the column of the labels with --label, or give first or last"
        )
    return table.using(label=named, ignore=[name for name in how.ignore if name in table.names])


def _parts(labels: Array, test: int, seed: int) -> tuple[list[int], list[int]]:
    """Rows to learn from and `test` others, each with all classes in their usual shares where they are large enough."""
    from sklearn.model_selection import train_test_split

    counts = Counter(labels.tolist())
    enough = min(counts.values()) > 1 and len(counts) <= min(test, len(labels) - test)
    codes = np.unique(np.array([str(label) for label in labels.tolist()]), return_inverse=True)[1]
    rows = np.arange(len(labels))
    train, held = train_test_split(rows, test_size=test, stratify=codes if enough else None, random_state=seed)
    return train.tolist(), held.tolist()


def make_model(folder: Path, tables: Sequence[TableFiles], how: Reading, *, seed: int = 0) -> None:
    """Make a model folder that all tables fit into which can be read.

    Raises:
        DataError: none can be read; the error is that of the first.
    """
    inputs = outputs = rows = 0
    first: CRWNError | None = None
    for files in tables:
        try:
            split = read_split(files, how)
        except CRWNError as error:
            first = first or error
            continue
        inputs, outputs = max(inputs, split.encoding.width), max(outputs, split.classes)
        rows = max(rows, len(split.train))
    if not inputs:
        raise first or DataError("there are no tables")
    Learner(table_network(inputs, max(2, outputs), rows=rows, seed=seed), bank=folder).close()


def learn_tables(
    learner: Learner,
    folder: Path,
    tables: Sequence[TableFiles],
    how: Reading,
    *,
    replace: bool = False,
    peers: bool = True,
) -> Iterator[Line]:
    """Learn every table that is not learned yet and yield its line; lines are kept in the model folder.

    A table that cannot be learned has a line that says why, and the others go on.
    """
    known = read_lines(folder)
    for files in tables:
        found = known.get(files.name)
        if found is not None and found.error is None and files.name in learner.bank and not replace:
            yield found
            continue
        try:
            line = _learn(learner, files, how, replace=replace, peers=peers)
        except CRWNError as error:
            line = Line(files.name, error=str(error))
        with (folder / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")
        yield line


def read_lines(folder: Path) -> dict[str, Line]:
    """The newest line of every table that was tried before; a line that was not written to its end is left out."""
    path = folder / FILE
    lines: dict[str, Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            one = Line(**json.loads(text))
        except (ValueError, TypeError):
            continue
        lines[one.task] = one
    return lines


def _learn(learner: Learner, files: TableFiles, how: Reading, *, replace: bool, peers: bool) -> Line:
    name = files.name
    again = replace or (name in learner.bank and MARK in learner.context(name).info.user)
    split = read_split(files, how)
    began = time.perf_counter()
    learner.learn(
        name,
        split.train,
        replace=again and name in learner.bank,
        validation=held_out_share(len(split.train)),
        refit=True,
        info={MARK: how.test if files.test is None else files.test.name},
        progress=False,
    )
    seconds = time.perf_counter() - began
    wanted = labels_of(split.test, split.test.label).tolist()
    majority = Counter(split.labels.tolist()).most_common(1)[0][0]
    accuracy = {OURS: _right(learner.predict(split.test, task=name).tolist(), wanted)}
    if peers:
        accuracy |= _peers(split, wanted)
    return Line(
        name,
        rows=len(split.train),
        tested=len(split.test),
        columns=len(split.encoding.columns),
        classes=split.classes,
        majority=_right([majority] * len(wanted), wanted),
        accuracy=accuracy,
        seconds=round(seconds, 2),
    )


def _right(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Percent of predictions that are right."""
    return round(100 * sum(bool(a == b) for a, b in zip(found, wanted, strict=True)) / len(wanted), 2)


def _peers(split: Split, wanted: Sequence[Any]) -> dict[str, float]:
    """The accuracies of scikit-learn's classifiers with their defaults, on the same numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    makers: dict[str, Callable[[], Any]] = {
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "gradient boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    }
    x, test = split.encoding.apply(split.train), split.encoding.apply(split.test)
    y, values = [str(label) for label in split.labels.tolist()], [str(label) for label in wanted]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, make in makers.items():
            found[name] = _right(make().fit(x, y).predict(test).tolist(), values)
    return found
