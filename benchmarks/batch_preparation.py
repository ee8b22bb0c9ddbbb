"""Time what turns a batch of raw images into inputs: moving and standardizing pixels, cropping and mirroring.

    python benchmarks/batch_preparation.py --rounds 200

A step of NeuroModNet FC256 on MNIST's shape takes some milliseconds, one of the reduced ResNet-18 at least 150 ms:
preparation should stay below 0.5 ms for the first, and below 7.5 ms (5%) for the second.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
import torch
from write_record import write_record

from crwn.bench.measure import alternately
from crwn.data import ImageSet
from crwn.scenarios.augment import crop_and_flip
from crwn.scenarios.pixel_map import PixelMap

BATCH = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    grey = torch.from_numpy(generator.integers(0, 256, (BATCH, 784), dtype=np.uint8))
    colour = torch.from_numpy(generator.integers(0, 256, (BATCH, 3, 32, 32), dtype=np.uint8))
    labels = torch.zeros(BATCH, dtype=torch.int64)
    images = ImageSet("random", (0, 1), (784,), grey, labels, grey, labels, (0.13,), (0.31,))
    prepare = PixelMap(images, torch.from_numpy(generator.permutation(784)))

    def move() -> None:
        prepare(grey)

    def augment() -> None:
        crop_and_flip(colour, generator)

    taken = alternately({"PixelMap 128x784": move, "crop_and_flip 128x3x32x32": augment}, options.rounds, warm_up=2)
    milliseconds = {name: round(1000 * statistics.median(seconds), 4) for name, seconds in taken.items()}
    write_record({"rounds": options.rounds, "milliseconds": milliseconds}, options.json)


if __name__ == "__main__":
    main()
