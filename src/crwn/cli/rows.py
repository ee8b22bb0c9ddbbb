"""The rows of a data file for `crwn learn`: options for columns and images, and the notes about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from crwn.contexts import ContextInfo
    from crwn.contexts.kinds import Kind
    from crwn.learner import Learner

Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Column with the labels; `label` by default.")
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="Column that is not used; repeatable.")
]
AsText = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Column to read as text: sentences, which are embedded where crwn[text] is installed, or codes made of "
        "numbers, like postal codes; repeatable.",
    ),
]
ImageSize = Annotated[
    str | None, typer.Option("--image-size", metavar="N or WxH", help="Resize images to so many pixels.")
]


class FileToLearn:
    """A data file to learn from; its rows become numbers for a model that exists, or for one still to be made.

    Args:
        path: the file or folder.
        label, ignore, text: columns of a table, see the options.
        several: cells of the label column have any number of labels.
        size: see `--image-size`.
    """

    def __init__(
        self,
        path: Path,
        *,
        label: str | None = None,
        ignore: Sequence[str] = (),
        text: Sequence[str] = (),
        several: bool = False,
        size: str | None = None,
    ) -> None:
        from crwn.data import Table, progress_bar, read_file

        with progress_bar() as progress:
            given = read_file(path, progress=progress)
        self.path, self.x, self.y = path, given.x, given.y
        self.kind: Kind = "multilabel" if several else "classification"
        if isinstance(self.x, Table):
            if label is None and "label" not in self.x.names:
                raise DataError(
                    f"{path} has no column 'label': name the column of the labels with --label; "
                    f"it has {', '.join(self.x.names[:12])}"
                )
            self.x = self.x.using(label=label, ignore=ignore, text=text)
        elif label is not None or ignore or text:
            raise ConfigError(f"--label, --ignore and --text are for tables: {path} has no columns")
        elif self.y is None:
            raise ConfigError(f"{path} has no labels: learning needs one per row (y in .npz, a folder for each class)")
        if size is not None:
            self._resize(size)

    def rows(
        self, learner: Learner | None = None, task: str | None = None, shape: Sequence[int] | None = None
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Inputs, labels, and facts for the context.

        Args:
            learner: the learner of an existing model.
            task: the task of that model that is resumed, by whose facts the rows are encoded.
            shape: of images for a model that is still to be made; None leaves it to them.
        """
        from crwn.data import ImageFiles, Table, progress_bar
        from crwn.learner.encode import encode_to_learn

        if not isinstance(self.x, Table | ImageFiles):
            return self.x, self.y, {}
        known: ContextInfo | None = None if learner is None or task is None else learner.context(task).info
        shape = (shape if isinstance(self.x, ImageFiles) else None) if learner is None else learner.input_shape
        with progress_bar() as progress:
            x = replace(self.x, progress=progress) if isinstance(self.x, ImageFiles) else self.x
            if learner is not None and known is None and isinstance(x, ImageFiles) and x.size is None:
                known = _images_of(learner)
            kind = self.kind if task is None or known is None else known.kind
            return encode_to_learn(x, self.y, shape=shape, known=known, kind=kind)

    def notes(self) -> list[str]:
        """What the user should know about the file: columns that look like identifiers, texts that are not embedded."""
        from crwn.data import Table
        from crwn.data.tables import identifiers, learn_encoding
        from crwn.data.tables.learn import is_prose
        from crwn.data.tables.text_columns import EmbeddedColumn

        if not isinstance(self.x, Table):
            return []
        encoding = learn_encoding(self.x)
        found = [
            f"column {name!r} looks like an identifier: --ignore {name} leaves it out"
            for name in identifiers(self.x, encoding)
        ]
        embedded = {column.name for column in encoding.columns if isinstance(column, EmbeddedColumn)}
        plain = [name for name in self.x.text if name not in embedded]
        return found + [
            f'column {name!r} is encoded by its words alone: pip install "crwn[text]" to have its sentences embedded'
            for name in plain
            if is_prose(self.x.column(self.x.find(name)))
        ]

    def _resize(self, size: str) -> None:
        from crwn.data import ImageFiles

        width, _, height = size.partition("x")
        if not (width.isdecimal() and int(width) and (not height or (height.isdecimal() and int(height)))):
            raise ConfigError(f"--image-size {size}: give pixels, like 32 or 64x48 (width x height)")
        if not isinstance(self.x, ImageFiles):
            raise ConfigError(f"--image-size is for image files: {self.path} has none")
        self.x = replace(self.x, size=(int(width), int(height or width)))


def _images_of(learner: Learner) -> ContextInfo | None:
    """The facts of a task of this model that was learned from images: further tasks have their size."""
    return next((entry.info for entry in learner.bank.entries(limit=100) if entry.info.image is not None), None)
