"""Rows gathered by index, and the order in which they are visited."""

import numpy as np
import pytest
import torch

from crwn.data.dataset import Rows, StackedRows, visiting_order
from crwn.errors import DataError
from crwn.layers.weights import named_generator
from crwn.scenarios import make_scenario


def test_rows_share_the_data_and_are_prepared_when_gathered() -> None:
    x = torch.arange(12, dtype=torch.uint8).reshape(6, 2)
    rows = Rows(x, torch.tensor([0, 1, 0]), torch.tensor([5, 0, 2]), prepare=lambda batch: batch.float() / 2)
    assert len(rows) == 3
    assert rows.inputs(torch.tensor([1, 0])).tolist() == [[0.0, 0.5], [5.0, 5.5]]
    assert rows.inputs(slice(1, 3)).tolist() == [[0.0, 0.5], [2.0, 2.5]]
    assert rows.labels(slice(None)).tolist() == [0, 1, 0]
    assert rows.x.data_ptr() == x.data_ptr()
    assert [len(batch) for batch in rows.batches(2)] == [2, 1]


def test_selected_rows_keep_labels_and_weights_and_copy_nothing() -> None:
    x = torch.arange(5.0)[:, None]
    rows = (
        Rows(x, torch.arange(5), weight=torch.arange(5.0)).select(torch.tensor([4, 1, 3])).select(torch.tensor([2, 0]))
    )
    assert rows.inputs(slice(None)).flatten().tolist() == [3.0, 4.0]
    assert rows.labels(slice(None)).tolist() == [3, 4]
    assert rows.weight is not None
    assert rows.weight.tolist() == [3.0, 4.0]
    assert rows.x.data_ptr() == x.data_ptr()


def test_augmentation_needs_a_generator() -> None:
    rows = Rows(torch.zeros(4, 1), augment=lambda batch, random: batch + int(random.integers(1, 9)))
    assert float(rows.inputs(slice(None)).sum()) == 0
    assert float(rows.inputs(slice(None), generator=np.random.default_rng(0)).min()) >= 1


def test_lengths_that_disagree_are_refused() -> None:
    with pytest.raises(DataError, match="3 rows but 2 labels"):
        Rows(torch.zeros(3, 1), torch.zeros(2))
    with pytest.raises(DataError, match="3 rows but 4 sample weights"):
        Rows(torch.zeros(3, 1), weight=torch.zeros(4))


def test_rows_without_labels_say_so() -> None:
    with pytest.raises(DataError, match="no labels"):
        Rows(torch.zeros(3, 1)).labels(slice(None))


def test_every_epoch_visits_every_row_once_in_a_new_order() -> None:
    batches = list(visiting_order(10, 4, 6, seed=0, name="a"))
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    first, second = torch.cat(batches[:3]), torch.cat(batches[3:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert first.tolist() != second.tolist()
    assert len(list(visiting_order(10, 4, 5, seed=0, name="a"))) == 5


def test_order_depends_on_seed_and_name_alone() -> None:
    def order(seed: int, name: str) -> list[int]:
        return torch.cat(list(visiting_order(50, 50, 1, seed=seed, name=name))).tolist()

    assert order(0, "a") == order(0, "a")
    assert len({tuple(order(seed, name)) for seed in (0, 1) for name in ("a", "b")}) == 4
    assert named_generator("order", 0, "a", 0).integers(0, 1000, 4).tolist() == [770, 86, 302, 844]


class TestStackedRows:
    def test_images_that_tasks_share_are_prepared_together_to_the_same_bits(self) -> None:
        tasks = make_scenario("rotated-digits", seed=0, tasks=3)
        rows = [task.train for task in tasks]
        at = [torch.tensor([5, 0, 7, 7]), torch.tensor([1, 2, 3, 4]), torch.tensor([9, 8, 5, 6])]
        together = StackedRows(rows)
        assert together._prepare is not None
        assert torch.equal(
            together.inputs(at, [None] * 3), torch.stack([r.inputs(a) for r, a in zip(rows, at, strict=True)])
        )
        assert torch.equal(together.labels(at), torch.stack([r.labels(a) for r, a in zip(rows, at, strict=True)]))
        assert together.weights(at) is None

    def test_rows_of_each_task_and_weights(self) -> None:
        x, y = torch.arange(24.0).view(8, 3), torch.zeros(8, dtype=torch.long)
        rows = [Rows(x, y, weight=torch.arange(8.0)), Rows(x + 1, y)]
        at = [torch.tensor([1, 0]), torch.tensor([2, 2])]
        together = StackedRows(rows)
        assert torch.equal(together.inputs(at, [None, None]), torch.stack([x[[1, 0]], x[[2, 2]] + 1]))
        weights = together.weights(at)
        assert weights is not None
        assert weights.tolist() == [[1.0, 0.0], [1.0, 1.0]]
