"""`crwn bench mixed`: a batch whose rows belong to different tasks, against one task, a loop over tasks, and PEFT."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from crwn.bench import peft_peer
from crwn.bench.measure import Figure, Message, Side, alternately, middle, ratio
from crwn.contexts import Context, ContextStack
from crwn.data.dataset import Rows
from crwn.layers import context_tensors, product
from crwn.layers.weights import FrozenWeights, named_generator
from crwn.models import NeuroModNet
from crwn.models.functional import mixed_logits
from crwn.training.evaluation import predict_logits


@dataclass(frozen=True)
class Sizes:
    features: int
    width: int
    classes: int
    rows: int
    resident: Sequence[int]
    rounds: int
    passes: int  # of a fast side in one round


FULL = Sizes(784, 1024, 10, 256, (10, 1_000, 10_000), 15, 10)
QUICK = Sizes(16, 8, 3, 6, (3, 10), 2, 1)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `mixed`; those without a number in their name are at the most resident tasks."""
    sizes = QUICK if quick else FULL
    model = NeuroModNet(sizes.features, (sizes.width,) * 2, sizes.classes, seed=seed, constant=False)
    x = torch.from_numpy(named_generator("bench", seed).standard_normal((sizes.rows, sizes.features), "float32"))
    most = max(sizes.resident)
    progress(f"mixed: making {most:,} contexts")
    stack = make_stack(model, most, seed=seed)
    plain = plain_network(model)
    sides: dict[str, Side] = {"plain": partial(_repeat, partial(_plain, plain, x), sizes.passes)}
    for count in sizes.resident:
        names = chosen_tasks(stack, count, sizes.rows, seed=seed)
        part = stack if count == most else make_stack(model, count, seed=seed)
        sides[f"mixed {count}"] = partial(_repeat, partial(mixed, model, part, names, x), sizes.passes)
    names = chosen_tasks(stack, most, sizes.rows, seed=seed)
    sides["loop"] = partial(_repeat, partial(_loop, model, stack, names, x), 1)
    progress("mixed: making PEFT's adapters")
    peers = peft_peer.sides(plain, x, adapters=min(most, sizes.rows), note=note)
    sides |= {name: partial(_repeat, side, 1) for name, side in peers.items()}
    progress(f"mixed: measuring {', '.join(sides)}")
    with torch.no_grad():
        taken = alternately(sides, sizes.rounds)
    return list(_figures(sizes, taken))


def _figures(sizes: Sizes, taken: dict[str, list[float]]) -> Iterable[Figure]:
    most = max(sizes.resident)
    facts: dict[str, float] = {"rows": sizes.rows, "width": sizes.width}
    ours = taken[f"mixed {most}"]
    speed = {"rows_a_second": sizes.rows / middle(ours)}
    for count in sizes.resident:
        what = f"rows a second, every row with its own of {count:,} resident tasks, over the plain frozen network"
        some = taken[f"mixed {count}"]
        extra = facts | {"resident": count, "rows_a_second": sizes.rows / middle(some)}
        yield ratio(f"mixed.vs_plain_{count}", what, slower=taken["plain"], faster=some, facts=extra)
    facts = facts | {"resident": most} | speed
    what = f"rows a second with {most:,} resident tasks over"
    yield ratio("mixed.vs_plain", f"{what} the plain frozen network", slower=taken["plain"], faster=ours, facts=facts)
    yield ratio(
        "mixed.vs_loop", f"{what} a loop over the batch's tasks", slower=taken["loop"], faster=ours, facts=facts
    )
    for name, figure, words in (
        ("peft lora", "vs_peft", "PEFT's mixed batch (LoRA of rank 1, adapter_names)"),
        ("peft ia3", "vs_peft_ia3_switched", "PEFT's IA3 adapters switched per task"),
    ):
        if name in taken:
            own = facts | ({"adapters": min(most, sizes.rows)} if name.startswith("peft") else {})
            yield ratio(f"mixed.{figure}", f"{what} {words}", slower=taken[name], faster=ours, facts=own)


def make_stack(model: nn.Module, count: int, *, seed: int) -> ContextStack:
    """Return contexts of `count` tasks: the model's start, varied at random."""
    start = context_tensors(model)
    stack = ContextStack({key: tuple(value.shape) for key, value in start.items()}, capacity=count)
    dice = named_generator("contexts", seed)
    for number in range(count):
        tensors = {
            key: value + 0.1 * torch.from_numpy(dice.standard_normal(tuple(value.shape), "float32"))
            if value.ndim
            else value
            for key, value in start.items()
        }
        stack.append(Context(f"task {number}", tensors, (0, 1), "bench"))
    return stack


def chosen_tasks(stack: ContextStack, count: int, rows: int, *, seed: int) -> list[str]:
    """Return a task for every row: all different where there are enough."""
    dice = named_generator("rows", seed, count)
    picked = dice.choice(count, size=rows, replace=count < rows)
    return [stack.names[i] for i in picked.tolist()]


def plain_network(model: NeuroModNet) -> nn.Sequential:
    """Return the frozen weights as ordinary linear layers, without any modulation."""
    parts: list[nn.Module] = []
    for layer in model.layers:
        frozen = layer.frozen
        assert isinstance(frozen, FrozenWeights)
        weight = frozen.dense()
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight = nn.Parameter(weight, requires_grad=False)
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts[:-1]).eval()


def mixed(model: nn.Module, stack: ContextStack, names: Sequence[str], x: Tensor) -> Tensor:
    """Compute our side, from names to logits: look the rows up, gather their contexts, one pass."""
    return mixed_logits(model, stack.lazily(stack.positions(names)), x)


def _plain(plain: nn.Sequential, x: Tensor) -> Tensor:
    """The plain network, its products by the library that is fastest here."""
    for part in plain:
        x = product(x, part.weight) if isinstance(part, nn.Linear) else part(x)
    return x


def _loop(model: nn.Module, stack: ContextStack, names: Sequence[str], x: Tensor) -> Tensor:
    """Predict the rows of one task after another, as `predict` with that task's name does."""
    groups: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        groups.setdefault(name, []).append(at)
    out: list[Tensor] = []
    for name, rows in groups.items():
        out.append(predict_logits(model, stack.row(stack.index(name)), Rows(x[rows])))
    return torch.cat(out)


def _repeat(side: Callable[[], Tensor], passes: int) -> float:
    began = time.perf_counter()
    for _ in range(passes):
        side()
    return (time.perf_counter() - began) / passes
