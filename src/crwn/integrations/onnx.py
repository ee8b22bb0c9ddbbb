"""Export to ONNX: one task's context merged into the file, or a file that takes any task's context as inputs."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from crwn.contexts import Context
from crwn.data.standardize import InputScaling, OutputScaling, Scaling, broadcast_scale, standardize
from crwn.errors import CRWNError, MissingExtraError, ModelError
from crwn.layers import context_names
from crwn.layers.weights import SparseBinary
from crwn.learner import Learner
from crwn.models.image_encoder import ImageEncoder
from crwn.models.merge import editable_copy

OPSET = 18
TOLERANCE = 1e-4
LARGEST_FILE = 1_900_000_000  # protobuf files end at 2 GB; larger weights go into a file beside it


def export_onnx(learner: Learner, task: str, path: str | Path, *, context_as_input: bool = False) -> dict[str, Any]:
    """Write a task to `path` and compare the outputs of onnxruntime with torch's.

    The inputs are raw rows, the outputs logits (of one class each, or of every label of a multilabel task) or the
    numbers of a regression; `crwn.kind` in the file's metadata names the kind.

    With `context_as_input` the file holds no task: it takes the scaling
    (`mean`, `std`) and every tensor of a context as inputs (`context_inputs` returns them), and returns all outputs of
    the model, of which a task uses the first, one per class. Tasks with a scaling per column need a file made from such
    a task.

    Returns:
        path, task, opset, bytes, inputs and outputs (name: shape), classes, and the largest difference from torch.

    Raises:
        MissingExtraError: onnx, onnxscript or onnxruntime is not installed.
        CRWNError: the outputs of onnxruntime differ from torch's by more than 1e-4.
    """
    onnx, runtime = _packages()
    context = learner.context(task)
    network = _exportable(learner.model)
    rows = _rows(learner, context.info.scaling)
    names = context_names(learner.model)
    module: nn.Module
    given: tuple[Any, ...]
    if context_as_input:
        if context.info.kind == "regression":
            raise ModelError(
                f'task "{task}" is a regression: a file with the context as input returns no numbers in its units; '
                "leave context_as_input out"
            )
        module = _WithContext(network, names)
        mean, std, *tensors = _tensors(context, names)
        given = (rows, mean, std, tensors)
    else:
        network.load_state_dict(context.tensors, strict=False)
        module = _Baked(network, context)
        given = (rows,)
    path = Path(path)
    input_names = ["x", "mean", "std", *names] if context_as_input else ["x"]
    _write(onnx, module.eval(), given, input_names, path, _record(learner, context, context_as_input))
    difference, session = _compare(runtime, path, module, given, input_names)
    return {
        "path": str(path),
        "task": task,
        "opset": OPSET,
        "bytes": sum(file.stat().st_size for file in (path, _beside(path)) if file.exists()),
        "inputs": {one.name: one.shape for one in session.get_inputs()},
        "outputs": {one.name: one.shape for one in session.get_outputs()},
        "classes": list(context.classes),
        "largest_difference": difference,
    }


def context_inputs(context: Context) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs beside `x` for this task, of a file exported with `context_as_input`."""
    names = list(context.tensors)
    tensors = _tensors(context, names)
    return {name: tensor.numpy() for name, tensor in zip(["mean", "std", *names], tensors, strict=True)}


class _Baked(nn.Module):
    def __init__(self, network: nn.Module, context: Context) -> None:
        super().__init__()
        self.network = network
        self.scaling = InputScaling(context.info.scaling)
        self.classes = len(context.classes)
        self.numbers = OutputScaling(context.info.target_scaling) if context.info.kind == "regression" else None

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(self.scaling(x))
        out = out[:, : self.classes]
        return out if self.numbers is None else self.numbers(out)


class _WithContext(nn.Module):
    def __init__(self, network: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, x: Tensor, mean: Tensor, std: Tensor, context: list[Tensor]) -> Tensor:
        out: Tensor = functional_call(
            self.network, dict(zip(self.names, context, strict=True)), (standardize(x, mean, std),)
        )
        return out


