"""Statistics: products in one triangle, rounded features, sums that do not depend on order."""

import numpy as np
import pytest
import torch

import crwn
from crwn.data.dataset import Rows
from crwn.errors import ContextError, CRWNError, DataError
from crwn.layers import context_tensors
from crwn.training.exact import Statistics, accumulate, output_layer
from crwn.training.exact.files import digest, from_bytes, to_bytes
from crwn.training.exact.memory import check_memory, memory_note
from crwn.training.exact.statistics import merge

WIDTH = 2100  # rounded features


def model(width: int = WIDTH) -> crwn.FlyNet:
    return crwn.FlyNet(12, width, 3, seed=0, inputs_per_node=3)


def rows(count: int = 300, *, seed: int = 0, size: float = 1.0, weight: bool = False) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    x = size * torch.randn(count, 12, generator=generator) * torch.rand(count, 1, generator=generator).exp()
    y = torch.randint(0, 3, (count,), generator=generator)
    return Rows(x, y, weight=torch.rand(count, generator=generator) if weight else None)


def statistics_of(given: Rows, width: int = WIDTH, into: Statistics | None = None) -> Statistics:
    network = model(width)
    layer = output_layer(network)
    empty = Statistics.empty(width, (0, 1, 2), model="m", precision="int8" if width > 2048 else "float64")
    return accumulate.accumulate(layer, context_tensors(network), given, into or empty)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_features(weighted: bool) -> None:
    given = rows(weight=weighted)
    found = statistics_of(given)
    h = model().encode(given.inputs(slice(None))).double().numpy()
    weight = np.ones(300) if given.weight is None else given.weight.double().numpy()
    expected = (h * weight[:, None]).T @ h
    # 8 bits per row: the error of a sum of 300 products is far below the sum.
    assert np.abs(np.tril(found.gram - expected)).max() < 0.01 * expected.max()
    sums = (h * weight[:, None]).T @ np.eye(3)[given.labels(slice(None)).numpy()]
    assert np.abs(found.products - sums).max() < 0.01 * np.abs(sums).max()
    narrow = statistics_of(given, 100)
    h = model(100).encode(given.inputs(slice(None))).double().numpy()
    np.testing.assert_allclose(np.tril(narrow.gram), np.tril((h * weight[:, None]).T @ h), rtol=1e-10, atol=1e-10)


def test_any_order_and_split_gives_the_same_bits() -> None:
    given = rows(900)
    whole = to_bytes(statistics_of(given))
    for seed in range(10):
        order = torch.from_numpy(np.random.default_rng(seed).permutation(900))
        cuts = sorted(np.random.default_rng(seed).integers(1, 900, size=3).tolist())
        parts = [statistics_of(given.select(some)) for some in order.tensor_split(cuts) if len(some)]
        assert digest(to_bytes(merge(*parts))) == digest(whole)


def test_adding_and_subtracting_gives_the_same_bits() -> None:
    first, second = statistics_of(rows(200)), statistics_of(rows(150, seed=1, size=7.0))
    assert to_bytes(first.add(second).subtract(second)) == to_bytes(first)


def test_both_kinds_of_integer_products_agree() -> None:
    q = torch.randint(-127, 128, (2500, 70), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    turned = q.T.contiguous()
    narrow = accumulate._float_products(turned, q).numpy()
    wide = accumulate._int8_products(turned, q).numpy() if accumulate._has_int8() else narrow
    exact = q.double().numpy().T @ q.double().numpy()
    assert (wide == exact).all()
    assert (narrow == exact).all()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_products_of_few_rows_are_exact(count: int) -> None:
    q = torch.randint(-127, 128, (2100, count), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    gram = np.zeros((2100, 2100))
    accumulate.add_products(gram, q, 0.5)
    exact = 0.5 * q.double().numpy() @ q.double().numpy().T
    assert (np.tril(gram) == np.tril(exact)).all()


def test_rounding_keeps_zero_rows_and_large_ones() -> None:
    h = torch.tensor([[0.0, 0.0], [1e-20, 3e-21], [5e6, 1.0], [127.0, 64.0]])
    q, step = accumulate.round_rows(h)
    assert q.dtype == torch.int8
    assert bool(torch.isfinite(step).all())
    assert q[0].tolist() == [0, 0]
    back = q * step[:, None]
    assert bool(((back - h).abs() <= h.abs().amax(dim=1, keepdim=True) / 127).all())
    assert back[3].tolist() == [127.0, 64.0]


def test_removing_too_much_or_what_was_never_there() -> None:
    first = statistics_of(rows(50))
    with pytest.raises(DataError, match=r"rows of class .* to remove, but only .* were learned: nothing was removed"):
        first.subtract(statistics_of(rows(200)))
    with pytest.raises(DataError, match="never learned by this task"):
        first.subtract(statistics_of(rows(20, seed=5, size=1000.0)))


def test_statistics_of_another_model_classes_or_scaling_do_not_mix() -> None:
    first = Statistics.empty(4, ("a", "b"), model="x" * 64)
    for other, what in (
        (Statistics.empty(4, ("a", "b"), model="y" * 64), "another model"),
        (Statistics.empty(4, ("a", "c"), model="x" * 64), "another classes"),
        (Statistics.empty(4, ("a", "b"), model="x" * 64, scaling=(1.0, 2.0)), "another scaling"),
    ):
        with pytest.raises(ContextError, match=f"{what}.*compute them with the same model"):
            first.add(other)


def test_what_is_no_statistics_is_not_merged() -> None:
    whole = statistics_of(rows(20), 100)
    for several in ((3,), (3, whole), (whole, 3)):
        with pytest.raises(ContextError, match="statistics are what"):
            merge(*several)


def test_files_are_read_back_and_damage_is_named() -> None:
    found = statistics_of(rows(40), 30)
    data = to_bytes(found)
    again = from_bytes(data)
    assert to_bytes(again) == data
    assert again.classes == (0, 1, 2)
    assert abs(len(data) - found.nbytes) < 1000
    for damaged in (data[:50], data[:-9], b"", b"\0" * 100, data.replace(b"products", b"producta", 1)):
        with pytest.raises(ContextError, match="damaged or not statistics"):
            from_bytes(damaged)


def test_features_that_are_not_finite_are_named() -> None:
    given = rows(10)
    given.x[3, ::2], given.x[3, 1::2] = 3e38, -3e38  # sums overflow
    with pytest.raises(DataError, match="features of rows 0 to 9 are not finite"):
        statistics_of(given, 100)


def test_memory_is_known_before() -> None:
    assert "8.2 GB" not in memory_note(100)
    assert memory_note(100) == ""
    assert "32,000 features: about 13.1 GB of memory, 4.10 GB on disk" in memory_note(32_000)
    with pytest.raises(CRWNError, match=r"needs about 13\.1 GB of memory, 1\.0 GB are free"):
        check_memory(32_000, 10**9)
