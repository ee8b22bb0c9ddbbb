"""The estimators are what scikit-learn asks of classifiers and regressors, and work inside its tools."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from crwn.integrations.sklearn import FlyNetClassifier, FlyNetRegressor, NeuroModNetClassifier, NeuroModNetRegressor
from digit_rows import Array, Data

# Small and short: what is checked are conventions.
SMALL = [NeuroModNetClassifier(hidden=(96,), batches=100), FlyNetClassifier(batches=100)]
REGRESSORS = [NeuroModNetRegressor(hidden=(96,), batches=200), FlyNetRegressor(batches=200)]


def _checks() -> list[Any]:
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}-{i}")
        for small in [*SMALL, *REGRESSORS]
        for i, (estimator, check) in enumerate(estimator_checks_generator(small))
    ]


@pytest.mark.parametrize(("estimator", "check"), _checks())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_every_check_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(copy.deepcopy(estimator))  # one skips itself where SCIPY_ARRAY_API is not set


@pytest.mark.parametrize("small", REGRESSORS, ids=lambda small: type(small).__name__)
def test_regressors_predict_numbers_in_their_units(small: Any) -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    y = 5000 + 300 * x[:, 0] - 200 * np.abs(x[:, 1])
    fitted = clone(small).set_params(random_state=0).fit(x[:300], y[:300])
    assert fitted.score(x[300:], y[300:]) > 0.8
    np.testing.assert_allclose(pickle.loads(pickle.dumps(fitted)).predict(x[:5]), fitted.predict(x[:5]))


def split(digits: Data) -> tuple[Array, Array, Array, Array]:
    """Rows and labels to learn from, and others to test on."""
    x, y = digits
    return x[:800], y[:800], x[800:1200], y[800:1200]


@pytest.mark.parametrize("small", SMALL, ids=lambda small: type(small).__name__)
def test_learns_digits(small: Any, digits: Data) -> None:
    x, y, x_test, y_test = split(digits)
    names = np.array([f"digit {value}" for value in range(10)])
    fitted = clone(small).set_params(random_state=0).fit(x, names[y])
    assert fitted.score(x_test, names[y_test]) > 0.75
    assert fitted.classes_.tolist() == sorted(names)
    assert fitted.predict_proba(x_test).shape == (400, 10)
    again = clone(small).set_params(random_state=0).fit(x, names[y])
    np.testing.assert_array_equal(fitted.predict_proba(x_test), again.predict_proba(x_test))
    other = clone(small).set_params(random_state=1).fit(x, names[y])
    assert not np.array_equal(fitted.predict_proba(x_test), other.predict_proba(x_test))


def test_pipeline_grid_search_and_pandas(digits: Data) -> None:
    x, y, x_test, y_test = split(digits)
    frame = pd.DataFrame(x, columns=[f"pixel_{i}" for i in range(64)])
    pipeline = make_pipeline(StandardScaler(), NeuroModNetClassifier(hidden=(64,), random_state=0))
    search = GridSearchCV(pipeline, {"neuromodnetclassifier__batches": [2, 80]}, cv=2)
    search.fit(frame, pd.Series(y))
    assert search.best_params_ == {"neuromodnetclassifier__batches": 80}
    assert search.score(pd.DataFrame(x_test, columns=frame.columns), y_test) > 0.7
    alone = NeuroModNetClassifier(hidden=(64,), batches=5).fit(frame, y)
    assert alone.n_features_in_ == 64
    assert alone.feature_names_in_.tolist() == list(frame.columns)


def test_pickle_leaves_frozen_weights_out(digits: Data) -> None:
    x, y, x_test, _ = split(digits)
    fitted = NeuroModNetClassifier(hidden=(512, 512), batches=5, random_state=0).fit(x, y)
    data = pickle.dumps(fitted)
    assert len(data) < 20_000  # R alone would be over a megabyte
    np.testing.assert_array_equal(pickle.loads(data).predict_proba(x_test), fitted.predict_proba(x_test))


def test_order_of_rows_makes_no_difference(digits: Data) -> None:
    x, y, x_test, _ = split(digits)
    order = np.random.default_rng(0).permutation(len(x))
    one = FlyNetClassifier(batches=10, random_state=0).fit(x, y)
    other = FlyNetClassifier(batches=10, random_state=0).fit(x[order], y[order])
    np.testing.assert_array_equal(one.predict_proba(x_test), other.predict_proba(x_test))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "laplace"}, 'unknown kind of frozen weights "laplace"'),
        ({"activation": "step"}, 'unknown activation "step"'),
        ({"batches": 0}, "batches"),
        ({"rate": -1.0}, "rate"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_wrong_settings_are_value_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeuroModNetClassifier(**settings).fit([[0.0], [1.0]], [0, 1])


def test_only_the_estimators_import_scikit_learn() -> None:
    code = "import sys, crwn, crwn.integrations; crwn.Learner; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_partial_fit_in_any_split_equals_all_rows_at_once(digits: Data) -> None:
    x, y = digits[0] / 8 - 1, digits[1]
    whole = FlyNetClassifier(hidden=200, random_state=0).partial_fit(x[:900], y[:900])
    parts = FlyNetClassifier(hidden=200, random_state=0)
    for at in (slice(600, 900), slice(0, 50), slice(50, 600)):
        parts.partial_fit(x[at], y[at], classes=np.arange(10))
    np.testing.assert_allclose(parts.predict_proba(x[900:]), whole.predict_proba(x[900:]), atol=1e-4)
    assert whole.score(x[900:], y[900:]) > 0.6
    with pytest.raises(ValueError, match="label 11 is not among the classes"):
        parts.partial_fit(x[:1], [11])
