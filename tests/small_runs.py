"""Runs that take a second, and ways to stop them."""

from __future__ import annotations

from typing import Any

from crwn.experiments import RunConfig, RunProgress

SMALL: dict[str, Any] = {"scenario": "rotated-digits", "tasks": 5, "batches": 8, "threads": 1}
CONFIGS = {
    "neuromodnet": RunConfig(method="neuromodnet", size="64", **SMALL),
    "pretrained": RunConfig(method="neuromodnet", size="32", settings={"pretrained": "true"}, **SMALL),
    "finetune": RunConfig(method="finetune", size="32", matrix=True, **SMALL),
}
OTHERS = {
    name: RunConfig(method=name, size="2d" if name == "flynet" else "32", **SMALL)
    for name in ("flynet", "supsup", "batche", "psp", "stl", "mtl", "ewc", "replay")
}


class Death(BaseException):
    """Stands for a kill: nothing in the code may catch it."""


class DyingProgress(RunProgress):
    """Dies in the middle of learning."""

    def __init__(self, at: int) -> None:
        self.left = at

    def learning(self, first: int, last: int, done: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise Death
