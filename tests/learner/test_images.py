"""Images in a learner: ImageFlyNet learns, predicts mixed tasks, infers tasks, is saved, and refuses bad images."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from crwn import ImageFlyNet, Learner
from crwn.errors import DataError

Images = npt.NDArray[np.uint8]


def striped(down: int, count: int = 60, *, seed: int = 0, channels: int = 3) -> tuple[Images, list[str]]:
    """Photographs of nothing but noise and stripes of a width; their classes are the directions of the stripes."""
    generator = np.random.default_rng(seed)
    labels = ["across" if at % 2 else "along" for at in range(count)]
    pattern = (np.arange(16) // down % 2) * 120
    x = generator.integers(0, 100, size=(count, channels, 16, 16))
    for at, label in enumerate(labels):
        x[at] += pattern if label == "along" else pattern[:, None]
    return x.astype(np.uint8), labels


def network(**settings: object) -> ImageFlyNet:
    return ImageFlyNet((3, 16, 16), 4, seed=0, filters=32, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def learner() -> Learner:
    made = Learner(network())
    for width in (1, 2, 4):
        made.learn(f"width {width}", *striped(width), batches=60, progress=False)
    return made


def test_tasks_are_learned_and_predicted(learner: Learner) -> None:
    for width in (1, 2, 4):
        assert learner.score(*striped(width, seed=1), task=f"width {width}") > 0.9
    scalings = {learner.context(task).info.scaling for task in learner.tasks}
    assert scalings == {(127.5, 64.0)}  # one for all: an image has one set of features


def test_rows_of_mixed_tasks_are_predicted_like_rows_of_one(learner: Learner) -> None:
    x, _ = striped(2, 9, seed=2)
    names = [f"width {1 + at % 2}" for at in range(9)]
    mixed = learner.predict_proba(x, task=names)
    for at, name in enumerate(names):
        assert np.allclose(mixed[at], learner.predict_proba(x[at : at + 1], task=name)[0], atol=1e-4)


def test_the_task_is_inferred(learner: Learner) -> None:
    ranked = learner.infer_task(striped(4, 16, seed=3)[0])
    assert ranked[0].task == "width 4"


def test_images_with_channels_last_and_float_images_give_the_same(learner: Learner) -> None:
    x, _ = striped(2, 8, seed=4)
    expected = learner.predict_proba(x, task="width 2")
    assert np.allclose(learner.predict_proba(x.transpose(0, 2, 3, 1), task="width 2"), expected, atol=1e-5)
    assert np.allclose(learner.predict_proba(x.astype(np.float32), task="width 2"), expected, atol=1e-5)


def test_tasks_together_and_alone_learn_the_same() -> None:
    data = {f"width {width}": striped(width) for width in (1, 2)}
    together = Learner(network()).learn_many(data, batches=5, progress=False)
    for context in together:
        alone = Learner(network()).learn(context.name, *data[context.name], batches=5, progress=False)
        assert np.allclose(context.tensors["decoder.v"], alone.tensors["decoder.v"], atol=1e-5)


def test_a_model_folder_holds_no_filters_when_they_come_from_the_seed(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path / "eye.crwn")
    assert {file.name for file in (tmp_path / "eye.crwn").iterdir()} == {"model.json", "bank.sqlite"}
    x, _ = striped(1, 8, seed=5)
    with Learner.load(tmp_path / "eye.crwn") as again:
        assert np.array_equal(again.predict_proba(x, task="width 1"), learner.predict_proba(x, task="width 1"))


def test_filters_from_images_are_stored_once_with_the_model(tmp_path: Path) -> None:
    model = network()
    model.learn_filters(striped(2, 40)[0])
    x, y = striped(2)
    with Learner(model, bank=tmp_path / "own.crwn") as made:
        made.learn("a", x, y, batches=5, progress=False)
        expected = made.predict_proba(x, task="a")
    assert (tmp_path / "own.crwn" / "weights.safetensors").exists()
    with Learner.load(tmp_path / "own.crwn") as again:
        assert np.allclose(again.predict_proba(x, task="a"), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (striped(1, 4, channels=1)[0], r"shape \(1, 16, 16\), this model takes \(3, 16, 16\)"),
        (np.zeros((4, 3, 8, 8), dtype=np.uint8), r"shape \(3, 8, 8\), this model takes \(3, 16, 16\)"),
        ([np.zeros((3, 16, 16)), np.zeros((3, 16, 17))], "rows of equal length: some are longer"),
        (np.full((4, 3, 16, 16), np.nan, dtype=np.float32), "row 0 has NaN or infinite values"),
    ],
)
def test_bad_images_are_refused_in_one_line(learner: Learner, x: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        learner.learn("bad", x, ["a", "b", "a", "b"][: len(x)], progress=False)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    with pytest.raises(DataError, match=message):
        learner.predict(x, task="width 1")
    assert "bad" not in learner.tasks


def test_constant_images_are_learned_and_predicted_without_a_wrong_number(learner: Learner) -> None:
    black = np.zeros((4, 3, 16, 16), dtype=np.uint8)
    learner.learn("black", black, ["a", "b", "a", "b"], batches=3, progress=False)
    assert np.isfinite(learner.predict_proba(black, task="black")).all()
    learner.forget("black")


def test_the_first_task_predicts_the_same_bits_after_19_more(tmp_path: Path) -> None:
    x, _ = striped(2, 20, seed=5)
    with Learner(network(), bank=tmp_path / "photos.crwn") as made:
        made.learn("first", *striped(2), batches=10, progress=False)
        before = made.logits(x, "first")[0].numpy().tobytes()
        for number in range(19):
            made.learn(f"more {number}", *striped(1 + number % 4, 20, seed=number), batches=2, progress=False)
        assert made.logits(x, "first")[0].numpy().tobytes() == before
    with Learner.load(tmp_path / "photos.crwn") as again:
        assert again.logits(x, "first")[0].numpy().tobytes() == before
