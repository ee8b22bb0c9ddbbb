"""Rows as objects by column name over HTTP, and tasks learned from CSV with text, dates and gaps."""

from __future__ import annotations

import httpx
import pytest

import crwn
from crwn.serve.client import Learning
from serving import refusal

CITIES = ["Bern", "Basel", "Genf"]


def rows(count: int) -> list[dict[str, object]]:
    """Visits: those in Bern buy."""
    return [
        {"city": CITIES[at % 3], "age": None if at % 7 == 0 else 20 + at % 40, "day": f"2024-{1 + at % 12:02}-03"}
        for at in range(count)
    ]


def label(row: dict[str, object]) -> str:
    return "buys" if row["city"] == "Bern" else "leaves"


@pytest.fixture
def shop(client: crwn.Client, http: httpx.Client) -> httpx.Client:
    """A service with a task learned from a CSV whose label column has another name."""
    lines = ["key;city;age;day;outcome"]
    for at, row in enumerate(rows(120)):
        lines.append(f"k{at};{row['city']};{row['age'] or ''};{row['day']};{label(row)}")
    response = http.post(
        "/v1/tasks/shop/learn?batches=60&label=outcome&ignore=key",
        content="\n".join(lines).encode("utf-16"),
        headers={"Content-Type": "text/csv"},
    )
    assert response.status_code == 202, response.text
    facts = Learning(client, response.json()).wait()
    assert facts["classes"] == ["buys", "leaves"]
    return http


def test_objects_are_encoded_as_their_task_was(shop: httpx.Client) -> None:
    some = rows(30)
    expected = [label(row) for row in some]
    found = shop.post("/v1/predict", json={"rows": some, "task": "shop"}).json()
    assert found["labels"] == expected
    turned = [dict(reversed(row.items())) | {"key": at, "outcome": "?"} for at, row in enumerate(some)]
    assert shop.post("/v1/predict", json={"rows": turned, "task": "shop"}).json()["labels"] == expected
    inferred = shop.post("/v1/predict", json={"rows": some}).json()
    assert (inferred["labels"], inferred["task"], inferred["inferred"]) == (expected, "shop", True)
    ranking = shop.post("/v1/infer-task", json={"rows": some}).json()["ranking"]
    assert [one["task"] for one in ranking] == ["shop"], "the other tasks have no columns of these names"


def test_a_task_is_learned_from_objects(client: crwn.Client, http: httpx.Client) -> None:
    some = rows(60)
    body = {"x": some, "y": [label(row) for row in some], "batches": 60}
    Learning(client, http.post("/v1/tasks/visits/learn", json=body).json()).wait()
    found = http.post("/v1/predict", json={"rows": some[:6], "task": "visits"}).json()["labels"]
    assert found == body["y"][:6]  # type: ignore[index]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"city": "Bern", "age": "old", "day": "2024-01-03"}, "'old' is not a number in column 'age'"),
        ({"city": "Bern", "age": 3}, "it lacks 'day'; give city, age, day"),
        ({"city": ["Bern"], "age": 3, "day": "2024-01-03"}, "'city' of row 0 is a list or an object"),
        ([1, 2], "row 1 is no object although row 0 is one"),
    ],
)
def test_objects_that_do_not_fit_are_refused(shop: httpx.Client, row: object, message: str) -> None:
    given = [row] if isinstance(row, dict) else [rows(1)[0], row]
    response = shop.post("/v1/predict", json={"rows": given, "task": "shop"})
    assert refusal(response) == (422, "invalid_data")
    assert message in response.text
