"""`crwn bench adapters`: contexts on a backbone against linear heads and PEFT's adapters, on the same tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import mean

import torch
from torch import Tensor, nn

from crwn.bench import adapter_peers as peers
from crwn.bench.adapter_ways import (
    EPOCHS,
    Features,
    Outcome,
    context_way,
    deep_way,
    last_layer_net,
    on_every_task,
    probe_way,
    ridge_way,
)
from crwn.bench.convolution import random_images
from crwn.bench.measure import Figure, Message
from crwn.data.dataset import Rows
from crwn.data.standardize import Standardize
from crwn.models import BackboneNet, ImageBackbone, load_backbone
from crwn.scenarios import Scenario, Task, make_scenario
from crwn.scenarios.split import split
from crwn.training.features import encoded, encoded_task
from crwn.training.task import PreparedTask


@dataclass(frozen=True)
class Sizes:
    tasks: int
    peer_tasks: int  # that PEFT's adapters learn, whose gradients pass through a layer of the backbone
    epochs: int


FULL = Sizes(10, 3, EPOCHS)
QUICK = Sizes(2, 2, 1)
GAINS = (1, 4)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `adapters`: accuracies on Split-CIFAR100."""
    sizes = QUICK if quick else FULL
    backbone = small_backbone() if quick else load_backbone("efficientnet-lite0")
    scenario = split(random_images(16, 40, seed=seed), 2, seed=seed) if quick else make_scenario("split-cifar100")
    return list(_accuracies(sizes, backbone, scenario[: sizes.tasks], seed=seed, progress=progress, note=note))


def _accuracies(
    sizes: Sizes, backbone: ImageBackbone, scenario: Scenario, *, seed: int, progress: Message, note: Message
) -> Iterable[Figure]:
    progress(f"adapters: features of {len(scenario)} tasks")
    tasks = list(_features(backbone, scenario))
    facts = {"tasks": len(tasks), "backbone": backbone.name, "size": backbone.size}
    ways: dict[str, Callable[[Features], tuple[Tensor, int]]] = {
        **{f"context_{gains}": context_way(backbone, gains, seed=seed) for gains in GAINS},
        "ridge": ridge_way,
        "probe": probe_way(seed=seed),
    }
    for name, way in ways.items():
        progress(f"adapters: learning {len(tasks)} tasks with {name}")
        yield _accuracy(name, on_every_task(tasks, way), sizes, facts)
    if not peers.has_peft(note):
        return
    progress(f"adapters: feature maps of {sizes.peer_tasks} tasks")
    maps = list(_maps(backbone, scenario[: sizes.peer_tasks]))
    progress(f"adapters: learning {len(maps)} tasks with contexts in the last layer")
    deep = deep_way(backbone, max(GAINS), seed=seed, epochs=sizes.epochs)
    yield _accuracy("context_last", on_every_task(maps, deep), sizes, facts | {"tasks": len(maps)})
    for kind in peers.KINDS:
        progress(f"adapters: learning {len(maps)} tasks with PEFT's {kind}")
        way = peers.peft_way(kind, peers.last_convolution(backbone.module), seed=seed, epochs=sizes.epochs)
        yield _accuracy(f"peft_{kind}", on_every_task(maps, way), sizes, facts | {"tasks": len(maps)})


def _accuracy(name: str, outcome: Outcome, sizes: Sizes, facts: dict[str, object]) -> Figure:
    found = outcome.accuracies
    own = {
        "params_per_task": outcome.params,
        "bytes_per_task": 4 * outcome.params,
        "seconds_per_task": mean(outcome.seconds),
        "accuracy_of_the_first": mean(found[: sizes.peer_tasks]),
        "first": sizes.peer_tasks,
    }
    what = f"mean accuracy in percent on {len(found)} tasks of Split-CIFAR100 with {outcome.params:,} parameters a task"
    return Figure(f"adapters.accuracy_{name}", mean(found), (min(found), max(found)), what, {**facts, **own})


def _rows(backbone: ImageBackbone, rows: Rows) -> Rows:
    """The raw images of a scenario's rows, standardized as the backbone takes them."""
    return Rows(rows.x, rows.y, rows.index, Standardize(backbone.scaling(3, 255.0)))


def _features(backbone: ImageBackbone, scenario: Scenario) -> Iterable[Features]:
    """The tasks as features; those of training images are the ones that `crwn run` keeps, without mirror images."""
    model = BackboneNet(backbone, 2, seed=0, input_shape=scenario.input_shape)
    for task in scenario:
        rows = _rows(backbone, task.train)
        kept = encoded_task(model, PreparedTask(task.name, rows, task.classes))[1].rows
        x = kept.select(torch.arange(len(rows))).inputs(slice(None)).float()
        test = encoded(model, _rows(backbone, task.test))[1].inputs(slice(None))
        yield Features(task.name, x, *_labels(task, test))


def _maps(backbone: ImageBackbone, scenario: Scenario) -> Iterable[Features]:
    """The tasks as feature maps before the last layer of the backbone."""
    model = last_layer_net(backbone, 2, seed=0, input_shape=scenario.input_shape)
    for task in scenario:
        train, test = (
            peers.as_maps(encoded(model, _rows(backbone, part))[1].inputs(slice(None)).reshape(-1, *model.map_shape))
            for part in (task.train, task.test)
        )
        yield Features(task.name, train, *_labels(task, test))


def _labels(task: Task, test: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    return task.train.labels(slice(None)), test, task.test.labels(slice(None)), len(task.classes)


def small_backbone() -> ImageBackbone:
    """A network of two convolutions, for a check that everything runs."""
    torch.manual_seed(0)
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        stem=nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU6()),
        head=nn.Sequential(nn.Conv2d(8, 16, 1), nn.ReLU6()),
        pool=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    return ImageBackbone(nn.Sequential(parts), name="small", size=16)
