"""Time the ways to compute a modulated convolution, forward and backward, alternating between them.

    python benchmarks/convolution_ways.py --rounds 15 --json

The kernel can be modulated, with the images' channels outermost or innermost in memory, or the unfolded images can.
Whole training steps are timed by `crwn bench convolution`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.bench.measure import Side, alternately
from crwn.bench.record import heading
from crwn.experiments.environment import usual_threads
from crwn.layers.conv import ModulatedConv2d, channels_last

BATCH = 128
LAYERS = ((10, 32), (20, 16), (40, 8), (80, 4))  # channels and side of the stages of the reduced ResNet-18


def kernel_side(layer: ModulatedConv2d, x: Tensor) -> Side:
    return lambda: layer(x).sum().backward()


def unfolded_side(layer: ModulatedConv2d, x: Tensor) -> Side:
    def step() -> None:
        columns = F.unfold(x, 3, padding=1) * layer.gain.reshape(-1, 1)
        (layer.weight.flatten(1) @ columns).sum().backward()

    return step


def ways(channels: int, side: int) -> dict[str, Side]:
    layer = ModulatedConv2d(channels, channels, 3, seed=0, padding=1)
    images = torch.randn(BATCH, channels, side, side)
    innermost: Callable[[], Tensor] = lambda: channels_last(images).requires_grad_()  # noqa: E731
    return {
        "modulated kernel": kernel_side(layer, images.clone().requires_grad_()),
        "modulated kernel, channels last": kernel_side(layer, innermost()),
        "unfolded": unfolded_side(layer, images.clone().requires_grad_()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(usual_threads())
    torch.manual_seed(0)
    record = heading(quick=False, seed=0)
    sides = {f"{c}x{s}x{s}, {way}": side for c, s in LAYERS for way, side in ways(c, s).items()}
    taken = alternately(sides, options.rounds, warm_up=2)
    milliseconds = {name: 1000 * statistics.median(seconds) for name, seconds in taken.items()}
    if options.json:
        print(json.dumps(record | {"rounds": options.rounds, "milliseconds": milliseconds}, indent=1))
        return
    for name, value in milliseconds.items():
        print(f"{name:<45} {value:8.2f} ms")


if __name__ == "__main__":
    main()
