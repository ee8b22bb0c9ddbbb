"""Lets peers import a torchvision whose wheel was built for another torch."""

from __future__ import annotations

import torch


def define_operators() -> None:
    """Declare the operators that torchvision's Python part refers to while it is imported, where they are missing."""
    for name, arguments in (
        ("nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
        ("qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
    ):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", arguments)
