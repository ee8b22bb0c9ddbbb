"""The method implemented the way the paper's text describes it, to measure against.

Fully connected layers are 1x1 convolutions whose modulated kernels are built from R and v in every forward pass, with
autograd going through the kernel; every image is rotated by Pillow in a DataLoader; tasks are learned one at a time.
"""

from __future__ import annotations

import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from crwn.data import ImageSet
from crwn.layers.weights import Gaussian
from crwn.models import NeuroModNet

BATCH = 128


class ModulatedKernel(nn.Module):
    """`y = conv1x1(x, alpha * R ⊙ v)`: the modulated kernel is built anew for every batch."""

    weight: Tensor

    def __init__(self, weight: Tensor, v: Tensor, alpha: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight[:, :, None, None])
        self.v = nn.Parameter(v[None, :, None, None].clone())
        self.alpha = nn.Parameter(alpha.clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.alpha * (self.weight * self.v))


class PaperStyleNet(nn.Module):
    """The same function as a dense NeuroModNet with ReLU, from the same frozen weights and context."""

    def __init__(self, model: NeuroModNet) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for layer in model.layers:
            frozen, v, alpha = layer.frozen, layer.v, layer.alpha
            assert isinstance(frozen, Gaussian)
            assert isinstance(v, Tensor)
            assert isinstance(alpha, Tensor)
            self.layers.append(ModulatedKernel(frozen.weight, v.detach(), alpha.detach()))

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, :, None, None]
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        out: Tensor = self.layers[-1](x)
        return out.flatten(1)


class RotatedImages(Dataset[tuple[Tensor, int]]):
    """Images rotated one at a time by Pillow, then scaled and standardized, as torchvision's transforms do."""

    def __init__(self, images: Tensor, labels: Tensor, angle: float, image_set: ImageSet) -> None:
        self.images = images
        self.labels = labels
        self.angle = angle
        self.unit, self.mean, self.std = image_set.unit, image_set.mean[0], image_set.std[0]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        rotated = Image.fromarray(self.images[at].numpy()).rotate(self.angle)
        pixels = torch.from_numpy(np.array(rotated)).float().div_(self.unit)
        return pixels.sub_(self.mean).div_(self.std).flatten(), int(self.labels[at])


class PaperStyle:
    """Learns one rotation, measured on a part of its batches."""

    def __init__(self, model: NeuroModNet, image_set: ImageSet, *, angle: float, workers: int) -> None:
        self.model = PaperStyleNet(model)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=0.01)
        train = RotatedImages(image_set.x_train, image_set.y_train, angle, image_set)
        test = RotatedImages(image_set.x_test, image_set.y_test, angle, image_set)
        self.test_batches = -(-len(test) // BATCH)
        self.train = DataLoader(train, batch_size=BATCH, shuffle=True, num_workers=workers)
        self.test = DataLoader(test, batch_size=BATCH, num_workers=workers)

    def step(self, x: Tensor, y: Tensor) -> None:
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def seconds_per_task(self, *, batches: int, of: int, test_batches: int, skip: int = 5) -> float:
        """Return seconds for `of` batches and an evaluation, from measured parts of both.

        The first batches are not counted, and so neither is the start of the DataLoader's workers.
        """
        return of * self._part(batches, skip, learn=True) + self.test_batches * self._part(test_batches, skip, False)

    def _part(self, batches: int, skip: int, learn: bool) -> float:
        loader = self.train if learn else self.test
        skip = min(skip, len(loader) // 2)
        batches = min(batches, len(loader) - skip)
        began = 0.0
        for i, (x, y) in enumerate(loader):
            if i == skip:
                began = time.perf_counter()
            if i == skip + batches:
                break
            if learn:
                self.step(x, y)
            else:
                with torch.no_grad():
                    self.model(x).argmax(dim=1).eq(y).sum()
        return (time.perf_counter() - began) / batches
