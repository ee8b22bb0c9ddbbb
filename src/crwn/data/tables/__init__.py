"""Tables by column name: CSV, Parquet, frames and objects, and the encoding that makes numbers of their columns.

`table.py` is what a table is, `csv_file.py` and `frames.py` read one, `cells.py` parses cells, `columns.py` and
`text_columns.py` have one class per kind of column, `encoding.py` joins them, `learn.py` finds the encoding of
training rows.
"""

from crwn.data.tables.csv_file import read_csv
from crwn.data.tables.encoding import TableEncoding
from crwn.data.tables.frames import is_frame, table_of
from crwn.data.tables.labels import labels_of
from crwn.data.tables.learn import identifiers, learn_encoding
from crwn.data.tables.table import Table, is_texts, table_of_objects, table_of_texts

__all__ = [
    "Table",
    "TableEncoding",
    "identifiers",
    "is_frame",
    "is_texts",
    "labels_of",
    "learn_encoding",
    "read_csv",
    "table_of",
    "table_of_objects",
    "table_of_texts",
]
