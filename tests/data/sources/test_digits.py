from pathlib import Path

from crwn.data import load
from crwn.data.sources.digits import MEAN, STD


def test_digits_need_nothing_but_scikit_learn(cache: Path) -> None:
    digits = load("digits")
    assert digits.shape == (8, 8)
    assert digits.classes == tuple(range(10))
    assert len(digits.x_train) + len(digits.x_test) == 1797
    assert int(digits.x_train.max()) == 255
    assert digits.y_test.bincount().min() >= 33
    values = digits.x_train.double() / 255
    assert abs(float(values.mean()) - MEAN[0]) < 0.002
    assert abs(float(values.std()) - STD[0]) < 0.002
