"""A state on disk: whole or not there, and never taken for another's."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from crwn.training.checkpoint import Checkpoint


def made(kind: str = "adam") -> tuple[dict[str, torch.Tensor], torch.optim.Optimizer]:
    tensors = {"v": torch.arange(6.0).reshape(2, 3).requires_grad_(), "mean": torch.ones(2)}
    optimizer = torch.optim.Adam([tensors["v"]]) if kind == "adam" else torch.optim.SGD([tensors["v"]], lr=0.1)
    tensors["v"].square().sum().backward()
    optimizer.step()
    return tensors, optimizer


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_what_was_saved_comes_back_in_place(kind: str, tmp_path: Path) -> None:
    tensors, optimizer = made(kind)
    Checkpoint(tmp_path / "state", "a").save(tensors, optimizer, 17)
    others, other = made(kind)
    with torch.no_grad():
        others["v"].zero_()
        others["mean"].zero_()
    leaf = others["v"]
    assert Checkpoint(tmp_path / "state", "a").restore(others, other) == 17
    assert others["v"] is leaf
    assert torch.equal(others["v"], tensors["v"])
    assert torch.equal(others["mean"], torch.ones(2))
    mine, theirs = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert mine.keys() == theirs.keys()
    for at in mine:
        assert all(torch.equal(torch.as_tensor(mine[at][key]), torch.as_tensor(theirs[at][key])) for key in mine[at])
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


def test_another_identity_or_no_file_starts_at_zero(tmp_path: Path) -> None:
    tensors, optimizer = made()
    assert Checkpoint(tmp_path / "state", "a").restore(tensors, optimizer) == 0
    Checkpoint(tmp_path / "state", "a").save(tensors, optimizer, 17)
    before = tensors["v"].detach().clone()
    assert Checkpoint(tmp_path / "state", "b").restore(tensors, optimizer) == 0
    assert torch.equal(tensors["v"], before)


def test_a_damaged_file_is_ignored_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tensors, optimizer = made()
    Checkpoint(path, "a").save(tensors, optimizer, 17)
    whole = path.read_bytes()
    for length in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert Checkpoint(path, "a").restore(tensors, optimizer) == 0


def test_short_tasks_save_nothing(tmp_path: Path) -> None:
    assert not Checkpoint(tmp_path / "state", "a").due()
    assert Checkpoint(tmp_path / "state", "a", seconds=0).due()


def test_clear_removes_what_is_there_and_only_that(tmp_path: Path) -> None:
    tensors, optimizer = made()
    checkpoint = Checkpoint(tmp_path / "state.safetensors", "a")
    checkpoint.clear()
    checkpoint.save(tensors, optimizer, 1)
    (tmp_path / "other").write_bytes(b"")
    checkpoint.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    tensors, optimizer = made()
    checkpoint = Checkpoint(tmp_path / "state" / "checkpoint.safetensors", "a")
    checkpoint.save(tensors, optimizer, 17)
    assert checkpoint.restore(tensors, optimizer) == 17


def test_changed_tensors_are_noticed_and_old_files_without_a_checksum_are_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tensors, optimizer = made()
    Checkpoint(path, "a").save(tensors, optimizer, 17)
    with safe_open(path, "pt") as file:
        facts = dict(file.metadata())
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    path.write_bytes(save({name: torch.zeros_like(value) for name, value in state.items()}, facts))
    with pytest.warns(UserWarning, match="is damaged: its task is trained from the start"):
        assert Checkpoint(path, "a").restore(*made()) == 0
    path.write_bytes(save(state, facts | {"step": "400"}))
    with pytest.warns(UserWarning, match="is damaged"):
        assert Checkpoint(path, "a").restore(*made()) == 0
    del facts["checksum"]
    path.write_bytes(save(state, facts))
    assert Checkpoint(path, "a").restore(*made()) == 17