class _GatheredSums(nn.Module):
    """The sparse encoder in operators that ONNX has: the sum of one gather per input of a node."""

    chosen: Tensor

    def __init__(self, encoder: SparseBinary) -> None:
        super().__init__()
        self.register_buffer("chosen", encoder.chosen.T.contiguous(), persistent=False)

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        x = x if gain is None else x * gain
        sums = x.index_select(-1, self.chosen[0])
        for columns in self.chosen[1:]:
            sums = sums + x.index_select(-1, columns)
        return sums


class _PlainEncoder(nn.Module):
    """The image encoder in operators that ONNX has: a convolution, divided by the local deviation."""

    def __init__(self, encoder: ImageEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder.plain(x)


def _exportable(model: nn.Module) -> nn.Module:
    network = editable_copy(model)
    for name, module in list(network.named_modules()):
        replaced: nn.Module | None = None
        if isinstance(module, SparseBinary):
            replaced = _GatheredSums(module)
        elif isinstance(module, ImageEncoder):
            replaced = _PlainEncoder(module)
        if replaced is not None:
            parent, _, leaf = name.rpartition(".")
            setattr(network.get_submodule(parent), leaf, replaced)
    return network


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingExtraError("exporting to ONNX", "onnx") from None
    return onnx, onnxruntime


def _tensors(context: Context, names: list[str]) -> list[Tensor]:
    mean, std = context.info.scaling
    return [torch.tensor(mean), torch.tensor(std), *(context.tensors[name].float() for name in names)]


def _rows(learner: Learner, scaling: Scaling) -> Tensor:
    """Random rows with the task's mean and standard deviation, for tracing and for the comparison."""
    if learner.input_shape is None:
        raise ModelError("this module has no input_shape: set module.input_shape = (features,)")
    generator = torch.Generator().manual_seed(0)
    mean, std = (broadcast_scale(scale, len(learner.input_shape)) for scale in scaling)
    return mean + std * torch.randn(7, *learner.input_shape, generator=generator)


def _record(learner: Learner, context: Context, context_as_input: bool) -> dict[str, str]:
    record = {"crwn.model": learner.fingerprint}
    if not context_as_input:
        record |= {"crwn.task": context.name, "crwn.classes": json.dumps(context.classes)}
        record |= {"crwn.kind": context.info.kind}
    return record


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".data")


def _write(
    onnx: Any, module: nn.Module, given: tuple[Any, ...], names: list[str], path: Path, record: dict[str, str]
) -> None:
    rows = {0: torch.export.Dim("rows", min=1)}
    shapes = (rows,) if len(given) == 1 else (rows, None, None, [None] * len(given[3]))
    with _quiet():
        program = torch.onnx.export(
            module,
            given,
            dynamo=True,
            opset_version=OPSET,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=shapes,
            verbose=False,
        )
    assert program is not None
    for key, value in record.items():
        program.model.metadata_props[key] = value
    weights = [value.const_value for value in program.model.graph.initializers.values()]
    large = sum(int(weight.nbytes) for weight in weights if weight is not None) > LARGEST_FILE
    try:
        # Written to a temporary folder beside it, then renamed.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".onnx-") as folder:
            new = Path(folder) / path.name
            program.save(new, external_data=large)
            onnx.checker.check_model(new)
            for file in (_beside(new), new):
                if file.exists():
                    file.replace(path.parent / file.name)
    except OSError as error:
        raise CRWNError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the logs and warnings of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _compare(
    runtime: Any, path: Path, module: nn.Module, given: tuple[Any, ...], names: list[str]
) -> tuple[float, Any]:
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    flat = [*given[:3], *given[3]] if len(given) > 3 else given
    (outputs,) = session.run(None, {name: value.numpy() for name, value in zip(names, flat, strict=True)})
    with torch.no_grad():
        expected = module(*given).numpy()
    difference = float(np.abs(outputs - expected).max() / max(1.0, float(np.abs(expected).max())))
    if not difference <= TOLERANCE:
        raise CRWNError(f"{path}: outputs of onnxruntime differ from torch's by {difference:.2g}: do not use this file")
    return difference, session
