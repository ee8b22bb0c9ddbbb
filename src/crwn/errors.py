"""Every error crwn raises on purpose: what was wrong, the values, and what to do."""

import re

_PASSWORDS = re.compile(r"(?P<user>:/{1,2}[^\s:/@]*:)[^\s@]+(?P<host>@)|(?P<key>password=)[^\s&'\"]+", re.IGNORECASE)


def hide_passwords(text: str) -> str:
    """A text without the passwords of the addresses in it, whichever way they are written.

    >>> hide_passwords("postgresql://me:secret@host/bank and postgresql://me@host/bank?password=secret&port=1")
    'postgresql://me:***@host/bank and postgresql://me@host/bank?password=***&port=1'
    """
    return _PASSWORDS.sub(lambda found: f"{found['user'] or found['key']}***{found['host'] or ''}", text)


class CRWNError(Exception):
    """The parent of all errors crwn raises on purpose; its text is one line for the user."""


class StoppedError(CRWNError):
    """Ctrl-C stopped the work; everything finished before is saved."""


class DataError(CRWNError):
    """Inputs or labels that cannot be used: shapes, kinds, NaNs, damaged or missing files."""


class TaskError(CRWNError):
    """A task's name is unknown, taken, or not allowed."""


class TaskExistsError(TaskError):
    """A task of this name exists, and replacing it was not requested."""


class ContextError(CRWNError):
    """A context is damaged, or belongs to another model."""


class ModelError(CRWNError):
    """A model cannot be built, or is not the one that was saved."""


class BankError(CRWNError):
    """The bank cannot be opened, read or written."""


class ConfigError(CRWNError):
    """An option or setting has a value that is not allowed."""


class MissingExtraError(CRWNError):
    """A part of crwn needs a package that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs packages that are not installed: pip install "crwn[{extra}]"')


class ScaleWarning(UserWarning):
    """Rows to predict are far from the scale of those that their task learned from."""
