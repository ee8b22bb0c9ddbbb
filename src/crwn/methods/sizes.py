"""Sizes of networks: the `--size` of a run, checked and turned into widths, and the shape of a scenario's inputs."""

from __future__ import annotations

from typing import TypedDict

from crwn.errors import ConfigError
from crwn.scenarios import Scenario

DEPTH = 2  # hidden layers of the paper's fully connected networks
REDUCED_WIDTH, STANDARD_WIDTH = 10, 64  # channels of the first stage of ResNet-18
SMALLEST_SIDE = 16  # three strides of 2 leave 2 x 2; batch norm of a single value in the last batch is not defined
STANDARD_SIDE = 64  # images from this side on get the standard stem, which reduces the resolution four times


class ResNetShape(TypedDict):
    """Arguments of `ResNet18` that depend on the images and the size."""

    width: int
    stem: str
    channels: int


def has_images(scenario: Scenario) -> bool:
    """Whether inputs keep the shape of images (convolutional networks) instead of being flat rows."""
    return len(scenario.input_shape) > 1


def flat_features(scenario: Scenario, *, method: str) -> int:
    """Features of an input row; raises `ConfigError` where inputs are images."""
    if has_images(scenario):
        raise ConfigError(
            f"{method} takes flat rows, but inputs of {scenario.name} have the shape {scenario.input_shape}"
        )
    return scenario.input_shape[0]


def width(size: str, *, method: str) -> int:
    """The width of the hidden layers, for a size like "256"."""
    number = _positive(size)
    if number is None:
        raise ConfigError(f'{method} has no size "{size}": give the width of its hidden layers, like 256 or 1024')
    return number


def multiple(size: str, *, method: str) -> int:
    """The multiple of the input features, for a size like "10d"."""
    number = _multiple(size)
    if number is None:
        raise ConfigError(f'{method} has no size "{size}": give a multiple of the number of inputs, like 10d or 40d')
    return number


def resnet_shape(scenario: Scenario, size: str, *, method: str) -> ResNetShape:
    """Width, stem and channels of the ResNet-18 for these images; a size like "2d" doubles the usual width."""
    number = _multiple(size)
    if number is None:
        raise ConfigError(
            f'{method} has no size "{size}" for images: give a multiple of the usual width, like 1d or 2d'
        )
    channels, *sides = scenario.input_shape
    if len(sides) != 2:
        raise ConfigError(f"{method} takes images, but inputs of {scenario.name} have the shape {scenario.input_shape}")
    if min(sides) < SMALLEST_SIDE:
        raise ConfigError(
            f"images of {scenario.name} have {sides[0]} x {sides[1]} pixels, ResNet-18 needs {SMALLEST_SIDE} x "
            f"{SMALLEST_SIDE}: enlarge them, or learn them as flat rows"
        )
    standard = min(sides) >= STANDARD_SIDE
    return {
        "width": (STANDARD_WIDTH if standard else REDUCED_WIDTH) * number,
        "stem": "standard" if standard else "small",
        "channels": channels,
    }


def _positive(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _multiple(size: str) -> int | None:
    return _positive(size.removesuffix("d")) if size.endswith("d") else None
