"""How a task is trained, as plain data: optimizer, learning rate, schedule, batches."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crwn._utils import validated
from crwn.errors import ConfigError

SCHEDULES = ("constant", "cosine", "onecycle")


class Recipe(BaseModel):
    """Settings of the training loop; the defaults are the paper's for MNIST.

    >>> Recipe(batches=1000).steps(rows=60_000)
    1000
    >>> Recipe(epochs=2).steps(rows=60_000)
    938
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    optimizer: Literal["rmsprop", "adam", "sgd"] = "rmsprop"
    rate: float = Field(0.01, gt=0)
    schedule: Literal["constant", "cosine", "onecycle"] = "constant"
    batch_size: int = Field(128, ge=1)
    batches: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread evenly over all classes")
    precision: Literal["float32", "bf16"] = Field(
        "float32", description="of products and activations while a task is trained: bf16 needs AVX512_BF16 or AMX"
    )
    exact_alpha: bool | None = Field(
        None,
        description="compute gradients of alpha before batch norm without rounding; by default in bf16 only",
    )
    compile: bool = Field(False, description="use torch.compile: pays for long tasks of convolutional networks")
    patience: int = Field(5, ge=1, description="checks without a better validation loss before a task stops")
    check_every: int | None = Field(
        None, ge=1, description="batches between validation checks; an epoch by default, or a twentieth of all if more"
    )

    def __init__(self, **fields: Any) -> None:
        if unknown := [name for name in fields if name not in type(self).model_fields]:
            raise ConfigError(f'unknown recipe field "{unknown[0]}": choose from {", ".join(type(self).model_fields)}')
        super().__init__(**fields)

    @model_validator(mode="after")
    def _one_length(self) -> Recipe:
        if self.batches is not None and self.epochs is not None:
            raise ValueError(f"both batches ({self.batches}) and epochs ({self.epochs}) are given: give one of them")
        if self.momentum and self.optimizer == "adam":
            raise ValueError(f"momentum ({self.momentum}) is for rmsprop and sgd: adam has its own")
        return self

    @property
    def uses_exact_alpha(self) -> bool:
        """Whether gradients of alpha before batch norm are computed without rounding."""
        return self.precision == "bf16" if self.exact_alpha is None else self.exact_alpha

    def steps(self, rows: int) -> int:
        """The number of batches for a task of this many rows; 1,000 where neither batches nor epochs are given."""
        if self.epochs is not None:
            return self.epochs * math.ceil(rows / self.batch_size)
        return self.batches or 1000

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of one step: a pure function of the step, so that resuming needs no state."""
        if self.schedule == "constant":
            return self.rate
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        warm = 0.2 * steps
        if step < warm:
            return self.rate * (0.04 + 0.96 * step / warm)
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


class BestRecipe(TypedDict):
    """The settings of the preset "best"."""

    optimizer: str
    rate: float
    schedule: str


def best_recipe(*, normed: bool) -> BestRecipe:
    """Optimizer, rate and schedule of the preset "best"; higher rates work where hidden rows are normalized."""
    if normed:
        return {"optimizer": "adam", "rate": 0.03, "schedule": "onecycle"}
    return {"optimizer": "rmsprop", "rate": 0.02, "schedule": "cosine"}


def image_recipe() -> dict[str, object]:
    """How a decoder is trained on features of images: the regularization matters, features outnumber images."""
    return {"optimizer": "adam", "rate": 0.02, "schedule": "cosine", "weight_decay": 1e-3, "label_smoothing": 0.1}


def residual_recipe() -> dict[str, object]:
    """How residual blocks on a frozen stem are trained (`WhitenedResNet`): many small steps in few epochs."""
    return {"optimizer": "adam", "rate": 0.3, "schedule": "cosine", "batch_size": 50, "epochs": 25}


def deep_recipe(rate: float) -> dict[str, object]:
    """How contexts inside a backbone are trained: a few epochs from what the closed form found for its head."""
    return {"optimizer": "adam", "rate": rate, "schedule": "cosine", "batch_size": 64, "epochs": 5}


def make_recipe(**settings: Any) -> Recipe:
    """A recipe from keyword settings.

    Raises:
        ConfigError: a setting is wrong; the message names it and its value.
    """
    return validated(Recipe, settings)
