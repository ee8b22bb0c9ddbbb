"""A model on disk: read back as it was, refused when it is not whole or not the same."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from crwn import FlyNet, Learner, NeuroModNet
from crwn.errors import CRWNError, ModelError
from crwn.learner.folder import find_folder, read_description, read_model, write_description
from crwn.models import fingerprint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "m.crwn"
    with Learner(NeuroModNet(4, (8,), 2, seed=0), bank=made) as learner:
        learner.learn("t", np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10, batches=2, progress=False)
    return made


def test_the_description_is_readable_and_says_everything(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    assert record["format"] == 1
    assert record["kind"] == "neuromodnet"
    assert record["config"]["seed"] == 0
    assert record["config"]["weights"] == "gaussian"
    assert record["fingerprint"] == fingerprint(NeuroModNet(4, (8,), 2, seed=0))
    assert fingerprint(read_model(folder)) == record["fingerprint"]


def test_flynet_comes_back(tmp_path: Path) -> None:
    model = FlyNet(9, 30, 3, seed=4, gamma=0.5)
    write_description(tmp_path / "f.crwn", model)
    write_description(tmp_path / "f.crwn", model)
    assert fingerprint(read_model(tmp_path / "f.crwn")) == fingerprint(model)


def change(**changes: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        record = json.loads((folder / "model.json").read_text())
        for key, value in changes.items():
            target = record["config"] if key in record["config"] else record
            target[key] = value
        (folder / "model.json").write_text(json.dumps(record))

    return apply


def cut(name: str, length: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (change(seed=1), r"was made with model .*, this model is .*: use the same architecture, weights and seed"),
        (change(hidden=[9]), "was made with model"),
        (change(fingerprint="0" * 64), "was made with model 000000000000"),
        (change(hidden=[-5]), "at least 1"),
        (change(hidden="wide"), "damaged|does not fit"),
        (change(in_features=4.5), "damaged|does not fit"),
        (change(config=None), "unknown kind"),
        (change(kind="mlp"), 'unknown kind of network "mlp"'),
        (change(kind=["mlp"]), "damaged"),
        (change(format=2), "has format 2, this crwn reads 1: update crwn"),
        (change(fingerprint=None), "not a model description"),
        (cut("model.json", 0), "damaged"),
        (cut("model.json", 50), "damaged"),
        (cut("bank.sqlite", 0), "bank.sqlite"),
        (cut("bank.sqlite", 100), "bank.sqlite"),
        (cut("bank.sqlite", 5000), "bank.sqlite"),
        (lambda folder: (folder / "model.json").unlink(), "is not a model folder: it has no model.json"),
        (lambda folder: (folder / "bank.sqlite").unlink(), "has no bank.sqlite: its contexts are missing"),
        (lambda folder: (folder / "model.json").write_bytes(b"\xff\xfe\x00"), "damaged"),
        (lambda folder: (folder / "model.json").write_text("[]"), "not a model description"),
        (lambda folder: (folder / "bank.sqlite").write_bytes(b"not a database" * 1000), "bank.sqlite"),
    ],
)
def test_a_harmed_folder_is_refused_in_one_line(folder: Path, harm: Callable[[Path], None], said: str) -> None:
    harm(folder)
    with pytest.raises(CRWNError, match=said) as caught, Learner.load(folder) as learner:
        learner.predict(np.zeros((1, 4)), task="t")
    assert "\n" not in str(caught.value)


def test_no_folder_or_a_file_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model folder"):
        Learner.load(tmp_path / "none.crwn")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="there is no model folder"):
        read_description(tmp_path / "file")
    with pytest.raises(ModelError, match="cannot write model folder"):
        Learner(NeuroModNet(4, (8,), 2, seed=0), bank=tmp_path / "file")


def test_own_networks_are_asked_for_and_compared(tmp_path: Path) -> None:
    own = nn.Sequential(nn.Linear(4, 2))
    write_description(tmp_path / "own.crwn", own)
    with pytest.raises(ModelError, match="pass it as model="):
        read_model(tmp_path / "own.crwn")
    assert read_model(tmp_path / "own.crwn", own) is own
    with pytest.raises(ModelError, match="was made with model"):
        read_model(tmp_path / "own.crwn", NeuroModNet(4, (8,), 2, seed=0))


def test_the_folder_above_one_seed_stands_for_its_run(tmp_path: Path) -> None:
    def run(seed: int) -> Path:
        folder = tmp_path / "run" / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        return folder

    assert find_folder(tmp_path / "nowhere") == tmp_path / "nowhere"
    first = run(0)
    assert find_folder(tmp_path / "run") == find_folder(first) == first
    run(1)
    with pytest.raises(ModelError, match=r"run has the runs of 2 seeds: give one of seed-0, seed-1"):
        find_folder(tmp_path / "run")
    assert find_folder(tmp_path / "run", first=True) == first
    (tmp_path / "run" / "model.json").write_text("{}")
    assert find_folder(tmp_path / "run") == tmp_path / "run"
