import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from crwn.scenarios.augment import PAD, crop_and_flip


@given(
    count=st.integers(0, 6),
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    seed=st.integers(0, 999),
    in_colour=st.booleans(),
)
def test_every_image_becomes_a_crop_of_itself(count: int, size: tuple[int, int], seed: int, in_colour: bool) -> None:
    shape = (count, 3, *size) if in_colour else (count, *size)
    batch = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))
    before = batch.clone()
    made = crop_and_flip(batch, np.random.default_rng(seed))
    assert made.shape == batch.shape
    assert made.dtype == torch.uint8
    assert torch.equal(batch, before)
    generator = np.random.default_rng(seed)
    tops, lefts = generator.integers(0, 2 * PAD + 1, size=(2, count))
    mirrored = generator.random(count) < 0.5
    for at in range(count):
        padded = torch.nn.functional.pad(batch[at], (PAD,) * 4)
        crop = padded[..., tops[at] : tops[at] + size[0], lefts[at] : lefts[at] + size[1]]
        assert torch.equal(made[at], crop.flip(-1) if mirrored[at] else crop)


def test_all_places_and_both_sides_are_drawn() -> None:
    image = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    image[:, :, 15, 10] = 255
    made = crop_and_flip(image.expand(4000, 3, 32, 32), np.random.default_rng(0))
    places = made[:, 0].flatten(1).argmax(dim=1)
    rows, columns = places // 32, places % 32
    assert rows.unique().tolist() == list(range(11, 20))
    left, right = columns < 16, columns > 16
    assert columns[left].unique().tolist() == list(range(6, 15))
    assert 1800 < int(right.sum()) < 2200


def test_a_smaller_margin_moves_images_less() -> None:
    image = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    image[:, :, 8, 5] = 255
    made = crop_and_flip(image.expand(1000, 3, 16, 16), np.random.default_rng(0), pad=2)
    places = made[:, 0].flatten(1).argmax(dim=1)
    assert (places // 16).unique().tolist() == list(range(6, 11))
    assert (places % 16).unique().tolist() == [*range(3, 8), *range(8, 13)]
