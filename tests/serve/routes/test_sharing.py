"""New classes and rows without a task over HTTP, and what is refused."""

from __future__ import annotations

import httpx
import numpy as np

from crwn.learner import Learner
from serving import Array, refusal


def body(x: Array, y: Array) -> dict[str, object]:
    return {"rows": x.tolist(), "labels": y.tolist()}


def test_a_task_gains_classes(http: httpx.Client, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    few = y < 6
    learner.learn(
        "few", x[few][:300].astype("float32"), y[few][:300], method="exact", keep_statistics=True, progress=False
    )
    response = http.post("/v1/tasks/few/extend", json=body(x[y == 7][:50], y[y == 7][:50]))
    assert response.status_code == 200, response.text
    found = response.json()
    assert (found["rows"], found["new_classes"], found["classes"]) == (50, [7], [*range(6), 7])
    assert 0 < found["mean_change"] <= found["largest_change"]
    assert refusal(http.post("/v1/tasks/none/extend", json=body(x[:2], y[:2])))[0] == 404
    assert refusal(http.post("/v1/tasks/few/extend", json={"rows": x[:2].tolist(), "labels": [1]}))[0] == 422
    assert refusal(http.post("/v1/tasks/few/extend", json={"rows": [], "labels": []}))[0] == 422


def test_rows_without_a_task_are_classified(http: httpx.Client, learner: Learner, digits: tuple[Array, Array]) -> None:
    x, y = digits
    assert refusal(http.post("/v1/classify", json={"rows": x[:2].tolist()}))[0] == 404
    for name, chosen in (("low", y < 5), ("high", y >= 5)):
        mine = x[chosen][:300].astype("float32"), y[chosen][:300]
        learner.learn(name, *mine, method="exact", progress=False)
        response = http.post(f"/v1/tasks/{name}/share", json=body(*mine))
        assert response.status_code == 200, response.text
    assert response.json() == {"tasks": ["low", "high"], "classes": 10}
    answers = http.post("/v1/classify", json={"rows": x[600:700].tolist()}).json()["answers"]
    assert np.mean([one["label"] == label for one, label in zip(answers, y[600:700].tolist(), strict=True)]) > 0.8
    assert {one["task"] for one in answers} == {"low", "high"}
    assert refusal(http.post("/v1/tasks/low/share", json=body(x[y == 9][:2], y[y == 9][:2])))[0] == 422
    assert refusal(http.post("/v1/classify", json={"rows": [[1.0, 2.0]]}))[0] == 422
