"""Products of float32 matrices by torch's BLAS and by oneDNN, in turns, for the sizes that crwn multiplies.

    python benchmarks/products.py --json results/bench/products.json

Times are processor seconds of one thread, for which other work on the machine hardly counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor
from write_record import write_record

from crwn.layers import product
from crwn.layers.products import onednn_is_faster

# Rows, inputs and outputs: one task and stacks of FC256, FC1024 and FC4096.
SIZES = (
    (128, 784, 256),
    (2048, 784, 256),
    (2048, 256, 256),
    (128, 1024, 1024),
    (2048, 1024, 1024),
    (128, 4096, 4096),
    (512, 4096, 4096),
)
OPERATIONS = 2e10  # of a measurement


def rate(multiply: Callable[[Tensor, Tensor], Tensor], rows: int, inputs: int, outputs: int) -> float:
    """Gflop a second of `x @ weight.T`."""
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    operations = 2 * rows * inputs * outputs
    repeats = max(1, round(OPERATIONS / operations))
    multiply(x, weight)
    began = time.process_time()
    for _ in range(repeats):
        multiply(x, weight)
    return operations * repeats / (time.process_time() - began) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for size in SIZES:
        rates = [(rate(F.linear, *size), rate(product, *size)) for _ in range(options.rounds)]
        blas, ours = (median(one) for one in zip(*rates, strict=True))
        found.append(
            {"size": size, "gflops_blas": round(blas), "gflops_product": round(ours), "ratio": round(ours / blas, 2)}
        )
    write_record({"onednn": onednn_is_faster(), "products": found}, options.json)


if __name__ == "__main__":
    main()
