"""The text backbone: the mean of its tokens' embeddings, cleaning, and a package that is missing or has changed."""

import importlib.util

import numpy as np
import pytest

from crwn.errors import MissingExtraError, ModelError
from crwn.models.backbones import text_backbone
from crwn.models.backbones.text import LONGEST, wordllama


def test_features_are_the_mean_of_the_tokens_embeddings() -> None:
    backbone = wordllama()
    text = "The invoice is overdue since Monday."
    ids = backbone.tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > 5
    assert np.allclose(backbone([text, "other words"])[0], backbone.embedding[ids].mean(axis=0), atol=1e-6)
    assert backbone.features == 256


def test_texts_are_cleaned_and_any_text_has_features() -> None:
    backbone = text_backbone("wordllama")
    spaced, plain, composed, decomposed = backbone(["  a\n\n cafe\t", "a cafe", "caf\u00e9", "cafe\u0301"])
    assert np.array_equal(spaced, plain)
    assert np.array_equal(composed, decomposed)
    found = backbone(["", "   ", "日本語のテキスト", "🎉", "x" * (LONGEST + 5000)])
    assert np.isfinite(found).all()
    assert not found[:2].any()
    assert backbone([]).shape == (0, 256)


def test_texts_that_mean_similar_things_are_closer() -> None:
    money, bill, cat = text_backbone("wordllama")(
        ["please pay the invoice", "your payment is due", "the kitten sleeps on the sofa"]
    )

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert cosine(money, bill) > cosine(money, cat) + 0.1


def test_changed_weights_and_unknown_names_are_one_line() -> None:
    with pytest.raises(ModelError, match=r"weights of backbone wordllama have changed: .* 000000000000"):
        text_backbone("wordllama", "0" * 64)
    with pytest.raises(ModelError, match='unknown text backbone "bert"'):
        text_backbone("bert")


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wordllama.cache_clear()
    with pytest.raises(MissingExtraError, match=r'wordllama needs .*pip install "crwn\[text\]"'):
        text_backbone("wordllama")
