"""What a learner's model takes and returns, and how its tasks are trained."""

from __future__ import annotations

from typing import Any

from torch import nn

from crwn.data.standardize import Scaling
from crwn.errors import ConfigError
from crwn.learner.checks import outputs_by_trial
from crwn.learner.fit import choose_recipe
from crwn.models import network_of
from crwn.training.exact.learn import copies_of
from crwn.training.precision import Precision
from crwn.training.recipe import Recipe


class ModelFacts:
    """The shape of a model's rows, the number of its outputs, and the recipe of its tasks."""

    model: nn.Module
    precision: Precision
    _outputs_found: int | None = None

    @property
    def kind(self) -> str:
        """The architecture's name."""
        return network_of(self.model).kind

    @property
    def outputs(self) -> int:
        """How many classes a task can have at most."""
        classes = network_of(self.model).classes
        if classes is not None:
            return classes
        if self._outputs_found is not None:
            return self._outputs_found
        raise ConfigError(
            "the number of outputs of this module is not known yet: learn a task, or set module.classes = N"
        )

    def try_on(self, x: Any) -> None:
        """Find the outputs of a custom module that does not declare them, by a call with a few of these rows."""
        if self._outputs_found is None and network_of(self.model).classes is None:
            self._outputs_found = outputs_by_trial(self.model, x)

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of one row as the model takes it; None where a custom module does not declare it."""
        return network_of(self.model).input_shape

    @property
    def byte_scaling(self) -> Scaling | None:
        """Mean and deviation that uint8 rows are standardized with; None where every task measures its own."""
        return network_of(self.model).byte_scaling

    @property
    def float_scaling(self) -> Scaling | None:
        """The same for images of numbers from 0 to 1."""
        return network_of(self.model).float_scaling

    @property
    def copies(self) -> int:
        """How many rows of features one row of a task makes, such as two with mirror images."""
        return copies_of(self.model)

    def recipe(
        self, recipe: Recipe | str | None, *, batches: int | None, epochs: int | None, rows: int | None
    ) -> Recipe:
        """The recipe of a task, as `choose_recipe` finds it; in the learner's precision unless it has its own."""
        chosen = choose_recipe(self.model, recipe, batches=batches, epochs=epochs, rows=rows)
        given = isinstance(recipe, Recipe) and "precision" in recipe.model_fields_set
        return chosen if given else chosen.model_copy(update={"precision": self.precision})
