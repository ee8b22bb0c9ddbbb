"""Class labels that a context can keep."""

from __future__ import annotations

import json
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import given

from context_strategies import labels
from crwn.contexts.checks import check_label
from crwn.contexts.labels import decode_label, encode_label
from crwn.errors import ContextError
from small_contexts import make


@pytest.mark.parametrize(
    ("label", "kind"),
    [(b"x", "bytes"), (float("nan"), "float"), (frozenset({1}), "frozenset"), ((1, b"x"), "bytes"), (1j, "complex")],
)
def test_labels_that_json_cannot_keep_are_refused(label: Hashable, kind: str) -> None:
    with pytest.raises(ContextError, match=rf'of task "left" \({kind}\) cannot be kept: use text'):
        make(classes=(label,))


@given(labels)
def test_labels_survive_json(label: Hashable) -> None:
    kept = check_label(label, "t")
    found = decode_label(json.loads(json.dumps(encode_label(kept))))
    assert found == label
    assert type(found) is type(label)


def test_numpys_scalars_become_plain() -> None:
    found = check_label((np.int64(3), np.str_("x"), np.bool_(True), np.float32(0.5)), "t")
    assert found == (3, "x", True, 0.5)
    assert isinstance(found, tuple)
    assert [type(part) for part in found] == [int, str, bool, float]


def test_a_list_in_a_file_is_no_label() -> None:
    with pytest.raises(TypeError, match="a class label is a list"):
        decode_label([1, 2])
