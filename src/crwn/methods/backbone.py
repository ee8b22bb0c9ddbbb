"""Contexts on a pretrained backbone: its features are computed once, and a task learns a modulated head on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pydantic import Field
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.data.standardize import Scaling
from crwn.errors import ConfigError
from crwn.layers import learned_parameters
from crwn.methods.contextual import ContextOptions, Contextual, Training
from crwn.methods.independent import float_bytes
from crwn.methods.method import Counts
from crwn.methods.sizes import has_images
from crwn.models.backbones import BackboneNet
from crwn.scenarios import Scenario, Task
from crwn.scenarios.rescale import rescaled, rescaled_rows
from crwn.training.checkpoint import Checkpoint
from crwn.training.exact.shared_head import UNITS
from crwn.training.loop import Callbacks
from crwn.training.recipe import Recipe, image_recipe, make_recipe

EPOCHS = 40  # of training=gradient, over features that are computed once


class BackboneMethod(Contextual):
    """`f = backbone(x)`, `y = R (alpha * v ⊙ [f, f, ...])`: a task learns v and alpha. The size is the backbone's name.

    Without a task (`--protocol class`) one head over all classes answers, in closed form on the backbone's features.
    """

    name = "backbone"
    sizes = ("efficientnet-lite0",)

    class Options(ContextOptions):
        training: Training = "exact"
        gains: int = Field(1, ge=1, le=100, description="gains that a task learns for every feature")
        units: int = Field(0, ge=0, le=50_000, description="frozen random units in the place of features")
        image_size: int = Field(96, ge=8, le=1024, description="height and width that the backbone computes with")
        head_units: int = Field(UNITS, ge=1, le=50_000, description="random units of the head over all classes")
        mirror: bool = Field(True, description="learn every training image and its mirror image")

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return cls.sizes[0]

    @property
    def settings(self) -> Options:
        return cast(BackboneMethod.Options, self.options)

    def network(self) -> BackboneNet:
        options = self.settings
        if not has_images(self.scenario):
            raise ConfigError(f"backbone takes images, but inputs of {self.scenario.name} are flat rows")
        return BackboneNet(
            self.size,
            self.scenario.num_classes,
            seed=self.seed,
            input_shape=self.scenario.input_shape,
            size=options.image_size,
            gains=options.gains,
            units=options.units,
            mirror=options.mirror,
            **options.modulated,
        )

    @property
    def head_units(self) -> int:  # type: ignore[override]
        return self.settings.head_units

    @property
    def _scaling(self) -> Scaling:
        """How the backbone's images are standardized, from bytes."""
        found = cast(BackboneNet, self.model).byte_scaling
        assert found is not None
        return found

    def recipe(self, **overrides: object) -> Recipe:
        if overrides.get("batches") is None and overrides.get("epochs") is None:
            overrides["epochs"] = EPOCHS
        given = {name: value for name, value in overrides.items() if value is not None}
        return make_recipe(**image_recipe() | {"compile": False} | given)

    def learn(
        self, tasks: Sequence[Task], recipe: Recipe, *, callbacks: Callbacks = (), checkpoint: Checkpoint | None = None
    ) -> None:
        ready = [rescaled(task, self._scaling) for task in tasks]
        super().learn(ready, recipe, callbacks=callbacks, checkpoint=checkpoint)

    def logits(self, task: Task, rows: Rows) -> Tensor:
        return super().logits(task, rescaled_rows(rows, self._scaling))

    def joint_logits(self, tasks: Sequence[Task], rows: Rows) -> Tensor | None:
        scaling = self._scaling
        return super().joint_logits([rescaled(task, scaling) for task in tasks], rescaled_rows(rows, scaling))

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        note = "a context is its float32 numbers; the backbone is an installed package and takes nothing"
        return Counts(own, own, float_bytes(own), f"{note}{self.training_note}")
