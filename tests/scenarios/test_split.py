import dataclasses

import numpy as np
import pytest
import torch

from crwn.data import ImageSet, load
from crwn.errors import ConfigError, DataError
from crwn.scenarios import split
from crwn.scenarios.augment import crop_and_flip


def colour_set(classes: int = 12, rows: int = 6) -> ImageSet:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.integers(0, 256, (classes * rows, 3, 8, 8), dtype=np.uint8))
    y = torch.arange(classes).repeat(rows)
    names = tuple(f"class {at}" for at in range(classes))
    return ImageSet("photos", names, (3, 8, 8), x, y, x[: 2 * classes], y[: 2 * classes], (0.5,) * 3, (0.2,) * 3)


def test_classes_are_dealt_out_once_by_the_seed() -> None:
    data = colour_set()
    scenario = split(data, 5)
    assert len(scenario) == 2
    assert scenario[1].name == "split-01"
    dealt = [label for task in scenario for label in task.classes]
    assert len(set(dealt)) == 10
    assert scenario[0].factors["classes"] == ", ".join(map(str, scenario[0].classes))
    assert [task.classes for task in split(data, 5)] == [task.classes for task in scenario]
    assert [task.classes for task in split(data, 5, seed=1)] != [task.classes for task in scenario]
    assert split(data, 5, tasks=1)[0].classes == scenario[0].classes
    assert scenario.budget == {"epochs": 250}


def test_rows_and_labels_belong_to_the_tasks_classes() -> None:
    data = colour_set()
    for task in split(data, 3):
        for rows, x, y in ((task.train, data.x_train, data.y_train), (task.test, data.x_test, data.y_test)):
            assert rows.index is not None
            assert rows.y is not None
            assert [data.classes[at] for at in y[rows.index]] == [task.classes[at] for at in rows.y]
            assert torch.equal(rows.raw(slice(0, 3)), x[rows.index[:3]])
            assert sorted(rows.y.unique().tolist()) == [0, 1, 2]
        assert len(task.train) == 18


def test_colour_images_stay_images_and_are_augmented_only_while_learning() -> None:
    task = split(colour_set())[0]
    at = torch.arange(10)
    plain = task.train.inputs(at)
    assert plain.shape == (10, 3, 8, 8)
    raw = task.train.raw(at)
    assert torch.allclose(plain, (raw / 255 - 0.5) / 0.2, atol=1e-6)
    changed = task.train.inputs(at, generator=np.random.default_rng(4))
    assert torch.equal(changed, task.train.prepare(crop_and_flip(raw, np.random.default_rng(4))))
    assert not torch.equal(changed, plain)
    assert torch.equal(task.test.inputs(at, generator=np.random.default_rng(4)), task.test.inputs(at))


def test_grey_images_become_flat_rows() -> None:
    scenario = split(load("digits"), 2)
    assert scenario.input_shape == (64,)
    assert scenario[0].train.augment is None
    assert split(load("digits"), 2, augment=True)[0].train.inputs(
        slice(0, 3), generator=np.random.default_rng(0)
    ).shape == (3, 64)


def test_too_few_classes_say_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"needs 5 classes per task, but 'photos' has only 3"):
        split(colour_set(3))
    with pytest.raises(ConfigError, match=r"cannot have 3 tasks of 5 classes: 'photos' has 12 classes, enough for 2"):
        split(colour_set(), tasks=3)
    with pytest.raises(ConfigError, match=r"cannot have 1 classes per task"):
        split(colour_set(), 1)


def test_a_class_without_test_rows_is_refused_before_anything_is_learned() -> None:
    data = colour_set()
    some = data.y_test != 3
    data = dataclasses.replace(data, x_test=data.x_test[some], y_test=data.y_test[some])
    with pytest.raises(DataError, match="cannot use class 'class 3' of 'photos': it has no test rows"):
        split(data, 4)
