"""Objects made ready to travel: large tensors that many pieces of work share are sent once."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

LARGE = 2**20  # bytes from which a tensor is worth an object of its own


class Packed(NamedTuple):
    """An object without its large tensors, and what stands for those."""

    data: bytes
    large: list[Any]


class Packer:
    """Packs many objects; a large tensor that several of them hold is handed to `put` once.

    Args:
        put: array -> what stands for it on the way.
    """

    def __init__(self, put: Callable[[npt.NDArray[Any]], Any]) -> None:
        self._put = put
        # The tensors are kept too: the address of one that is gone may be given to another.
        self._sent: dict[tuple[Any, ...], tuple[Any, Tensor]] = {}

    def pack(self, thing: Any) -> Packed:
        large: list[Any] = []
        packer = self

        class Pickler(_pickler()):  # type: ignore[misc]
            def persistent_id(self, part: Any) -> int | None:
                if type(part) is not Tensor or part.nbytes < LARGE or part.requires_grad or part.device.type != "cpu":
                    return None
                large.append(packer._stand_in(part))
                return len(large) - 1

            def reducer_override(self, thing: Any) -> Any:
                if isinstance(thing, nn.Module) and parametrize.is_parametrized(thing):
                    return _taken_apart(thing)
                usual = getattr(super(), "reducer_override", None)
                return NotImplemented if usual is None else usual(thing)

        buffer = io.BytesIO()
        Pickler(buffer).dump(thing)
        return Packed(buffer.getvalue(), large)

    def _stand_in(self, tensor: Tensor) -> Any:
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key not in self._sent:
            self._sent[key] = (self._put(tensor.numpy()), tensor)
        return self._sent[key][0]


def _taken_apart(module: nn.Module) -> tuple[Any, ...]:
    """How to make a module with parametrized weights again: torch does not pickle its class, made on the fly."""
    return _put_together, (parametrize.type_before_parametrizations(module), dict(vars(module)))


def _put_together(kind: type[nn.Module], state: dict[str, Any]) -> Any:
    module = kind.__new__(kind)
    module.__dict__.update(state)
    # What `register_parametrization` does at its end. Its beginning would compute the originals anew from the weights,
    # and for some parametrizations (orthogonal ones) find others.
    parametrize._inject_new_class(module)
    chains: Any = module.parametrizations
    for name in chains:
        parametrize._inject_property(module, name)
    return module


def _pickler() -> type[pickle.Pickler]:
    """cloudpickle's where it is installed (Ray brings it): it packs lambdas, and what was defined in a notebook."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        return pickle.Pickler
    found: type[pickle.Pickler] = cloudpickle.Pickler
    return found


def unpack(data: bytes, large: list[npt.NDArray[Any]]) -> Any:
    """The object again, around the arrays it was packed without."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: Any) -> Tensor:
            with warnings.catch_warnings():
                # Arrays in shared memory cannot be written to; rows are only read.
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                return torch.from_numpy(large[number])

    return Unpickler(io.BytesIO(data)).load()
