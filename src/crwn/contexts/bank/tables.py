"""The bank's tables. Payloads are in a table of their own, so that listing tasks does not read them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text

FORMAT = "1"

metadata = MetaData()

# Names are compared character by character on every database, so that pages and prefixes agree everywhere.
_name = Text().with_variant(Text(collation="C"), "postgresql")
# In SQLite only an INTEGER primary key is the row id itself.
_number = BigInteger().with_variant(Integer, "sqlite")

meta = Table("crwn_meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

# One row. Every writer updates it first, so writers follow one another and changes are numbered in the order
# in which they become visible; and counting a million tasks reads one row.
counters = Table(
    "crwn_counters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", _number, nullable=False),
    Column("tasks", _number, nullable=False),
)

# `sequence` is the number of the change that stored the bytes.
payloads = Table(
    "crwn_payloads",
    metadata,
    Column("sequence", _number, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

contexts = Table(
    "crwn_contexts",
    metadata,
    Column("sequence", _number, ForeignKey(payloads.c.sequence), primary_key=True, autoincrement=False),
    Column("name", _name, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created", Text, nullable=False),
    Column("numbers", _number, nullable=False),
    Column("bytes", _number, nullable=False),
    Column("classes", Text, nullable=False),
    Column("info", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Index("crwn_contexts_name", "name", unique=True),
)

# Replaced versions, if they are kept.
history = Table(
    "crwn_history",
    metadata,
    Column("name", _name, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("checksum", Text, nullable=False),
    Column("sequence", _number, ForeignKey(payloads.c.sequence), nullable=False),
)

# Deleted tasks: other processes must see the change, and a name that is used again must not repeat a version.
forgotten = Table(
    "crwn_forgotten",
    metadata,
    Column("name", _name, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("sequence", _number, nullable=False, index=True),
)
