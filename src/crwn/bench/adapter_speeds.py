"""`crwn bench adapter_speeds`: batches of many tasks on a backbone, contexts against PEFT's adapters.

Seconds are processor time of one thread: other work on the machine, which waits for the same cores, counts for neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from crwn.bench import adapter_peers as peers
from crwn.bench.adapter_mixing import mixing, peft_model
from crwn.bench.adapters import GAINS, small_backbone
from crwn.bench.measure import Figure, Message, Side, alternately, middle, ratio
from crwn.bench.mixed import chosen_tasks, make_stack, mixed
from crwn.models import BackboneNet, ImageBackbone, load_backbone
from crwn.models.backbones.image import AT_ONCE

CLASSES = 5
WHOLE, HEAD = "mixed", "head"
WHERE = {WHOLE: "the whole network", HEAD: "what follows the features or maps alone"}
HOW = {"ia3": "switched for each task", "vera": "switched for each task", "lora": "mixed by adapter_names"}


@dataclass(frozen=True)
class Sizes:
    rows: int  # of a batch
    resident: Sequence[int]
    rounds: int


FULL = Sizes(128, (10, 1_000, 10_000), 3)
QUICK = Sizes(6, (3, 10), 2)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures: ratios over the plain backbone, and over PEFT's adapters with as many resident tasks.

    Rows of a batch have different tasks where there are enough of them. Contexts and adapters get the same images, and
    the same tasks for the rows; where the backbone is left out, its features or the maps before its last layer.
    """
    sizes = QUICK if quick else FULL
    backbone = small_backbone() if quick else load_backbone("efficientnet-lite0")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return list(_figures(sizes, backbone, seed=seed, progress=progress, note=note))
    finally:
        torch.set_num_threads(threads)


def _figures(sizes: Sizes, backbone: ImageBackbone, *, seed: int, progress: Message, note: Message) -> Iterable[Figure]:
    model = BackboneNet(backbone, CLASSES, seed=seed, gains=max(GAINS), mirror=False)
    dice = torch.Generator().manual_seed(seed)
    x = torch.randn(sizes.rows, 3, backbone.size, backbone.size, generator=dice)
    most = max(sizes.resident)
    progress(f"adapter_speeds: making {most:,} contexts")
    stack = make_stack(model, most, seed=seed)
    linear = nn.Linear(backbone.features, CLASSES)
    with torch.no_grad():
        features, maps = backbone(x), peers.as_maps(peers.front(backbone.module)(x))
    names = {count: chosen_tasks(stack, count, sizes.rows, seed=seed) for count in sizes.resident}
    sides: dict[str, Side] = {"plain": _timed(lambda: linear(backbone(x)))}
    sides["one block"] = _timed(lambda: linear(backbone.module(x.contiguous(memory_format=torch.channels_last))))
    for count in sizes.resident:
        sides[f"{WHOLE} {count}"] = _timed(partial(mixed, model, stack, names[count], x))
        sides[f"{HEAD} {count}"] = _timed(partial(mixed, model.head, stack, names[count], features))
    known = peers.has_peft(note)
    base = peers.Split(backbone.module, peers.Tail(peers.last_convolution(backbone.module), CLASSES))
    for kind in peers.KINDS if known else ():
        for count in sizes.resident:
            progress(f"adapter_speeds: making {count:,} adapters of PEFT's {kind}")
            theirs = mixing(peft_model(base, kind, stack.names[:count], "tail."), kind)
            sides[f"{WHOLE} {count} {kind}"] = _timed(partial(theirs, x, names[count]))
            sides[f"{HEAD} {count} {kind}"] = _timed(partial(theirs, maps, names[count]))
    progress(f"adapter_speeds: measuring {', '.join(sides)}")
    with torch.no_grad():
        taken = alternately(sides, sizes.rounds)
    yield from _ratios(sizes, taken, known=known)


def _ratios(sizes: Sizes, taken: dict[str, list[float]], *, known: bool) -> Iterable[Figure]:
    speed = {name: sizes.rows / max(middle(seconds), 1e-9) for name, seconds in taken.items()}
    what = f"rows a second of the plain backbone in blocks of {AT_ONCE} images over all {sizes.rows} at once"
    facts: dict[str, object] = {"rows": sizes.rows, "rows_a_second": speed["plain"]}
    yield ratio("adapter_speeds.blocks", what, slower=taken["one block"], faster=taken["plain"], facts=facts)
    for count in sizes.resident:
        ours = f"{WHOLE} {count}"
        facts = {"rows": sizes.rows, "resident": count, "rows_a_second": speed[ours]}
        what = f"rows a second, every row with its own of {count:,} resident tasks, over the plain backbone"
        name = f"adapter_speeds.mixed_vs_plain_{count}"
        yield ratio(name, what, slower=taken["plain"], faster=taken[ours], facts=facts)
    for part in (WHOLE, HEAD) if known else ():
        for kind in peers.KINDS:
            for count in sizes.resident:
                ours, theirs = f"{part} {count}", f"{part} {count} {kind}"
                facts = {"resident": count, "rows_a_second": speed[ours], "rows_a_second_theirs": speed[theirs]}
                what = f"rows a second of {WHERE[part]} with {count:,} resident tasks over PEFT's {kind}, {HOW[kind]}"
                name = f"adapter_speeds.{part}_vs_{kind}_{count}"
                yield ratio(name, what, slower=taken[theirs], faster=taken[ours], facts=facts)


def _timed(side: Callable[[], Tensor]) -> Side:
    def run() -> float:
        began = time.process_time()
        side()
        return max(time.process_time() - began, 1e-9)

    return run
