"""The encoding of a table: learned from training rows, stored as JSON, applied to other rows by name."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np
import pytest

from crwn.data.tables import Table, TableEncoding, identifiers, learn_encoding, read_csv, table_of_objects
from crwn.data.tables.encoding import read_encoding
from crwn.errors import DataError

SHOP = b"""id;city;visit;age;member;note;label
a;Bern;2024-01-01;30;yes;red hat;buys
b;Basel;2024-07-01;;no;blue hat;leaves
c;;2024-01-08;50;yes;;buys
"""


def stored(encoding: TableEncoding) -> TableEncoding:
    """The encoding after a round trip through JSON."""
    found = read_encoding(json.loads(json.dumps(encoding.record())))
    assert found is not None
    return found


def shop() -> Table:
    return read_csv(SHOP).using(ignore=["id"])


def test_every_kind_of_column_becomes_numbers() -> None:
    encoding = stored(learn_encoding(shop()))
    assert encoding == learn_encoding(shop())
    found = dict(zip(encoding.inputs, encoding.apply(shop()).T.tolist(), strict=True))
    assert found["city=Basel"] == [0, 1, 0]
    assert found["city missing"] == [0, 0, 1]
    assert found["age"] == [30, 40, 50], "the median of the others"
    assert found["age missing"] == [0, 1, 0]
    assert found["member"] == [1, 0, 1]
    assert found["note=red hat"] == [1, 0, 0]
    assert found["visit[0]"] == pytest.approx([24, 24.5, 24], abs=0.05), "years since 2000"
    assert found["visit[3]"][0] == pytest.approx(found["visit[3]"][2], abs=1e-4), "both are Mondays"


def test_columns_are_found_by_name_and_unknown_text_is_no_category() -> None:
    encoding = learn_encoding(shop())
    same = {
        "note": "",
        "member": True,
        "age": None,
        "visit": date(2024, 1, 8),
        "city": "Bern",
        "label": "buys",
        "id": 7,
    }
    other = {**same, "city": "Paris"}
    first, second = encoding.apply(table_of_objects([same, other]))
    at = encoding.inputs.index("city=Bern")
    assert (first[at], second[at]) == (1, 0)
    assert np.array_equal(np.delete(first, at), np.delete(second, at))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, r"'old' is not a number in column 'age', row 0"),
        ({"visit": "soon"}, r"'soon' is not a date like 2024-12-31 in column 'visit', row 0"),
        ({"member": "maybe"}, r"'maybe' is not true or false in column 'member', row 0"),
        ({"member": None}, r"there is nothing in column 'member', row 0 .*, and no training row lacked it"),
        ({"size": 3}, r"has other columns than the task was learned from: it has 'size'; give city, visit"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_the_column(change: dict[str, Any], message: str) -> None:
    row = {"city": "Bern", "visit": "2024-01-01", "age": 3, "member": "no", "note": "", **change}
    with pytest.raises(DataError, match=message):
        learn_encoding(shop()).apply(table_of_objects([row]))


def test_many_values_are_hashed_by_words() -> None:
    rows = [{"note": f"word{at} common"} for at in range(40)]
    encoding = stored(learn_encoding(table_of_objects(rows)))
    assert encoding.width == 64
    first, second, same = encoding.apply(table_of_objects([rows[0], rows[1], {"note": "Common, word0!"}]))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, second)


def test_text_is_hashed_into_the_inputs_of_a_model_that_is_there() -> None:
    rows = [{"a": at, "few": "xy"[at % 2], "many": f"v{at % 20}", "label": 0} for at in range(40)]
    table = table_of_objects(rows)
    assert learn_encoding(table).width == 23
    narrow = learn_encoding(table, most=10)
    assert narrow.width == 10
    assert [column.kind for column in narrow.columns] == ["number", "one-hot", "hashed"]
    assert learn_encoding(table, most=30).apply(table, 30)[:, 23:].tolist() == [[0.0] * 7] * 40
    with pytest.raises(DataError, match="rows needs 23 inputs, this model has 4"):
        learn_encoding(table, most=4)


def test_numbers_can_be_read_as_text() -> None:
    table = table_of_objects([{"zip": 8001, "label": 0}, {"zip": 3000.0, "label": 1}]).using(text=["zip"])
    assert learn_encoding(table).inputs == ("zip=3000", "zip=8001")
    with pytest.raises(DataError, match="has no column 'zap': it has zip, label"):
        table.using(text=["zap"])


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["03.01.2024", "31.12.2024"], "%d.%m.%Y"),
        (["3/1/2024", "12/31/2024"], "%m/%d/%Y"),
        (["31/12/2024", "3/1/2024"], "%d/%m/%Y"),
        (["2024-01-03T10:00:00Z", "2024-12-31 11:30"], "iso"),
    ],
)
def test_forms_of_dates(cells: list[str], form: str) -> None:
    (column,) = learn_encoding(table_of_objects([{"day": cell} for cell in cells])).columns
    assert (column.kind, column.record().get("form", "iso")) == ("date", form)
    assert column.width == (7 if ":" in cells[0] else 5)


def test_identifiers_are_recognized() -> None:
    rows = [{"row": at, "key": f"k{at}", "size": at * at, "note": f"a {at}"} for at in range(40)]
    table = table_of_objects(rows)
    assert identifiers(table, learn_encoding(table)) == ["key"]
    counted = table_of_objects([{"size": 1.5 * at, "row": at} for at in range(40)])
    assert identifiers(counted, learn_encoding(counted)) == []


@pytest.mark.parametrize(
    "damaged",
    [None, [], {}, {"columns": []}, {"columns": [{"kind": "odd", "name": "a"}]}, {"columns": [{"kind": "hashed"}]}],
)
def test_what_is_no_encoding_is_not_read(damaged: object) -> None:
    assert read_encoding(damaged) is None
