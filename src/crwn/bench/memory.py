"""`crwn bench memory`: bytes of a task, frozen weights in memory, and the peak memory of training."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import torch
from torch import nn

from crwn.bench.measure import Figure, Message, middle
from crwn.bench.paper_style import BATCH, PaperStyleNet
from crwn.contexts import Context
from crwn.data.dataset import Rows
from crwn.errors import CRWNError
from crwn.experiments.environment import peak_memory
from crwn.layers import context_tensors
from crwn.models import NeuroModNet
from crwn.training.loop import train
from crwn.training.recipe import make_recipe
from crwn.training.task import PreparedTask


@dataclass(frozen=True)
class Sizes:
    features: int
    classes: int
    small: int
    wide: int
    rounds: int


FULL = Sizes(784, 10, 256, 4096, 3)
QUICK = Sizes(16, 3, 8, 32, 1)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `memory`: theirs over ours, larger is better."""
    sizes = QUICK if quick else FULL
    figures = []
    for name, width in (("fc256", sizes.small), ("fc4096", sizes.wide)):
        model = NeuroModNet(sizes.features, (width,) * 2, sizes.classes, seed=seed, constant=False)
        context = Context("task", context_tensors(model), tuple(range(sizes.classes)), "bench")
        network = 4 * (sizes.features * sizes.small + sizes.small**2 + sizes.small * sizes.classes)
        for store in ("float32", "int8"):
            own = len(context.to_bytes(store))
            what = f"bytes of one trained FC{sizes.small} network over those of a task's context, FC{width} as {store}"
            figures.append(_figure(f"bytes_{name}_{store}", what, [network], [own], width))
    progress("memory: frozen weights")
    dense = NeuroModNet(sizes.features, (sizes.wide,) * 2, sizes.classes, seed=seed, constant=False)
    hadamard = NeuroModNet(
        sizes.features, (sizes.wide,) * 2, sizes.classes, seed=seed, weights="hadamard", constant=False
    )
    what = "bytes of the frozen weights in memory: dense over Hadamard"
    figures.append(_figure("frozen_fc4096", what, [_bytes(dense)], [_bytes(hadamard)], sizes.wide))
    del dense, hadamard
    progress("memory: training, each in a process of its own")
    kinds = ("nothing", "hadamard", "gaussian", "paper_style")
    peaks: dict[str, list[int]] = {kind: [] for kind in kinds}
    for _ in range(sizes.rounds):
        for kind in kinds:
            peaks[kind].append(_peak(kind, sizes, seed))
    base = min(peaks["nothing"])
    held = {kind: [max(1, peak - base) for peak in peaks[kind]] for kind in kinds}
    for kind, words in (("gaussian", "dense weights"), ("paper_style", "the paper-style implementation")):
        what = f"most memory while one task is learned, beyond a process that learns nothing: {words} over Hadamard"
        figures.append(_figure(f"training_{kind}_fc4096", what, held[kind], held["hadamard"], sizes.wide))
    return figures


def _figure(name: str, what: str, theirs: list[int], ours: list[int], width: int) -> Figure:
    each = [a / b for a, b in zip(theirs, ours, strict=True)]
    facts = {"width": width, "bytes_theirs": int(middle(theirs)), "bytes_ours": int(middle(ours))}
    return Figure(f"memory.{name}", middle(each), (min(each), max(each)), what, facts)


def _bytes(model: nn.Module) -> int:
    return sum(buffer.nbytes for buffer in model.buffers())


def _peak(kind: str, sizes: Sizes, seed: int) -> int:
    """Return the peak memory of a process that learns one task for three batches."""
    arguments = [kind, sizes.features, sizes.wide, sizes.classes, seed]
    program = "import sys; from crwn.bench.memory import learn; learn(sys.argv[1], *map(int, sys.argv[2:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CRWNError(f"the process that measures memory ({kind}) failed: {done.stderr.strip()[-300:]}")
    return int(done.stdout)


def learn(kind: str, features: int, width: int, classes: int, seed: int) -> None:
    """Learn for three batches, then print the peak memory in bytes; runs in a process of its own."""
    x, y = torch.randn(3 * BATCH, features), torch.arange(3 * BATCH) % classes
    if kind in ("hadamard", "gaussian"):
        model = NeuroModNet(features, (width,) * 2, classes, seed=seed, weights=kind, constant=False)
        train(model, [PreparedTask("task", Rows(x, y), range(classes))], make_recipe(batches=3), seed=seed)
    elif kind == "paper_style":
        peer = PaperStyleNet(NeuroModNet(features, (width,) * 2, classes, seed=seed, constant=False))
        optimizer = torch.optim.RMSprop(peer.parameters(), lr=0.01)
        for at in range(0, len(x), BATCH):
            loss = nn.functional.cross_entropy(peer(x[at : at + BATCH]), y[at : at + BATCH])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    else:
        NeuroModNet(features, (8,), classes, seed=seed, constant=False)
    print(peak_memory())
