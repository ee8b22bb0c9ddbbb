"""Banks store contexts: in memory, in SQLite inside the model folder, or in PostgreSQL for many machines."""

from __future__ import annotations

from pathlib import Path

from crwn.contexts import Store
from crwn.contexts.bank.interface import Bank, Change, Entry
from crwn.contexts.bank.memory import MemoryBank
from crwn.contexts.bank.readable import get_readable
from crwn.contexts.bank.resident import ResidentStack

__all__ = ["Bank", "Change", "Entry", "MemoryBank", "ResidentStack", "get_readable", "open_bank"]


def open_bank(
    where: str | Path | None,
    *,
    store: Store | None = None,
    model: str | None = None,
    create: bool = True,
    keep_versions: bool = False,
    wait: float = 30.0,
) -> Bank:
    """Open a bank of contexts.

    Args:
        where: path of an SQLite file, `sqlite:///path`, `postgresql://user@host/database`, or None for memory.
        store: dtype of contexts stored from now on: float32, float16 or int8; None for the one the bank was
            created with (float32 for a new one). Contexts of all dtypes can be read.
        model: fingerprint of the model; a bank of another model is refused. None for that of the first context.
        create: create the bank if there is none.
        keep_versions: replaced contexts stay readable by their version.
        wait: seconds to wait for other writers and for a server before giving up.

    Raises:
        BankError: it does not exist, is not a bank, is damaged, of another model, or cannot be reached.
    """
    if where is None:
        return MemoryBank(store=store, model=model, keep_versions=keep_versions)
    from crwn.contexts.bank.sql import SqlBank  # the database toolkit is not loaded by `import crwn`

    return SqlBank(where, store=store, model=model, create=create, keep_versions=keep_versions, wait=wait)
