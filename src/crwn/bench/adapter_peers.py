"""PEFT's adapters on the last layer of the same backbone, learned task by task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from crwn.bench.adapter_ways import Features, trained
from crwn.integrations.torchvision_wheel import import_torchvision

KINDS = ("ia3", "vera", "lora")
VERA_RANK = 256


class Tail(nn.Module):
    """The last layer of a backbone on feature maps `[n, pixels, channels]`, the average, and a linear classifier."""

    def __init__(self, convolution: nn.Module, classes: int) -> None:
        super().__init__()
        weight: Tensor = convolution.get_buffer("weight")
        self.head = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            self.head.weight.copy_(weight[:, :, 0, 0])
            self.head.bias.copy_(convolution.get_buffer("bias"))
        self.classifier = nn.Linear(weight.shape[0], classes)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.classifier(nn.functional.relu6(self.head(maps)).mean(dim=1))
        return out


class Split(nn.Module):
    """A backbone without its last layer, which makes maps, and the tail."""

    def __init__(self, module: nn.Module, tail: nn.Module) -> None:
        super().__init__()
        self.front = front(module)
        self.tail = tail

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images `[n, 3, height, width]`, or of feature maps `[n, pixels, channels]`."""
        out: Tensor = self.tail(as_maps(self.front(x)) if x.ndim == 4 else x)
        return out


def front(module: nn.Module) -> nn.Sequential:
    """The parts of a backbone before its last layer `head`."""
    names = [name for name, _ in module.named_children()]
    return nn.Sequential(*[module.get_submodule(name) for name in names[: names.index("head")]])


def last_convolution(module: nn.Module) -> nn.Module:
    """The pointwise convolution of the last layer."""
    return next(part for part in module.get_submodule("head").modules() if isinstance(part, nn.Conv2d))


def as_maps(x: Tensor) -> Tensor:
    """Feature maps `[n, channels, height, width]` with pixels as rows of channels."""
    return x.flatten(2).mT.contiguous()


def has_peft(note: Callable[[str], None]) -> bool:
    """Whether PEFT can be imported; a note where it cannot."""
    with suppress(ImportError):  # PEFT needs none, but imports what is there
        import_torchvision()
    try:
        import peft  # noqa: F401
    except ImportError as error:
        note(f"no figures of PEFT: it cannot be imported here ({error})")
        return False
    return True


def config_of(kind: str, prefix: str = "") -> Any:
    """PEFT's settings of one kind of adapter on the last layer, with a classifier of its own."""
    from peft import IA3Config, LoraConfig, VeraConfig

    target, saved = [f"{prefix}head"], [f"{prefix}classifier"]
    if kind == "ia3":
        return IA3Config(target_modules=target, feedforward_modules=target, modules_to_save=saved)
    if kind == "vera":
        return VeraConfig(r=VERA_RANK, target_modules=target, modules_to_save=saved)
    return LoraConfig(r=1, lora_alpha=1, target_modules=target, modules_to_save=saved)


def peft_way(kind: str, convolution: nn.Module, *, seed: int, epochs: int) -> Callable[[Features], tuple[Tensor, int]]:
    """Learn a task of feature maps with an adapter of this kind and a linear classifier."""
    from peft import get_peft_model

    def learn(task: Features) -> tuple[Tensor, int]:
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: Any = get_peft_model(Tail(convolution, task.classes), config_of(kind))
        logits = trained(model, task, seed=seed, epochs=epochs)
        return logits, sum(one.numel() for one in model.parameters() if one.requires_grad)

    return learn
