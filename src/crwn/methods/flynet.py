"""FlyNet: a fixed sparse random encoder, and a decoder modulated by the task's context (the paper's method)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pydantic import Field
from torch import nn

from crwn.errors import ConfigError
from crwn.layers import learned_parameters
from crwn.methods.contextual import ContextOptions, Contextual
from crwn.methods.independent import float_bytes, prepared
from crwn.methods.method import Counts
from crwn.methods.published import TunedOptions, published_recipe, tuned
from crwn.methods.sizes import flat_features, has_images, multiple
from crwn.models import FlyNet, ImageFlyNet
from crwn.models.image_flynet import ImageStructure, best_image_structure, filters_for
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.exact.linear import is_linear, learn_linear
from crwn.training.loop import Callbacks
from crwn.training.recipe import Recipe, image_recipe, make_recipe
from crwn.training.stacking import stack_size

BEST_DECAY = 2e-4  # chosen on held-out training images: averaged features need less than mirrored copies
IMAGE_EPOCHS = 40  # over features that are computed once: the paper's 250 epochs are for convolutional networks


class FlyNetMethod(Contextual):
    """`h = relu(E x - gamma * mean(E x))`, `y = alpha * (R ⊙ v) h`: a task learns v and alpha of the decoder.

    Images have frozen filters in the place of E (`ImageFlyNet`), and sizes by the number of learned parameters.
    """

    name = "flynet"
    sizes = ("10d", "20d", "30d", "40d", "5k", "10k", "20k", "30k")

    class Options(ContextOptions, TunedOptions):
        inputs_per_node: int = Field(7, ge=1)
        gamma: float = 1.0

    @property
    def settings(self) -> Options:
        return cast(FlyNetMethod.Options, self.options)

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "5k" if has_images(scenario) else "10d"

    @property
    def hidden(self) -> int:
        return multiple(self.size, method=self.name) * flat_features(self.scenario, method=self.name)

    def network(self) -> nn.Module:
        options = self.settings
        if has_images(self.scenario):
            return self._image_network()
        return FlyNet(
            flat_features(self.scenario, method=self.name),
            self.hidden,
            self.scenario.num_classes,
            seed=self.seed,
            inputs_per_node=options.inputs_per_node,
            gamma=options.gamma,
            **options.modulated,
            constant=options.constant,
            mirrored=False,
        )

    def _image_network(self) -> nn.Module:
        options = self.settings
        given = options.model_fields_set & {"inputs_per_node", "gamma", "constant"}
        if given:
            raise ConfigError(f"{', '.join(sorted(given))}: for flat rows only; images are encoded by frozen filters")
        return ImageFlyNet(
            self.scenario.input_shape,
            self.scenario.num_classes,
            seed=self.seed,
            **self._image_structure(),
            **options.modulated,
        )

    def _image_structure(self) -> ImageStructure:
        if self.settings.recipe == "best":
            return best_image_structure(self.size, self.scenario.num_classes)
        return {"filters": filters_for(self.size)}

    @property
    def linear(self) -> bool:
        """Whether tasks are learned in closed form because the decoder of the preset is any linear classifier."""
        options = self.settings
        return (
            options.recipe == "best"
            and "training" not in options.model_fields_set
            and has_images(self.scenario)
            and is_linear(self.model, self.scenario.num_classes)
        )

    @property
    def closed_form(self) -> bool:
        return super().closed_form or self.linear

    def train_stack(
        self, tasks: Sequence[Task], recipe: Recipe, callbacks: Callbacks, checkpoint: Checkpoint | None
    ) -> None:
        if not self.linear:
            super().train_stack(tasks, recipe, callbacks, checkpoint)
            return
        for task in tasks:
            self.store(task, learn_linear(self.model, prepared(task)))

    def recipe(self, **overrides: object) -> Recipe:
        if has_images(self.scenario):
            if overrides.get("batches") is None and overrides.get("epochs") is None:
                overrides["epochs"] = IMAGE_EPOCHS
            settings = image_recipe() | {"compile": False}
            if self.settings.recipe == "best":
                settings["weight_decay"] = BEST_DECAY
            settings |= {name: value for name, value in overrides.items() if value is not None}
            return make_recipe(**settings)
        best = tuned(self.name, self.options, self.scenario)
        return published_recipe(self.scenario, best | overrides, rate=0.01, image_rate=0.1)

    @property
    def stack_size(self) -> int:
        return 1 if self.closed_form or has_images(self.scenario) else stack_size(self.hidden)

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        note = "a context is its float32 numbers; encoder and frozen weights come from the seed and take nothing"
        return Counts(own, own, float_bytes(own), f"{note}{self.training_note}")
