"""Hypothesis strategies for contexts."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from crwn.contexts import Context
from small_contexts import MODEL

names = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp", "Zs"]), min_size=1, max_size=40
)
integers = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
plain_labels = st.none() | st.booleans() | integers | text | st.floats(allow_nan=False, allow_infinity=False)
labels = st.recursive(plain_labels, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
numbers = arrays.arrays(np.float32, st.sampled_from([(), (1,), (7,), (2, 3)]), elements=st.floats(-1e4, 1e4, width=32))
contexts = st.builds(
    Context,
    names,
    st.dictionaries(st.text(min_size=1, max_size=20).filter(lambda k: k != "__metadata__" and k.isprintable()),
                    numbers.map(torch.from_numpy), min_size=1, max_size=4),
    st.lists(labels, unique=True, max_size=5).map(tuple),
    st.just(MODEL),
    info=st.dictionaries(st.text(max_size=5), st.none() | integers | st.text(max_size=5), max_size=3),
)  # fmt: skip
