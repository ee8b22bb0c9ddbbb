"""Reads all contexts that are not damaged, and lists those that are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crwn.contexts import Context
from crwn.contexts.bank.interface import Bank
from crwn.errors import BankError, ContextError, CRWNError


def get_readable(bank: Bank, names: Sequence[str]) -> tuple[list[Context], list[str]]:
    """The contexts of these tasks that can be read, in the same order, and one line for each that cannot.

    Raises:
        BankError: none of several can be read: the bank itself is damaged or cannot be reached.
    """
    try:
        return bank.get_many(names), []
    except (ContextError, BankError):
        found, problems = read_each(bank, names)
        if not found:
            raise
        return found, problems


def read_each(bank: Bank, names: Iterable[str]) -> tuple[list[Context], list[str]]:
    """Reads the tasks one by one: the contexts that can be read, and one line for each that cannot."""
    found: list[Context] = []
    problems: list[str] = []
    for name in names:
        try:
            found.append(bank.get(name))
        except CRWNError as error:
            problems.append(str(error))
    return found, problems


def damages(bank: Bank, names: Iterable[str]) -> list[str]:
    """One line for each of these tasks that cannot be read."""
    return [line for name in names for line in read_each(bank, [name])[1]]
