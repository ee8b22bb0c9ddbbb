"""`--backbone` of `crwn learn`: a new model on the features of a pretrained network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.errors import ConfigError

if TYPE_CHECKING:
    from crwn.learner import Learner
    from crwn.models import BackboneNet, ImageBackbone

Backbone = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        metavar="NAME",
        help="Pretrained network whose features a new model takes: efficientnet-lite0, for images; --image-size sets "
        "the pixels it computes with, 96 by default.",
    ),
]
Depth = Annotated[
    str | None,
    typer.Option(
        "--depth",
        metavar="head|last|all",
        help="Layers of a new model's backbone that tasks modulate: head (default; its features are computed once), "
        "last (its last blocks too) or all. More take longer to learn, and rarely help small tasks.",
    ),
]
DEPTHS = ("head", "last", "all")
NOT_WITH_IT = ("model", "weights", "size")


def image_backbone(name: str, wanted: Mapping[str, Any], image_size: str | None) -> ImageBackbone:
    """The backbone that a new model is made with.

    Raises:
        ConfigError: options that do not go with a backbone, a size that is no number, or an unknown name.
        MissingExtraError: its packages are not installed.
    """
    from crwn.models import load_backbone
    from crwn.models.backbones.text import NAME

    if name == NAME:
        raise ConfigError(f"--backbone {NAME} is for texts: leave it out, and name their column with --text")
    for option in NOT_WITH_IT:
        if option in wanted:
            raise ConfigError(f"--{option} is for networks without a backbone: leave it out with --backbone {name}")
    if image_size is None:
        return load_backbone(name)
    if not image_size.isdecimal():
        raise ConfigError(f"--image-size {image_size}: a backbone takes square images, give pixels like 96")
    return load_backbone(name, size=int(image_size))


def backbone_network(
    backbone: ImageBackbone, shape: tuple[int, ...], found: int, wanted: Mapping[str, Any]
) -> BackboneNet:
    """A network for images of this shape on a backbone.

    Args:
        shape: `(height, width)` or `(channels, height, width)`; `(height, width, channels)` too.
        found: the classes of the data.
    """
    from crwn.models import BackboneNet, DeepBackboneNet

    if len(shape) == 3 and shape[0] not in (1, 3) and shape[2] in (1, 3):
        shape = (shape[2], *shape[:2])
    if len(shape) not in (2, 3):
        raise ConfigError(
            f"--backbone {backbone.name} takes images, the data has rows of shape {shape}: leave it out, or give images"
        )
    # As many gains as a linear classifier of these classes needs; more than four hardly help, and cost time to learn.
    gains = min(4, max(1, wanted.get("classes", found) - 1))
    head: dict[str, Any] = {"units": wanted["hidden"]} if "hidden" in wanted else {"gains": gains}
    classes, depth = wanted.get("classes", max(10, found)), wanted.get("depth", "head")
    shape = shape if len(shape) == 3 else (1, *shape)
    settings: dict[str, Any] = {"seed": wanted.get("seed", 0), "size": backbone.size, "input_shape": shape, **head}
    if depth == "head":
        return BackboneNet(backbone.name, classes, **settings)
    return DeepBackboneNet(backbone.name, classes, depth=depth, **settings)


def check_depth(depth: str | None, *, backbone: str | None, new: bool) -> None:
    """Raise ConfigError for an unknown depth, and for one of a new model without a backbone."""
    if depth is not None and depth not in DEPTHS:
        raise ConfigError(f"--depth {depth}: choose one of {', '.join(DEPTHS)}")
    if depth is not None and new and backbone is None:
        raise ConfigError(f"--depth {depth} is for models on a backbone: give --backbone too")


def learn_head_first(
    learner: Learner, task: str, x: Any, y: Any, options: Mapping[str, Any], *, replace: bool, info: Mapping[str, Any]
) -> None:
    """Learn the head of a modulated backbone in closed form: gradient steps on all layers begin there.

    Rows that are held out afterwards are held out here as well.
    """
    given = {name: options[name] for name in ("validation", "class_weight") if options.get(name) is not None}
    learner.learn(task, x, y, method="exact", replace=replace, info=dict(info), progress=False, **given)
