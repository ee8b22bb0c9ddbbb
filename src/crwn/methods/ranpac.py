"""RanPAC: class prototypes decorrelated in a random projection of frozen features (McDonnell et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.data.standardize import Scaling
from crwn.errors import ConfigError, TaskError
from crwn.layers.weights import named_generator
from crwn.methods.independent import prepared
from crwn.methods.method import Counts, Method, Options
from crwn.methods.sizes import has_images
from crwn.models import EncodedNetwork, ImageFlyNet
from crwn.models.backbones import BackboneNet
from crwn.models.image_flynet import filters_for
from crwn.scenarios import Scenario, Task
from crwn.scenarios.rescale import rescaled, rescaled_rows
from crwn.training.checkpoint import Checkpoint
from crwn.training.features import encoded, encoded_task
from crwn.training.loop import Callbacks
from crwn.training.recipe import Recipe, make_recipe

BLOCK = 500
HELD_OUT = 0.2
RIDGES = tuple(10.0**power for power in range(-8, 9))


class RanPAC(Method):
    """`h = relu(f W)` with a frozen Gaussian W; the head is `(H^T H + ridge I)^-1 H^T Y` over all classes so far.

    The ridge is the power of ten of least squared error on a fifth of the newest task's rows, which are held out for
    that choice and learned afterwards. The adaptation of the backbone to the first task, which the authors add for
    large transformers, is left out. The size is the number of random units; the authors use 10,000.
    """

    name = "ranpac"
    independent = False
    answers_without_task = True
    sizes = ("2000", "5000", "10000")

    class Options(Options):
        features: Literal["fly", "efficientnet-lite0"] = "fly"

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        if not self.size.isdigit() or not 1 <= int(self.size) <= 50_000:
            raise ConfigError(f'ranpac has no size "{self.size}": give the number of random units, such as 5000')
        self.encoder = _encoder(scenario, seed, str(getattr(options, "features", "fly")))
        width = int(np.prod(scenario.input_shape)) if self.encoder is None else self.encoder.features
        units = int(self.size)
        draw = named_generator("ranpac", seed, width, units).standard_normal((width, units), dtype=np.float32)
        self.projection = torch.from_numpy(draw)
        self.model = nn.Identity()
        self.gram = torch.zeros(units, units, dtype=torch.float64)
        self.products = torch.zeros(units, 0, dtype=torch.float64)
        self.ridge = 1.0
        self.columns: dict[str, tuple[int, int]] = {}  # the classes of every task
        self._weights: Tensor | None = None

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "5000"

    def recipe(self, **overrides: object) -> Recipe:
        """A recipe that is not used: every row is seen once."""
        given = {key: value for key, value in overrides.items() if value is not None}
        return make_recipe(**({} if "epochs" in given else {"batches": 1}) | given)

    def learn(
        self, tasks: Sequence[Task], recipe: Recipe, *, callbacks: Callbacks = (), checkpoint: Checkpoint | None = None
    ) -> None:
        for task in tasks:
            rows = task.train
            if self.encoder is not None:
                rows = encoded_task(self.encoder, prepared(self._scaled(task)), progress=self.progress)[1].rows
            self._add(task, rows)

    def _scaled(self, task: Task) -> Task:
        """The task with images as the encoder takes them."""
        scaling = self._scaling
        return task if scaling is None else rescaled(task, scaling)

    @property
    def _scaling(self) -> Scaling | None:
        return self.encoder.byte_scaling if isinstance(self.encoder, BackboneNet) else None

    def _add(self, task: Task, rows: Rows) -> None:
        start, count = self.products.shape[1], len(task.classes)
        self.columns[task.name] = (start, start + count)
        self.products = torch.nn.functional.pad(self.products, (0, count))
        held = torch.zeros(len(rows), dtype=torch.bool)
        order = named_generator("ranpac held out", self.seed, task.name).permutation(len(rows))
        held[torch.from_numpy(order[: round(HELD_OUT * len(rows))])] = True
        gram, products = torch.zeros_like(self.gram), torch.zeros_like(self.products)
        for h, y, out in self._blocks(rows, held):
            kept = ~out
            self.gram += h[kept].T @ h[kept]
            self.products.index_add_(1, y[kept] + start, h[kept].T.double())
            gram += h[out].T @ h[out]
            products.index_add_(1, y[out] + start, h[out].T.double())
        self.ridge = self._best_ridge(gram, products)
        self.gram += gram
        self.products += products
        self._weights = None

    def _blocks(self, rows: Rows, held: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for at in range(0, len(rows), BLOCK):
            some = slice(at, min(at + BLOCK, len(rows)))
            yield self._units(rows.inputs(some)), rows.labels(some), held[some]

    def _units(self, x: Tensor) -> Tensor:
        return torch.relu(x.flatten(1).float() @ self.projection)

    def _best_ridge(self, gram: Tensor, products: Tensor) -> float:
        """The ridge with the least squared error on rows that have these sums; others were added before."""
        losses = {}
        for ridge in RIDGES:
            weights = self._solve(ridge)
            if weights is not None:
                losses[ridge] = float((weights * (gram @ weights)).sum() - 2 * (weights * products).sum())
        if not losses:
            raise ConfigError(f"the sums of {len(self.gram):,} random units are singular with every ridge")
        return min(losses, key=losses.__getitem__)

    def _solve(self, ridge: float) -> Tensor | None:
        factor, failed = torch.linalg.cholesky_ex(self.gram + ridge * torch.eye(len(self.gram), dtype=torch.float64))
        if int(failed):
            return None
        weights = torch.cholesky_solve(self.products, factor)
        return weights if bool(torch.isfinite(weights).all()) else None

    def _outputs(self, rows: Rows) -> Tensor:
        if self._weights is None:
            self._weights = self._solve(self.ridge)
        assert self._weights is not None  # the ridge was chosen among those that work
        ready = rows
        if self.encoder is not None:
            scaling = self._scaling
            ready = encoded(self.encoder, rows if scaling is None else rescaled_rows(rows, scaling))[1]
        weights = self._weights.float()
        parts = [self._units(ready.inputs(slice(at, at + BLOCK))) @ weights for at in range(0, len(ready), BLOCK)]
        return torch.cat(parts) if parts else torch.zeros(0, weights.shape[1])

    def logits(self, task: Task, rows: Rows) -> Tensor:
        if task.name not in self.columns:
            raise TaskError(f'ranpac has not learned task "{task.name}": learn it first')
        first, end = self.columns[task.name]
        return self._outputs(rows)[:, first:end]

    def joint_logits(self, tasks: Sequence[Task], rows: Rows) -> Tensor:
        chosen = [column for task in tasks for column in range(*self.columns[task.name])]
        return self._outputs(rows)[:, chosen]

    def counts(self, tasks: int) -> Counts:
        classes, units = self.scenario.num_classes, int(self.size)
        shared = 8 * units * units // tasks
        note = "a task adds a sum of its features for every class, and changes one Gram matrix, spread over the tasks"
        return Counts(classes * units, classes * units, 8 * classes * units + shared, f"{note}; float64")

    def task_state(self, task: Task) -> dict[str, Tensor]:
        return {"columns": torch.tensor(self.columns[task.name])}

    def shared_state(self) -> dict[str, Tensor]:
        return {"gram": self.gram, "products": self.products, "ridge": torch.tensor(self.ridge, dtype=torch.float64)}

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        for name, state in task_states.items():
            first, end = state["columns"].tolist()
            self.columns[name] = (first, end)
        if shared:
            self.gram, self.products = shared["gram"].double(), shared["products"].double()
            self.ridge = float(shared["ridge"])
        self._weights = None


def _encoder(scenario: Scenario, seed: int, features: str) -> EncodedNetwork | None:
    """The network whose features of images are used; None for flat rows, which are features already."""
    if not has_images(scenario):
        return None
    if features == "fly":
        return ImageFlyNet(scenario.input_shape, scenario.num_classes, seed=seed, filters=filters_for("5k"))
    return BackboneNet(features, scenario.num_classes, seed=seed, input_shape=scenario.input_shape)
