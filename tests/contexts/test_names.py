"""Names of tasks: allowed, free, sorted by their characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crwn.contexts import check_free, check_name
from crwn.contexts.names import end_of_prefix, is_comparable, unknown_task
from crwn.errors import TaskError, TaskExistsError


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0", "\ud800", "\u202eabc", "a\x7f", 3, None])
def test_names_that_are_not_allowed(name: str) -> None:
    with pytest.raises(TaskError):
        check_name(name)


@pytest.mark.parametrize("name", ["x" * 200, "日本 1", "../..", "می\u200cخواهم", "👩\u200d🔬", "%_'\"\\;"])
def test_names_that_are_allowed(name: str) -> None:
    assert check_name(name) == name


def test_a_name_that_exists_is_refused() -> None:
    check_free(["left", "up"], {"right"})
    check_free([], {"right"})
    with pytest.raises(TaskExistsError, match='"right" is in the bank already: replace it, or choose another name'):
        check_free(["left", "right"], {"right"})
    with pytest.raises(TaskExistsError, match=r'^task "right" is in m\.crwn already: --replace it$'):
        check_free(["right"], {"right"}, where="m.crwn", hint="--replace it")


def test_similar_names_are_suggested() -> None:
    found = str(unknown_task("lift", ["left", "right"], 2))
    assert found == 'task "lift" is not in the bank (2 tasks): did you mean "left"?'
    assert str(unknown_task("x", ["left"], 1)).endswith("list the tasks to see")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(texts, texts)
def test_the_end_of_a_prefix_is_the_least_text_after_it(prefix: str, other: str) -> None:
    end = end_of_prefix(prefix)
    assert prefix + other < (end or "\U0010ffff" * 10)
    if end is not None:
        assert is_comparable(end) or not is_comparable(prefix)
        assert (prefix <= other < end) == other.startswith(prefix)


def test_end_of_prefix_skips_what_is_no_character() -> None:
    assert end_of_prefix("") is None
    assert end_of_prefix("\U0010ffff") is None
    assert end_of_prefix("a\U0010ffff") == "b"
    assert end_of_prefix("\ud7ff") == "\ue000"


def test_text_that_no_database_compares() -> None:
    assert is_comparable("日本 👩\u200d🔬")
    assert not is_comparable("a\0")
    assert not is_comparable("a\ud800")
