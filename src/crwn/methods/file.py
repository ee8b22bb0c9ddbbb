"""A method that is a class in a Python file, `path/to/mine.py:Mine`, without a package around it."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from crwn.errors import ConfigError
from crwn.methods.method import Method


def method_in_file(name: str) -> type[Method]:
    """The class that `name` stands for: the path of a Python file, a colon, and the class.

    Raises:
        ConfigError: there is no such file or class, it is no `Method`, or the file cannot be imported.
    """
    place, _, kind = name.rpartition(":")
    path = Path(place)
    if not path.is_file():
        raise ConfigError(f'method "{name}": there is no file {path}')
    found = getattr(_module(path, name), kind, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        what = "has no class" if found is None else "has something else than a subclass of crwn.methods.Method at"
        raise ConfigError(f'method "{name}": {path} {what} {kind}')
    return found


def _module(path: Path, name: str) -> ModuleType:
    """The file as a module, imported once for each content of the file."""
    code = path.read_bytes()
    key = f"crwn_method_{path.stem}_{hashlib.sha256(str(path.resolve()).encode() + code).hexdigest()[:16]}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module  # classes of the file are found by their module's name
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[key]
        if not isinstance(error, Exception):
            raise
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f'method "{name}" cannot be loaded: {why}') from error
    return module
