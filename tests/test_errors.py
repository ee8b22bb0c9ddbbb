"""One family of errors, and what the package offers by name."""

from importlib.metadata import version
from typing import Any

import pytest

import crwn
from crwn import errors


def test_every_error_is_a_crwn_error() -> None:
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert {"CRWNError", "DataError", "TaskError", "ContextError", "ModelError", "BankError"} <= kinds.keys()
    assert [name for name, kind in kinds.items() if not issubclass(kind, errors.CRWNError | Warning)] == []


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert str(errors.MissingExtraError("serving", "serve")).endswith('pip install "crwn[serve]"')


def test_the_package_offers_its_names() -> None:
    names: dict[str, Any] = {}
    exec("from crwn import *", names)
    names.pop("__builtins__")
    assert sorted(names) == sorted(crwn.__all__) == dir(crwn)
    assert names.pop("__version__") == version("crwn")
    for name, value in names.items():
        assert value.__name__ == name
        assert value.__module__.startswith("crwn.")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = crwn.Nothing
