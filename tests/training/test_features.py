"""Features of rows and tasks: copies, labels and weights go along, the cache knows encoder and data."""

from pathlib import Path

import pytest
import torch

from crwn import ImageFlyNet, NeuroModNet
from crwn.data import feature_cache
from crwn.data.dataset import Rows
from crwn.training.features import encoded, encoded_stack, encoded_task
from crwn.training.precision import computing_in
from crwn.training.task import PreparedTask


@pytest.fixture(autouse=True)
def _cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "SMALL", 0)


def network(**settings: object) -> ImageFlyNet:
    return ImageFlyNet((3, 12, 12), 3, seed=0, filters=16, **settings)  # type: ignore[arg-type]


def rows(count: int = 5, **settings: object) -> Rows:
    x = torch.randint(0, 256, (count, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    return Rows(x, torch.arange(count) % 3, prepare=lambda batch: batch.float() / 64 - 2, **settings)  # type: ignore[arg-type]


def test_a_task_has_mirrored_copies_with_labels_and_weights() -> None:
    model, given = network(), rows(weight=torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    head, task = encoded_task(model, PreparedTask("a", given, range(3), rows(2)))
    x = given.inputs(slice(None))
    expected = torch.cat([model.encode(x), model.encode(x.flip(-1))])
    assert torch.allclose(task.rows.inputs(slice(None)), expected, atol=2e-2, rtol=2e-3)  # float16
    assert task.rows.labels(slice(None)).tolist() == [0, 1, 2, 0, 1] * 2
    assert task.rows.weight is not None
    assert task.rows.weight.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0] * 2
    assert task.validation is not None
    assert len(task.validation) == 2
    assert head(task.rows.inputs(slice(0, 2))).shape == (2, 3)


def test_predictions_use_float32_features_of_the_rows_themselves(cache: Path) -> None:
    model, given = network(mirror_predictions=True), rows()
    head, features = encoded(model, given)
    x = given.inputs(slice(None))
    assert torch.allclose(features.inputs(slice(None)), model.encode(x), atol=1e-5)
    assert torch.allclose(head(features.inputs(slice(None))), model(x), atol=1e-3)
    assert len(list((cache / "features").glob("*.npy"))) == 1


def test_features_in_bfloat16_are_close_and_have_an_entry_of_their_own(cache: Path) -> None:
    model, given = network(), rows()
    exact = encoded(model, given)[1].inputs(slice(None))
    with computing_in("bf16"):
        close = encoded(model, given)[1].inputs(slice(None))
    assert len(list((cache / "features").glob("*.npy"))) == 2
    assert not torch.equal(exact, close)
    assert float((exact - close).abs().mean()) < 0.05 * float(exact.std())


def test_changed_images_and_another_encoder_have_entries_of_their_own(cache: Path) -> None:
    given = rows()
    changed = Rows(given.x.clone(), given.y, prepare=given.prepare)
    changed.x[3, 0, 0, 0] += 1
    for model, some in (
        (network(), given),
        (network(), changed),
        (network(mirror_predictions=True), given),
        (network(threshold=0.75), given),
        (ImageFlyNet((3, 12, 12), 3, seed=1, filters=16), given),
    ):
        encoded(model, some)
    assert len(list((cache / "features").glob("*.npy"))) == 5
    encoded(ImageFlyNet((3, 12, 12), 7, seed=0, filters=16), given)  # another decoder, the same features
    assert len(list((cache / "features").glob("*.npy"))) == 5


def test_progress_counts_all_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crwn.training.features.BLOCK", 4)
    seen: list[tuple[str, int, int | None]] = []
    encoded_task(network(), PreparedTask("a", rows(), range(3)), progress=lambda *facts: seen.append(facts))
    assert seen == [("features of images", done, 10) for done in (4, 5, 9, 10)]


def test_stacks_share_features_of_equal_scalings() -> None:
    model = network()
    x = torch.randn(1, 2, 3, 12, 12, generator=torch.Generator().manual_seed(0)).repeat(3, 1, 1, 1, 1)
    x[1] *= 2
    _, features = encoded_stack(model, x, torch.tensor([[0.0, 1.0], [0.0, 0.5], [0.0, 1.0]]))
    for k in range(3):
        assert torch.allclose(features[k], model.encode(x[k]), atol=1e-5)
    _, shared = encoded_stack(model, x[:1].expand(3, -1, -1, -1, -1), torch.zeros(3, 2))
    assert torch.allclose(shared[2], model.encode(x[0]), atol=1e-5)


def test_other_models_and_empty_rows_stay_as_they_are() -> None:
    plain, given = NeuroModNet(4, (8,), 2, seed=0), Rows(torch.zeros(2, 4))
    assert encoded(plain, given) == (plain, given)
    model, nothing = network(), Rows(torch.zeros(0, 3, 12, 12))
    assert encoded(model, nothing) == (model, nothing)
