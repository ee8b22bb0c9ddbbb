"""Rows a second of batches whose rows have a task each: contexts on a backbone against PEFT's adapters on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from crwn.bench import adapter_peers as peers
from crwn.bench.adapter_mixing import mixing, peft_model
from crwn.bench.measure import Figure, Message, Side, alternately, middle, ratio
from crwn.bench.mixed import chosen_tasks, make_stack, mixed
from crwn.models import BackboneNet, ImageBackbone

CLASSES = 5
WHOLE, HEAD = "mixed", "head"
WHERE = {WHOLE: "the whole network", HEAD: "what follows the features or maps alone"}
HOW = {"ia3": "switched for each task", "vera": "switched for each task", "lora": "mixed by adapter_names"}


@dataclass(frozen=True)
class Batches:
    """What is measured: rows of a batch, tasks that are resident, and rounds."""

    rows: int
    resident: Sequence[int]
    rounds: int


def speeds(
    sizes: Batches, backbone: ImageBackbone, *, gains: int, seed: int, progress: Message, note: Message
) -> Iterable[Figure]:
    """Ratios over the plain backbone, and over PEFT's adapters with as many resident tasks.

    Rows of a batch have different tasks where there are enough of them. Our contexts and PEFT's adapters get the same
    images, the same tasks for the rows, and the same feature maps or features where the backbone is left out.
    """
    model = BackboneNet(backbone, CLASSES, seed=seed, gains=gains, mirror=False)
    dice = torch.Generator().manual_seed(seed)
    x = torch.randn(sizes.rows, 3, backbone.size, backbone.size, generator=dice)
    most = max(sizes.resident)
    progress(f"adapters: making {most:,} contexts")
    stack = make_stack(model, most, seed=seed)
    linear = nn.Linear(backbone.features, CLASSES)
    with torch.no_grad():
        features, maps = backbone(x), peers.as_maps(peers.front(backbone.module)(x))
    names = {count: chosen_tasks(stack, count, sizes.rows, seed=seed) for count in sizes.resident}
    sides: dict[str, Side] = {"plain": _timed(lambda: linear(backbone(x)))}
    for count in sizes.resident:
        sides[f"{WHOLE} {count}"] = _timed(partial(mixed, model, stack, names[count], x))
        sides[f"{HEAD} {count}"] = _timed(partial(mixed, model.head, stack, names[count], features))
    known = peers.has_peft(note)
    for kind in peers.KINDS if known else ():
        base = peers.Split(backbone.module, peers.Tail(peers.last_convolution(backbone.module), CLASSES))
        for count in sizes.resident:
            progress(f"adapters: making {count:,} adapters of PEFT's {kind}")
            theirs = mixing(peft_model(base, kind, stack.names[:count], "tail."), kind)
            sides[f"{WHOLE} {count} {kind}"] = _timed(partial(theirs, x, names[count]))
            sides[f"{HEAD} {count} {kind}"] = _timed(partial(theirs, maps, names[count]))
    progress(f"adapters: measuring {', '.join(sides)}")
    with torch.no_grad():
        taken = alternately(sides, sizes.rounds)
    return list(_ratios(sizes, taken, known=known))


def _ratios(sizes: Batches, taken: dict[str, list[float]], *, known: bool) -> Iterable[Figure]:
    speed = {name: sizes.rows / middle(seconds) for name, seconds in taken.items()}
    for count in sizes.resident:
        ours = f"{WHOLE} {count}"
        facts = {"rows": sizes.rows, "resident": count, "rows_a_second": speed[ours]}
        what = f"rows a second, every row with its own of {count:,} resident tasks, over the plain backbone"
        some = taken[ours]
        yield ratio(f"adapters.mixed_vs_plain_{count}", what, slower=taken["plain"], faster=some, facts=facts)
    for part in (WHOLE, HEAD) if known else ():
        for kind in peers.KINDS:
            for count in sizes.resident:
                ours, theirs = f"{part} {count}", f"{part} {count} {kind}"
                facts = {"resident": count, "rows_a_second": speed[ours], "rows_a_second_theirs": speed[theirs]}
                what = f"rows a second of {WHERE[part]} with {count:,} resident tasks over PEFT's {kind}, {HOW[kind]}"
                name = f"adapters.{part}_vs_{kind}_{count}"
                yield ratio(name, what, slower=taken[theirs], faster=taken[ours], facts=facts)


def _timed(side: Callable[[], Tensor]) -> Side:
    def run() -> None:
        side()

    return run
