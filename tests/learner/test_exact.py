"""A learner's closed form: any split and order, rows taken back, statistics merged, kills, bad input."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crwn
from crwn.errors import ConfigError, ContextError, CRWNError, DataError, TaskExistsError
from crwn.learner.removal import Removal
from crwn.training.exact.statistics import merge
from digit_rows import Data


def model(hidden: int = 300) -> crwn.FlyNet:
    return crwn.FlyNet(64, hidden, 10, seed=0)


def pixels(digits: Data) -> tuple[np.ndarray, np.ndarray]:
    return (digits[0] * 15).astype(np.uint8), digits[1]


def difference(one: crwn.Context, other: crwn.Context) -> float:
    return max(float((one.tensors[key] - other.tensors[key]).abs().max()) for key in one.tensors)


def test_learns_in_closed_form(digits: Data) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(model(1000))
    context = learner.learn("digits", x[:1200], y[:1200], method="exact", progress=False)
    assert learner.score(x[1200:], y[1200:], task="digits") > 0.9
    assert context.info.exact is not None
    assert context.info.exact["ridge"] > 0
    assert context.info.rows == 1200
    assert "statistics" not in context.info.exact
    newton = learner.learn("newton", x[:1200], y[:1200], method="exact", newton=3, progress=False)
    assert newton.info.exact is not None
    assert newton.info.exact["newton"] == 3


def test_ten_splits_and_orders_give_one_context(digits: Data) -> None:
    x, y = pixels(digits)
    x, y = x[:600], y[:600]
    network = model()
    whole = crwn.Learner(network).learn("t", x, y, method="exact", progress=False)
    for seed in range(10):
        generator = np.random.default_rng(seed)
        order = generator.permutation(600)
        learner = crwn.Learner(network)
        for part in np.split(order, sorted(generator.integers(1, 600, size=1 + seed % 4))):
            if len(part):
                learner.partial_fit("t", x[part], y[part], classes=range(10))
        assert difference(learner.context("t"), whole) < 1e-5


@pytest.mark.parametrize("hidden", [300, 2100])
def test_unlearning_equals_learning_without(digits: Data, hidden: int) -> None:
    x, y = pixels(digits)
    away = np.random.default_rng(0).permutation(len(x))[:1000]
    left = np.setdiff1d(np.arange(len(x)), away)
    network = model(hidden)
    learner = crwn.Learner(network)
    learner.learn("t", x, y, method="exact", keep_statistics=True, progress=False)
    note = learner.unlearn("t", x[away], y[away], key=b"secret")
    without = crwn.Learner(network).learn("t", x[left], y[left], method="exact", progress=False)
    found = learner.context("t")
    assert difference(found, without) < 1e-5
    assert (note.rows, note.left_rows, found.info.rows) == (1000, len(left), len(left))
    assert note.verify(b"secret")
    assert not note.verify(b"another")
    assert not Removal.from_dict({**note.as_dict(), "rows": 1}).verify(b"secret")
    assert found.info.exact is not None
    assert Removal.from_dict(found.info.exact["removed"][0]) == note
    assert found.info.sketch is None
    assert found.info.training_accuracy is None


def test_merged_statistics_of_owners_give_the_context_of_the_union(digits: Data) -> None:
    x, y = pixels(digits)
    network = model()
    owners = []
    for at in np.array_split(np.arange(600), 3):
        learner = crwn.Learner(network)
        learner.partial_fit("mine", x[at], y[at], classes=range(10))
        owners.append(learner.statistics("mine"))
    union = crwn.Learner(network)
    merged = union.add_statistics("all", merge(*owners))
    whole = union.learn("whole", x[:600], y[:600], method="exact", progress=False)
    assert difference(merged, whole) < 1e-5
    assert union.score(x[600:], y[600:], task="all") > 0.8


def test_statistics_stay_beside_the_context_and_go_with_it(digits: Data, tmp_path: Path) -> None:
    x, y = pixels(digits)
    folder, copy = tmp_path / "m.crwn", tmp_path / "copy.crwn"
    with crwn.Learner(model(), bank=folder) as learner:
        learner.partial_fit("t", x[:400], y[:400])
        learner.partial_fit("t", x[400:800], y[400:800])
        assert len(list((folder / "statistics").glob("*.safetensors"))) == 1  # the old ones are gone
        learner.save(copy)
    with crwn.Learner.load(copy) as learner:
        learner.partial_fit("t", x[800:], y[800:])
        assert learner.statistics("t").rows == len(x)
        learner.forget("t")
        assert not list((copy / "statistics").glob("*.safetensors"))
    with crwn.Learner.load(folder) as learner:
        assert learner.statistics("t").rows == 800


def test_sample_and_class_weights_are_taken_back_too(digits: Data) -> None:
    x, y = pixels(digits)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(x)).astype(np.float32)
    by_class = {0: 3.0, 5: 0.5}
    learner = crwn.Learner(model())
    options = {"class_weight": by_class, "ridge": 1e-2}
    learner.partial_fit("t", x, y, sample_weight=weight, **options)  # type: ignore[arg-type]
    learner.unlearn("t", x[:300], y[:300], sample_weight=weight[:300])
    learner.partial_fit("u", x[300:], y[300:], sample_weight=weight[300:], **options)  # type: ignore[arg-type]
    assert difference(learner.context("t"), learner.context("u")) < 1e-4


def test_bad_input_is_one_line_and_changes_nothing(digits: Data) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(model())
    before = learner.partial_fit("t", x[:100], y[:100])
    rows = learner.statistics("t").rows
    with pytest.raises(DataError, match="label 'new' is not a class of task \"t\""):
        learner.partial_fit("t", x[:2], ["new", "new"])
    with pytest.raises(DataError, match=r"rows of class .* to remove, but only"):
        learner.unlearn("t", np.tile(x[:1], (60, 1)), np.tile(y[:1], 60))
    with pytest.raises(DataError, match='all rows of task "t" would be removed: use forget'):
        learner.unlearn("t", x[:100], y[:100])
    with pytest.raises(CRWNError, match="singular with ridge 0"):
        learner.learn("s", x[:20], y[:20], method="exact", ridge=0.0, progress=False)
    with pytest.raises(ConfigError, match="newton"):
        learner.learn("t", x, y, method="exact", newton=2, resume=True)
    with pytest.raises(ConfigError, match='ridge is an option of method="exact"'):
        learner.learn("u", x, y, ridge=1.0)
    with pytest.raises(ConfigError, match='batches is an option of method="gradient"'):
        learner.learn("u", x, y, method="exact", batches=10)
    with pytest.raises(ConfigError, match='unknown method "magic"'):
        learner.learn("u", x, y, method="magic")
    with pytest.raises(ConfigError, match="ridge"):
        learner.learn("u", x, y, method="exact", ridge=-1.0)
    with pytest.raises(TaskExistsError):
        learner.learn("t", x, y, method="exact")
    with pytest.raises(ConfigError, match="balanced"):
        learner.partial_fit("t", x, y, class_weight="balanced")
    other = crwn.Learner(crwn.FlyNet(64, 300, 10, seed=1))
    other.partial_fit("t", x[:100], y[:100])
    with pytest.raises(ContextError, match="of another model"):
        learner.add_statistics("u", other.statistics("t"))
    with pytest.raises(ContextError, match="another model"):
        learner.statistics("t").add(other.statistics("t"))
    wrongs: list[Any] = [3, other.context("t"), None]
    for wrong in wrongs:
        with pytest.raises(ContextError, match=f"and their sums, this is {type(wrong).__name__}"):
            learner.add_statistics("u", wrong)
        with pytest.raises(ContextError, match=f"and their sums, this is {type(wrong).__name__}"):
            learner.statistics("t").add(wrong)
    learner.learn("plain", x[:200], y[:200], method="exact", progress=False)
    with pytest.raises(ContextError, match='task "plain" keeps no statistics'):
        learner.unlearn("plain", x[:1], y[:1])
    assert difference(learner.context("t"), before) == 0.0
    assert learner.statistics("t").rows == rows
    assert sorted(learner.tasks) == ["plain", "t"]


# Children are forked: importing everything twenty times would take minutes.
KILLS = """
import os, signal, sys, time, numpy as np, crwn
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
x = (x * 15).astype(np.uint8)
generator = np.random.default_rng(0)
for _ in range(20):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        learner = crwn.Learner.load(sys.argv[1])
        at = learner.statistics("t").rows
        while True:  # the same rows again, when all were added
            os.write(writer, b"x")
            learner.partial_fit("t", x[at % 1780 : at % 1780 + 20], y[at % 1780 : at % 1780 + 20])
            at += 20
    os.read(reader, 1)
    began = time.perf_counter()
    os.read(reader, 1)  # one call is done: the kill comes anywhere within the next two, however slow the machine is
    time.sleep(generator.uniform(0.0, 2.0) * (time.perf_counter() - began))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with crwn.Learner.load(sys.argv[1]) as learner:
        print(learner.statistics("t").rows, learner.context("t").info.rows, flush=True)
"""


def test_twenty_kills_leave_nothing_half_added(digits: Data, tmp_path: Path) -> None:
    x, y = pixels(digits)
    folder, network = tmp_path / "m.crwn", model(200)
    with crwn.Learner(network, bank=folder) as learner:
        learner.partial_fit("t", x[:20], y[:20], classes=range(10))
    done = subprocess.run([sys.executable, "-c", KILLS, str(folder)], capture_output=True, text=True, check=True)
    counts = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(counts) == 20
    assert all(added % 20 == 0 and added == known for added, known in counts)
    assert counts == sorted(counts)
    assert counts[-1][0] > 20
    whole = crwn.Learner(network)
    at = 0
    while at < counts[-1][0]:
        whole.partial_fit("t", x[at % 1780 :][:20], y[at % 1780 :][:20], classes=range(10))
        at += 20
    with crwn.Learner.load(folder) as learner:
        assert difference(learner.context("t"), whole.context("t")) < 1e-5
