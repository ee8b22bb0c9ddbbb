"""Time a step of NeuroModNet's ResNet-18 against the same network trained densely, alternating between them.

    python benchmarks/convolution.py --rounds 10 --compile --json

Also times the ways to compute one modulated convolution. With `--cpu` the processor's time on one thread is measured
instead of the clock's: it stays meaningful while other programs run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.convolution import ModulatedConv2d, TaskBatchNorm2d
from crwn.models import NeuroModResNet, resnet18

Step = Callable[[], None]


def alternately(steps: dict[str, Step], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds of every step, measured in turns so that the machine's load falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, step in steps.items():
            began = clock()
            step()
            if number >= 2:
                times[name].append(clock() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def training_step(model: nn.Module, x: Tensor, y: Tensor, *, compile: bool) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    forward = torch.compile(model, dynamic=False) if compile else model

    def step() -> None:
        loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def layer_step(layer: ModulatedConv2d, x: Tensor, *, unfold: bool) -> Step:
    def step() -> None:
        if unfold:
            columns = F.unfold(x, 3, padding=1) * layer.gain.reshape(-1, 1)
            out = layer.weight.flatten(1) @ columns
        else:
            out = layer(x)
        out.sum().backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--compile", action="store_true", help="time compiled steps too (compiling takes minutes)")
    parser.add_argument("--cpu", action="store_true", help="processor time on one thread instead of the clock")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        torch.set_num_threads(1)
    clock = time.process_time if options.cpu else time.perf_counter
    torch.manual_seed(0)
    x, y = torch.randn(128, 3, 32, 32), torch.randint(0, 5, (128,))
    steps: dict[str, Step] = {}
    for compile in (False, True) if options.compile else (False,):
        label = "compiled" if compile else "eager"
        dense = resnet18(norm=lambda channels: TaskBatchNorm2d(channels))
        steps[f"step, neuromodnet, {label}"] = training_step(NeuroModResNet(seed=0), x, y, compile=compile)
        steps[f"step, dense, {label}"] = training_step(dense, x, y, compile=compile)
    for channels, side in ((10, 32), (20, 16), (40, 8), (80, 4)):
        layer = ModulatedConv2d(channels, channels, 3, seed=0, padding=1)
        images = torch.randn(128, channels, side, side)
        last = images.contiguous(memory_format=torch.channels_last).requires_grad_()
        images.requires_grad_()
        where = f"layer {channels}x{side}x{side}"
        steps[f"{where}, modulated kernel"] = layer_step(layer, images, unfold=False)
        steps[f"{where}, modulated kernel, channels last"] = layer_step(layer, last, unfold=False)
        steps[f"{where}, unfolded"] = layer_step(layer, images, unfold=True)
    seconds = alternately(steps, options.rounds, clock)
    ratios = {
        label: seconds[f"step, neuromodnet, {label}"] / seconds[f"step, dense, {label}"]
        for label in (("eager", "compiled") if options.compile else ("eager",))
    }
    if options.json:
        print(json.dumps({"seconds": seconds, "neuromodnet_against_dense": ratios, "cpu_time": options.cpu}, indent=2))
        return
    for name, value in seconds.items():
        print(f"{name:<50} {1000 * value:9.2f} ms")
    for label, ratio in ratios.items():
        print(f"neuromodnet against dense, {label}: {ratio:.3f}")


if __name__ == "__main__":
    main()
