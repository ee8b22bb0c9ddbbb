"""Class folders of small random PNG images."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image


class MakeFolders(Protocol):
    """The type of the fixture `make_folders`."""

    def __call__(
        self, counts: dict[str, int], *, size: tuple[int, int] = (6, 5), mode: str = "RGB", under: str = ""
    ) -> Path: ...


def write_class_folders(root: Path, counts: dict[str, int], *, size: tuple[int, int], mode: str, under: str) -> Path:
    """Write `counts[place]` images of width and height `size` into each folder `root/under/place`; return `root`."""
    generator = np.random.default_rng(len(counts))
    for place, count in counts.items():
        folder = root / under / place
        folder.mkdir(parents=True)
        for at in range(count):
            shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
            Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(folder / f"{at}.png")
    return root
