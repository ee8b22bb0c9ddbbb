"""Tables from data frames: pandas, polars and pyarrow, none of which has to be installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crwn.data.bounded import check_memory
from crwn.data.tables.table import Cells, Table, table_of_columns
from crwn.errors import DataError, MissingExtraError

_KINDS = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}


def is_frame(x: Any) -> bool:
    """Whether a value is a data frame of pandas or polars, or a table of pyarrow."""
    return any((base.__module__.partition(".")[0], base.__name__) in _KINDS for base in type(x).__mro__)


def table_of(frame: Any, source: str = "the frame") -> Table:
    """A frame's columns by name. Columns of numbers stay arrays, all others become lists of Python values."""
    if isinstance(frame, Table):
        return frame
    if hasattr(frame, "iloc"):  # pandas
        columns = [_pandas_cells(frame.iloc[:, at]) for at in range(frame.shape[1])]
        names = [str(name) for name in frame.columns]
    elif hasattr(frame, "column_names"):  # pyarrow
        columns = [_arrow_cells(column) for column in frame.columns]
        names = list(frame.column_names)
    else:  # polars
        columns = [_polars_cells(column) for column in frame.get_columns()]
        names = list(frame.columns)
    return table_of_columns(source, names, columns)


def read_parquet(path: Path) -> Table:
    """The table of a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Parquet files", "parquet") from None
    try:
        facts = parquet.read_metadata(path)
        unpacked = sum(facts.row_group(at).total_byte_size for at in range(facts.num_row_groups))
        check_memory(max(unpacked, 8 * facts.num_rows * facts.num_columns), str(path))
        return table_of(parquet.read_table(path), str(path))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({' '.join(str(error).split())[:120]})") from None


def _pandas_cells(column: Any) -> Cells:
    if getattr(column.dtype, "kind", "O") in "iuf" and isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    cells: Cells = column.tolist()
    return cells


def _polars_cells(column: Any) -> Cells:
    if column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count():
        return np.asarray(column.to_numpy())
    cells: Cells = column.to_list()
    return cells


def _arrow_cells(column: Any) -> Cells:
    from pyarrow import types

    if (types.is_integer(column.type) or types.is_floating(column.type)) and not column.null_count:
        return np.asarray(column.to_numpy())
    cells: Cells = column.to_pylist()
    return cells
