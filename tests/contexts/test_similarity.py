"""How alike contexts are."""

import pytest
import torch

from crwn.contexts.similarity import centred_cosine, flatten, nearest


def test_flatten_leaves_statistics_out_and_can_take_one_layer() -> None:
    context = {"b.v": torch.ones(2), "a.alpha": torch.tensor(3.0), "n.running_mean": torch.ones(5)}
    assert flatten([context, context]).tolist() == [[3.0, 1.0, 1.0]] * 2
    assert flatten([context], only="b").tolist() == [[1.0, 1.0]]


def test_cosine_takes_off_what_all_share() -> None:
    vectors = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]) + 100
    alike = centred_cosine(vectors)
    assert torch.allclose(
        alike, torch.tensor([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]]), atol=1e-3
    )
    assert not torch.isnan(centred_cosine(torch.ones(3, 2))).any()


def test_nearest_is_the_row_of_the_matrix_without_itself() -> None:
    vectors = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    row = centred_cosine(vectors)[4]
    found = nearest(vectors, 4, 5)
    expected = [i for i in row.argsort(descending=True).tolist() if i != 4][:5]
    assert [i for i, _ in found] == expected
    assert [value for _, value in found] == pytest.approx([float(row[i]) for i in expected], abs=1e-5)
    assert len(nearest(vectors, 4, 100)) == 19
    assert nearest(vectors[:1], 0, 5) == []


def test_nearest_of_many_needs_no_matrix_of_all_pairs() -> None:
    # A matrix of all pairs would take 160 GB.
    assert len(nearest(torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0)), 7, 3)) == 3
