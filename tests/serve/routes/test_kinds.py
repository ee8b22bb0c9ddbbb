"""Multilabel and regression tasks over HTTP: learned from JSON and CSV, predicted, and what they cannot do."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

import crwn
from crwn.serve.client import RemoteError
from serving import Array

Digits = tuple[Array, Array]


def test_multilabel_from_json(client: crwn.Client, digits: Digits) -> None:
    x, y = digits
    labels = [[name for name, has in (("odd", digit % 2), ("large", digit > 4)) if has] for digit in y[:300].tolist()]
    client.learn("traits", x[:300], labels, kind="multilabel", batches=150).wait()
    facts = client.task("traits")
    assert facts["classes"] == ["large", "odd"]
    assert facts["info"]["kind"] == "multilabel"
    found = client.predict(x[:300], task="traits", probabilities=True)
    right = [set(one) == set(truth) for one, truth in zip(found.labels, labels, strict=True)]
    assert np.mean(right) > 0.7
    assert found.probabilities is not None
    assert all(0 <= share <= 1 for row in found.probabilities for share in row)
    assert any(abs(sum(row) - 1) > 0.1 for row in found.probabilities)


def test_multilabel_from_csv(client: crwn.Client, http: httpx.Client, digits: Digits) -> None:
    x, y = digits
    lines = [",".join(f"p{at}" for at in range(64)) + ",label"]
    for row, digit in zip(x[:60].reshape(60, -1), y[:60].tolist(), strict=True):
        lines.append(
            ",".join(map(str, row)) + ("," + ("odd|small" if digit in (1, 3) else "odd" if digit % 2 else "even"))
        )
    sent = http.post(
        "/v1/tasks/csv/learn?kind=multilabel&batches=2",
        content="\n".join(lines).encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert sent.status_code == 202, sent.text
    crwn.serve.client.Learning(client, sent.json()).wait()
    assert client.task("csv")["classes"] == ["even", "odd", "small"]


def test_regression(client: crwn.Client, digits: Digits) -> None:
    x, _ = digits
    ink = 100.0 * x[:300].reshape(300, -1)[:, 20:44].mean(axis=1)
    client.learn("ink", x[:300], ink, kind="regression", batches=200).wait()
    found = client.predict(x[:300], task="ink")
    assert all(isinstance(one, float) for one in found.labels)
    assert np.corrcoef(found.labels, ink)[0, 1] > 0.8
    with pytest.raises(RemoteError, match="is a regression: it predicts numbers and has no probabilities"):
        client.predict(x[:2], task="ink", probabilities=True)


@pytest.mark.parametrize(
    ("y", "kind", "message"),
    [
        (["a", "b"], "regression", "must be numbers"),
        (["a", "b"], "multilabel", "list of labels"),
        ([1, 1], None, "label 1"),
    ],
)
def test_targets_that_do_not_fit(client: crwn.Client, digits: Digits, y: list[object], kind: str, message: str) -> None:
    with pytest.raises(RemoteError, match=message):
        client.learn("wrong", digits[0][:2], y, kind=kind)  # type: ignore[arg-type]
