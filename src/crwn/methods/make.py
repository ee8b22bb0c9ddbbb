"""Methods by name: the built-in ones, and those that installed packages register as entry points."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from crwn._utils import first_problem
from crwn.errors import ConfigError
from crwn.methods.backbone import BackboneMethod
from crwn.methods.batche import BatchE
from crwn.methods.ewc import EWC
from crwn.methods.file import method_in_file
from crwn.methods.finetune import Finetune
from crwn.methods.flynet import FlyNetMethod
from crwn.methods.method import Method
from crwn.methods.mtl import MTL
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.methods.psp import PSP
from crwn.methods.ranpac import RanPAC
from crwn.methods.replay import Replay
from crwn.methods.stl import STL
from crwn.methods.supsup import SupSup
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe

ENTRY_POINTS = "crwn.methods"
# Fields of a recipe that `--set` does not accept, and what to use instead.
ELSEWHERE = {
    "batches": "use --batches {value}",
    "epochs": "use --epochs {value}",
    "patience": "runs have no validation rows to stop early by",
    "check_every": "runs have no validation rows to stop early by",
}
M = TypeVar("M", bound=BaseModel)
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        NeuroModNetMethod,
        FlyNetMethod,
        BackboneMethod,
        SupSup,
        BatchE,
        PSP,
        STL,
        MTL,
        Finetune,
        EWC,
        Replay,
        RanPAC,
    )
}


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def method_names() -> list[str]:
    """The names of the built-in methods, then of those in installed packages."""
    return [*METHODS, *sorted(_registered().keys() - METHODS.keys())]


def find_method(name: str) -> type[Method]:
    """The class of the method with this name; raises `ConfigError` where there is none or it cannot be loaded."""
    if name in METHODS:
        return METHODS[name]
    if ".py:" in name:
        return method_in_file(name)
    registered = _registered()
    if name not in registered:
        raise ConfigError(f'unknown method "{name}"{_choices(name, method_names())}')
    point = registered[name]
    try:
        found = point.load()
    except Exception as error:  # importing a module can raise anything
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f'method "{name}" ({point.value}) cannot be loaded: {why}') from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise ConfigError(f'method "{name}" ({point.value}) is not a subclass of crwn.methods.Method')
    return found


def make_method(
    name: str,
    scenario: Scenario,
    *,
    size: str | None = None,
    seed: int = 0,
    settings: Mapping[str, str] | None = None,
) -> tuple[Method, dict[str, object]]:
    """Makes a method, and returns it with the recipe fields among `settings` (for `method.recipe(**fields)`).

    >>> from crwn.scenarios import make_scenario
    >>> scenario = make_scenario("rotated-digits", tasks=2)
    >>> method, overrides = make_method("flynet", scenario, settings={"gamma": "0.5", "rate": "0.02"})
    >>> method.options.gamma, overrides
    (0.5, {'rate': 0.02})

    Args:
        settings: values as strings, of options of the method or fields of the recipe (rate, schedule, batch_size, ...).

    Raises:
        ConfigError: unknown method, size, option or value; the message lists the choices.
    """
    found = find_method(name)
    options: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for key, value in (settings or {}).items():
        if key in found.Options.model_fields:
            options[key] = value
        elif key in Recipe.model_fields:
            overrides[key] = value
        else:
            choices = [*found.Options.model_fields, *(field for field in Recipe.model_fields if field not in ELSEWHERE)]
            raise ConfigError(f'{name} has no option "{key}"{_choices(key, choices)}')
    chosen = _parse(found.Options, options)
    method = found(scenario, size=size, seed=seed, options=chosen)
    return method, _recipe_settings(overrides)


def _recipe_settings(overrides: Mapping[str, str]) -> dict[str, object]:
    """These fields converted to the types of the recipe."""
    fields: dict[str, Any] = {key: (Recipe.model_fields[key].annotation, Recipe.model_fields[key]) for key in overrides}
    parsed = _parse(create_model("RecipeSettings", **fields), overrides)
    return {key: getattr(parsed, key) for key in overrides}


def _parse(kind: type[M], values: Mapping[str, str]) -> M:
    try:
        return kind(**values)
    except ValidationError as error:
        where, message, value = first_problem(error)
        raise ConfigError(f"{where}={value} is not possible: {message}") from None


def _choices(name: str, choices: Iterable[str]) -> str:
    names = list(choices)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f', did you mean "{near[0]}"?' if near else ""
    return f"{hint} (there are: {', '.join(names)})"
