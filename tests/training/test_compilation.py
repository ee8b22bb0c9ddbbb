"""Compiled learning gives the same numbers, and works without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import nn

from crwn.data.dataset import Rows
from crwn.layers.conv import TaskBatchNorm2d
from crwn.models import NeuroModResNet, WhitenedResNet, resnet18
from crwn.training import compilation, train
from crwn.training.compilation import compiled, find_compiler
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


def test_without_a_compiler_it_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert find_compiler() is None
    with pytest.warns(UserWarning, match=r"no C\+\+ compiler found: learning without torch.compile"):
        same = compiled(torch.square)
    assert same(torch.tensor(3.0)) == 9.0


def test_a_compiler_that_fails_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.exc import TorchDynamoException

    def broken(function: object, **settings: object) -> Callable[..., NoReturn]:
        def call(*arguments: object) -> NoReturn:
            raise TorchDynamoException("the compiler is broken\nwith much detail")

        return call

    monkeypatch.setattr(compilation, "find_compiler", lambda: "g++")
    monkeypatch.setattr(torch, "compile", broken)
    fast = compiled(torch.square)
    with pytest.warns(UserWarning, match=r"torch.compile failed \(the compiler is broken"):
        assert fast(torch.tensor(3.0)) == 9.0
    assert fast(torch.tensor(2.0)) == 4.0


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("default")
def test_compiled_learning_equals_eager() -> None:
    model = NeuroModResNet(width=2, classes=2, seed=0, input_shape=(3, 8, 8))
    generator = torch.Generator().manual_seed(0)
    rows = Rows(torch.randn(24, 3, 8, 8, generator=generator), torch.arange(24) % 2)
    recipe = Recipe(optimizer="sgd", rate=0.01, batch_size=12, epochs=2)
    (eager,) = train(model, [PreparedTask("a", rows, range(2))], recipe, seed=0)
    (fast,) = train(model, [PreparedTask("a", rows, range(2))], recipe.model_copy(update={"compile": True}), seed=0)
    for name, value in eager.tensors.items():
        torch.testing.assert_close(fast.tensors[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "make",
    [
        lambda: resnet18(norm=TaskBatchNorm2d, classes=2, width=2),
        lambda: NeuroModResNet(width=2, classes=2, seed=0, input_shape=(3, 16, 16)),
        lambda: WhitenedResNet(2, seed=0, input_shape=(3, 16, 16), filters=4, channels=4, last=4),
    ],
    ids=["custom", "resnet", "whitened"],
)
def test_a_run_of_many_tasks_is_compiled_once(make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has a replica of its own: if that counted as another network, torch would give up after eight."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    compile = torch.compile
    monkeypatch.setattr("crwn.training.compilation.find_compiler", lambda: "g++")
    monkeypatch.setattr(torch, "compile", lambda function, **settings: compile(function, backend=backend, **settings))
    torch._dynamo.reset()
    model = make()
    rows = Rows(torch.randn(8, 3, 16, 16), torch.arange(8) % 2)
    for name in "abc":
        train(model, [PreparedTask(name, rows, range(2))], Recipe(batches=2, compile=True), seed=0)
    assert len(graphs) == 1


COMPILE = """
import torch
from crwn.training.compilation import compiled
x = torch.ones(4, 4, requires_grad=True)
y = compiled(lambda x: (x @ x).sin().sum())(x)
y.backward()
print(y.item())
"""


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_libraries_that_a_killed_process_cut_short_are_made_anew(tmp_path: Path) -> None:
    def compile() -> str:
        command = [sys.executable, "-c", COMPILE]
        done = subprocess.run(
            command, env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "failed" not in done.stderr
        return done.stdout

    first = compile()
    libraries = list(tmp_path.rglob("*.so"))
    assert libraries
    for at, library in enumerate(libraries):  # empty, only a header, without its end
        os.truncate(library, (0, 900, library.stat().st_size - 1)[at % 3])
    assert compile() == first
    assert all(compilation._is_whole(library) for library in libraries)


def test_a_library_that_is_being_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (tmp_path / "locks").mkdir()
    for name in ("written", "left"):
        (tmp_path / f"{name}.main.so").touch()
    with FileLock(tmp_path / "locks" / "written.lock"):
        compilation._remove_cut_libraries()
    assert [file.name for file in tmp_path.glob("*.so")] == ["written.main.so"]
