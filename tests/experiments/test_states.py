"""The folder of a run whose method learns contexts is a model folder: every way to use a model opens it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crwn import Learner, make_scenario
from crwn.cli import app
from crwn.errors import ConfigError, ModelError
from crwn.experiments import RunFolder, RunResult, make_config, run
from crwn.experiments.reopen import relearned

CASES = {
    "neuromodnet": ("neuromodnet", "32", {}),
    "flynet": ("flynet", "3d", {}),
    "local": ("neuromodnet", "32", {"modulation": "local"}),
    "pretrained": ("neuromodnet", "32", {"pretrained": "true"}),
}


@pytest.fixture(scope="module", params=list(CASES))
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    method, size, settings = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param) / "run"
    config = make_config(
        scenario="rotated-digits", method=method, size=size, tasks=3, batches=60, settings=settings, threads=1
    )
    return folder, run(config, folder)


def test_a_learner_agrees_with_the_run(done: tuple[Path, RunResult]) -> None:
    folder, result = done
    scenario = make_scenario("rotated-digits", tasks=3)
    with Learner.load(folder) as learner:
        assert learner.tasks == result.tasks
        for task, accuracy in zip(scenario, result.accuracy, strict=True):
            x, y = task.raw()
            assert 100 * learner.score(x, y, task=task.name) == pytest.approx(accuracy, abs=0.3), "raw rows"
            labels = [task.classes[i] for i in task.test.labels(slice(None)).tolist()]
            assert 100 * learner.score(task.test, labels, task=task.name) == pytest.approx(accuracy), "the run's rows"
            context = learner.context(task.name)
            assert context.info["accuracy"] == pytest.approx(accuracy, abs=0.01)
            assert context.info["factors"] == dict(task.factors)
            assert learner.infer_task(x[:32])[0].fit is not None
        mixed = np.concatenate([task.raw()[0][:4] for task in scenario])
        each = [task.name for task in scenario for _ in range(4)]
        apart = np.concatenate([learner.predict(task.raw()[0][:4], task=task.name) for task in scenario])
        assert learner.predict(mixed, task=each).tolist() == apart.tolist()


def test_the_command_line_opens_it(done: tuple[Path, RunResult], tmp_path: Path) -> None:
    folder, result = done
    task = make_scenario("rotated-digits", tasks=3)[1]
    x, y = task.raw()
    np.savez(tmp_path / "rows.npz", x=x, y=np.array(y))
    command = CliRunner()
    listed = command.invoke(app, ["tasks", str(folder), "--json"])
    assert [one["task"] for one in json.loads(listed.stdout)["tasks"]] == result.tasks
    predicted = command.invoke(app, ["predict", str(folder), str(tmp_path / "rows.npz"), "--task", task.name, "--json"])
    assert predicted.exit_code == 0, predicted.output
    atlas = command.invoke(app, ["atlas", str(folder), "--out", str(tmp_path / "atlas")])
    assert atlas.exit_code == 0, atlas.output
    assert (tmp_path / "atlas" / "atlas.json").exists()


def test_a_model_copied_from_a_run_predicts_the_same(done: tuple[Path, RunResult], tmp_path: Path) -> None:
    folder, _ = done
    x, _ = make_scenario("rotated-digits", tasks=1)[0].raw()
    with Learner.load(folder) as learner:
        learner.save(tmp_path / "copy.crwn")
        expected = learner.predict_proba(x, task="rotate-000")
    with Learner.load(tmp_path / "copy.crwn") as copy:
        assert np.array_equal(copy.predict_proba(x, task="rotate-000"), expected)


def test_the_run_opened_again_has_learned_the_same(done: tuple[Path, RunResult]) -> None:
    folder, result = done
    experiment = relearned(folder)
    for task, accuracy in zip(experiment.scenario, result.accuracy, strict=True):
        right = experiment.method.logits(task, task.test).argmax(dim=1) == task.test.labels(slice(None))
        assert 100 * float(right.float().mean()) == pytest.approx(accuracy)


def test_colour_images_are_standardized_channel_by_channel(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = (generator.random((80, 3, 16, 16)) * [[[60]], [[120]], [[250]]]).astype(np.uint8)
    y = np.arange(80) % 4
    x[y % 2 == 0, 0, :8] //= 4
    np.savez(tmp_path / "images.npz", x=x, y=y)
    (tmp_path / "two.toml").write_text('kind = "split"\ndata = "images.npz"\nclasses_per_task = 2\nepochs = 2\n')
    config = make_config(scenario=str(tmp_path / "two.toml"), method="neuromodnet", threads=1)
    result = run(config, tmp_path / "run")
    scenario = make_scenario(str(tmp_path / "two.toml"))
    mean, _ = scenario[0].scaling
    assert isinstance(mean, tuple)
    assert len(mean) == 3
    with Learner.load(tmp_path / "run") as learner:
        for task, accuracy in zip(scenario, result.accuracy, strict=True):
            raw, labels = task.raw()
            assert raw.dtype == np.uint8
            assert 100 * learner.score(raw, labels, task=task.name) == pytest.approx(accuracy, abs=0.1)
            prepared = learner.predict_proba(task.test, task=task.name)
            np.testing.assert_allclose(learner.predict_proba(raw, task=task.name), prepared, atol=1e-3)
            each = learner.predict_proba(raw, task=[task.name] * len(raw))
            np.testing.assert_allclose(np.stack(each), prepared, atol=1e-3)
            assert learner.infer_task(raw[:8], method="one-shot")[0].score > 0
            merged = learner.merge(task.name)
            import torch

            with torch.no_grad():
                out = merged(torch.from_numpy(raw)).softmax(dim=1).numpy()
            np.testing.assert_allclose(out, prepared, atol=1e-3)


def test_damage_is_one_line(done: tuple[Path, RunResult], tmp_path: Path) -> None:
    folder, result = done
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    lines = RunFolder(copy).lines()
    lines[1]["context"] = "0" * 64
    RunFolder(copy).keep(lines)
    with pytest.raises(ConfigError, match=f'bank.sqlite has another context for task "{result.tasks[1]}"'):
        relearned(copy)
    (copy / "bank.sqlite").unlink()
    with pytest.raises(ConfigError, match=r"bank\.sqlite is missing"):
        relearned(copy)
    (copy / "model.json").unlink()
    with pytest.raises(ModelError, match=r"record of a run .* do the run again"):
        Learner.load(copy)
