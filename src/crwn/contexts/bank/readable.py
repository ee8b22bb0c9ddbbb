"""Reads what can be read: one damaged task must not take a map or a list of all others with it."""

from __future__ import annotations

from collections.abc import Sequence

from crwn.contexts import Context
from crwn.contexts.bank.interface import Bank
from crwn.errors import BankError, ContextError


def get_readable(bank: Bank, names: Sequence[str]) -> tuple[list[Context], list[str]]:
    """The contexts of these tasks that can be read, in the same order, and one line for each that cannot.

    Raises:
        BankError: none of several can be read: the bank itself is damaged or cannot be reached.
    """
    try:
        return bank.get_many(names), []
    except (ContextError, BankError):
        found: list[Context] = []
        problems: list[str] = []
        for name in names:
            try:
                found.append(bank.get(name))
            except (ContextError, BankError) as error:
                problems.append(str(error))
        if not found:
            raise
        return found, problems
