"""The commands for model folders: learn, predict, tasks, forget, export, import-context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import Crwn
from crwn import Learner
from crwn.experiments import RunFolder
from crwn.scenarios import make_scenario


def test_a_run_opens_like_a_model(crwn: Crwn, tmp_path: Path) -> None:
    """`crwn tasks`, `predict` and `export` take the folder of a seed, or the folder above where there is one seed."""
    out = tmp_path / "run"
    words = ("run", "rotated-digits", "neuromodnet", "--size", 64, "--tasks", 2, "--batches", 40, "--out", out)
    accuracies = RunFolder(Path(crwn(*words, "--json")["run_dirs"][0])).result()
    assert accuracies is not None
    x, y = make_scenario("rotated-digits", tasks=2)[1].raw()
    np.savez(tmp_path / "turned.npz", x=x, y=np.array(y))
    for folder in (out / "seed-0", out):
        assert [one["task"] for one in crwn("tasks", folder, "--json")["tasks"]] == ["rotate-000", "rotate-010"]
        predicted = crwn("predict", folder, tmp_path / "turned.npz", "--task", "rotate-010", "--json")
        assert predicted["accuracy"] == pytest.approx(accuracies.accuracy[1], abs=0.006)
    crwn("export", out, "rotate-010", tmp_path / "one.safetensors")
    crwn(*words, "--seeds", 1)
    said = crwn("tasks", out, fails=True)
    assert said == f"{out} has the runs of 2 seeds: give one of seed-0, seed-1, like {out / 'seed-0'}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("learn", "{m}", "t", "nowhere.npz"), "nowhere.npz does not exist"),
        (("learn", "{m}", "t", "{d}/unlabelled.npz"), "has no labels"),
        (("learn", "{m}", "t", "{d}/narrow.npz"), "rows have shape"),
        (("learn", "{m}", "", "{d}/up.npz"), "task name"),
        (("learn", "{m}", "t", "{d}/up.npz", "--batches", "1", "--epochs", "1"), "both batches (1) and epochs (1)"),
        (("learn", "{m}", "none", "{d}/up.npz", "--resume"), '"none"'),
        (("predict", "{m}", "{d}/test.npz", "--task", "u"), '"u"'),
        (("predict", "{m}", "{d}/narrow.npz", "--task", "up"), "rows have shape"),
        (("predict", "nowhere.crwn", "{d}/test.npz"), "there is no model folder"),
        (("export", "{m}", "none", "x.safetensors"), '"none"'),
        (("export", "{m}", "up", "/nowhere/x.safetensors"), "/nowhere"),
        (("import-context", "{m}", "nowhere.safetensors"), "cannot read context file"),
        (("learn", "{d}", "t", "{d}/up.npz"), "is not a model folder"),
        (("learn", "{d}/up.npz", "t", "{d}/up.npz"), "is not a model folder"),
    ],
)
def test_bad_input_is_one_line_and_harms_nothing(
    crwn: Crwn, files: Path, model_folder: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in crwn(*(word.format(m=model_folder, d=files) for word in words), fails=True)
    with Learner.load(model_folder) as learner:
        assert learner.tasks == ["down", "up"]
