"""Model folders, exported contexts and runs that earlier versions wrote open, predict and resume as they did."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crwn import Context, Learner, make_scenario
from crwn.errors import MissingExtraError
from crwn.experiments import make_config, run

FORMATS = Path(__file__).parent / "formats"


@pytest.fixture(params=["float32", "int8"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def written(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FORMATS / "2026-11" / f"{kind}.json").read_text())
    return found


def test_a_model_folder_predicts_what_it_predicted(kind: str, written: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "model.crwn"
    shutil.copytree(FORMATS / "2026-11" / f"{kind}.crwn", folder)
    with Learner.load(folder) as learner:
        assert learner.tasks == ["held out", "sign"]
        assert learner.bank.store == kind
        for task in learner.tasks:
            found = learner.predict_proba(np.array(written["rows"], dtype="float32"), task=task)
            np.testing.assert_allclose(found, written[task], atol=1e-6)
        ranking = learner.infer_task(np.array(written["ranked_rows"], dtype="float32"))
        assert [score.task for score in ranking] == [name for name, *_ in written["ranking"]]
        np.testing.assert_allclose(
            [score.certainty for score in ranking], [row[1] for row in written["ranking"]], atol=1e-6
        )
        assert [score.fit for score in ranking] == pytest.approx([row[2] for row in written["ranking"]], abs=1e-6)
        assert learner.context("sign").info["owner"] == "north"


def test_an_exported_context_is_taken_by_the_same_model(kind: str, written: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "model.crwn"
    shutil.copytree(FORMATS / "2026-11" / f"{kind}.crwn", folder)
    context = Context.load(FORMATS / "2026-11" / f"{kind}.safetensors")
    with Learner.load(folder) as learner:
        learner.forget("sign")
        learner.add(context)
        found = learner.predict_proba(np.array(written["rows"], dtype="float32"), task="sign")
        np.testing.assert_allclose(found, written["sign"], atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"pretrained": "true"}], ids=["plain", "pretrained"])
def test_a_run_that_kept_files_becomes_a_model_folder_when_it_resumes(settings: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FORMATS / "2026-11" / ("pretrained" if settings else "run") / "seed-0", folder)
    before = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    if settings:  # the first task alone, then the others in one stack
        (folder / "metrics.jsonl").write_text(lines[0])
    config = make_config(
        scenario="rotated-digits", method="neuromodnet", size="16", tasks=3, batches=20, settings=settings, threads=1
    )
    result = run(config, folder)
    assert result.accuracy == pytest.approx(before["accuracy"], abs=1.0)  # another instruction set rounds differently
    assert all("context" in json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    scenario = make_scenario("rotated-digits", tasks=3)
    with Learner.load(folder) as learner:
        assert learner.tasks == result.tasks
        for task, accuracy in zip(scenario, result.accuracy, strict=True):
            x, y = task.raw()
            assert 100 * learner.score(x, y, task=task.name) == pytest.approx(accuracy, abs=0.3)


WRITTEN = sorted(folder for folder in FORMATS.glob("*/*.crwn") if folder.with_suffix(".json").is_file())


@pytest.mark.parametrize("folder", WRITTEN, ids=lambda folder: f"{folder.parent.name}-{folder.stem}")
def test_folders_of_every_landed_format_predict_what_they_predicted(folder: Path, tmp_path: Path) -> None:
    written = json.loads(folder.with_suffix(".json").read_text())
    shutil.copytree(folder, tmp_path / "model.crwn")
    with _loaded(tmp_path / "model.crwn") as learner:
        assert learner.tasks
        rows = np.array(written["rows"], dtype=written.get("dtype", "float32"))
        for task in learner.tasks:
            kind = learner.context(task).info.kind
            found = learner.predict(rows, task) if kind == "regression" else learner.predict_proba(rows, task)
            np.testing.assert_allclose(found, written[task], atol=1e-5)
        assert learner.bank.verify() == []


def _loaded(folder: Path) -> Learner:
    """The learner of a folder; the test is skipped where the backbone's package is not installed."""
    try:
        return Learner.load(folder)
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_every_format_has_a_version_in_the_table() -> None:
    """The table in the docs has the versions that the code writes."""
    from crwn.contexts import record
    from crwn.contexts.bank import tables
    from crwn.data import cache, feature_cache
    from crwn.experiments import folder as runs
    from crwn.learner import backup
    from crwn.learner import folder as models
    from crwn.training.exact import files

    text = (Path(__file__).parents[1] / "docs" / "decisions.md").read_text()
    table = {line.split("|")[1].strip(): line.split("|")[3].strip() for line in text.splitlines() if "`format`" in line}
    assert table == {
        "model folder": str(models.FORMAT),
        "context (`.safetensors`, a bank's payload)": str(record.FORMAT),
        "bank": tables.FORMAT,
        "backup": str(backup.FORMAT),
        "statistics of the closed form": str(files.FORMAT),
        "run": str(runs.FORMAT),
        "cached dataset, cached features": str(cache.FORMAT),
    }
    assert cache.FORMAT == feature_cache.FORMAT
