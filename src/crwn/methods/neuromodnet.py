"""NeuroModNet: frozen random weights in every layer, modulated by the task's context (the paper's method)."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import Field
from torch import nn

from crwn.errors import ConfigError
from crwn.layers import learned_parameters
from crwn.methods.contextual import ContextOptions, Contextual
from crwn.methods.independent import float_bytes, statistics_note, stored_values
from crwn.methods.method import Counts
from crwn.methods.published import published_recipe
from crwn.methods.sizes import DEPTH, flat_features, has_images, multiple, resnet_shape, width
from crwn.models import NeuroModNet, NeuroModResNet, WhitenedResNet, best_structure
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe, best_recipe, residual_recipe


class NeuroModNetMethod(Contextual):
    """`x_{l+1} = g(alpha_l * (R_l ⊙ v_l) x_l)`: a task learns v and alpha of every layer."""

    name = "neuromodnet"
    sizes = ("256", "512", "1024", "2048", "4096", "1d", "2d", "4d", "6d")

    class Options(ContextOptions):
        weights: Literal["gaussian", "hadamard", "patches"] | None = Field(
            None, description="gaussian by default; with recipe=best patches of square images, else hadamard"
        )
        norm: Literal["none", "layer"] | None = Field(None, description="none by default; layer with recipe=best")
        pretrained: bool = Field(False, description="the first task trains the shared weights (Table 4)")
        first_rate: float = Field(
            0.01, gt=0, description="rate of the first task in pretrained mode, which trains the shared weights too"
        )
        activation: Literal["relu", "gelu", "abs", "cos"] = "relu"
        statistics_momentum: float = Field(0.1, gt=0, le=1, description="of the batch-norm statistics, on images")
        depth: int = Field(DEPTH, ge=1, description="hidden layers")
        recipe: Literal["paper", "best"] = Field(
            "paper", description="best on images: residual blocks on frozen whitened filters, 25 epochs"
        )

    @property
    def settings(self) -> Options:
        return cast(NeuroModNetMethod.Options, self.options)

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "1d" if has_images(scenario) else "1024"

    def network(self) -> nn.Module:
        options = self.settings
        if "first_rate" in options.model_fields_set and not options.pretrained:
            raise ConfigError("first_rate is for pretrained=true: without it the first task is like any other")
        if "statistics_momentum" in options.model_fields_set and not has_images(self.scenario):
            raise ConfigError("statistics_momentum is for images: flat rows are learned without batch norm")
        if has_images(self.scenario):
            return self._resnet()
        features = flat_features(self.scenario, method=self.name)
        structure = best_structure(features) if options.recipe == "best" else {"weights": "gaussian", "norm": "none"}
        weights = options.weights or structure["weights"]
        if options.pretrained and weights != "gaussian":
            raise ConfigError(f"pretrained=true trains dense weights, got weights={weights}: use gaussian")
        return NeuroModNet(
            features,
            (width(self.size, method=self.name),) * options.depth,
            self.scenario.num_classes,
            seed=self.seed,
            weights=weights,
            norm=options.norm or structure["norm"],
            **options.modulated,
            activation=options.activation,
            constant=options.constant,
        )

    def _resnet(self) -> nn.Module:
        options = self.settings
        if options.weights not in (None, "gaussian") or options.norm not in (None, "none"):
            raise ConfigError("weights and norm are for flat rows: images are learned by ResNet-18 with batch norm")
        if (options.activation, options.depth) != ("relu", DEPTH):
            raise ConfigError("activation and depth are for flat rows: images are learned by ResNet-18")
        shape = resnet_shape(self.scenario, self.size, method=self.name)
        channels, height, width = self.scenario.input_shape
        if options.recipe == "best":
            if options.pretrained:
                raise ConfigError("pretrained=true trains frozen weights, recipe=best on images has none to train")
            given = {name: value for name, value in options.modulated.items() if name in options.model_fields_set}
            context: dict[str, Any] = {"start": "ones"} | given
            return WhitenedResNet(
                self.scenario.num_classes,
                seed=self.seed,
                input_shape=(channels, height, width),
                width=multiple(self.size, method=self.name),
                momentum=options.statistics_momentum,
                **context,
            )
        return NeuroModResNet(
            shape["width"],
            self.scenario.num_classes,
            seed=self.seed,
            stem=shape["stem"],
            input_shape=(channels, height, width),
            momentum=options.statistics_momentum,
            **options.modulated,
        )

    def first_trains(self) -> list[str]:
        names = [name for name, _ in self.model.named_buffers() if name.endswith("weight")]
        return names if self.settings.pretrained else []

    def first_recipe(self, recipe: Recipe) -> Recipe:
        return recipe.model_copy(update={"rate": self.settings.first_rate})

    def recipe(self, **overrides: object) -> Recipe:
        if self.settings.recipe == "best" and has_images(self.scenario):
            given = {name: value for name, value in overrides.items() if value is not None}
            length = {"epochs": None} if "batches" in given else {}
            return published_recipe(self.scenario, residual_recipe() | length | given, rate=0.01, image_rate=0.1)
        if self.settings.recipe == "best":
            best = best_recipe(normed=(self.settings.norm or "layer") == "layer")
            return published_recipe(self.scenario, overrides, image_rate=0.1, **best)
        return published_recipe(self.scenario, overrides, rate=0.01, image_rate=0.1)

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        shared = sum(self.model.get_buffer(name).numel() for name in self.first_trains())
        kept = stored_values(self.model)
        note = "a context is its float32 numbers; frozen weights come from the seed and take nothing"
        if shared:
            note = "float32 numbers of a context, and the weights the first task trained spread over the tasks"
        note += statistics_note(self.model) + self.training_note
        return Counts(own, own + shared / tasks, float_bytes(kept) + float_bytes(shared) // tasks, note)
