"""WordLlama: 256 features of a text, the mean of its tokens' embeddings, with the weights of an installed package."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from crwn.errors import ConfigError, MissingExtraError, ModelError

NAME = "wordllama"
LONGEST = 20_000  # characters of a text that are read
AT_ONCE = 256  # texts


class TextFeatures(Protocol):
    """What makes features of texts, frozen: `name`, the number of `features`, and the checksum of its `weights`."""

    name: str
    features: int
    weights: str

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Features `[texts, features]`."""


class TextBackbone:
    """Features of texts by one embedding for every token.

    Args:
        name: what it is called in model folders and messages.
        embedding: of every token, `[tokens, features]`.
        tokenizer: with the method `encode_batch` of the package tokenizers.

    A text is brought into Unicode's composed form, its runs of spaces and line breaks become one space, and of very
    long ones the first 20,000 characters are read.
    """

    def __init__(self, name: str, embedding: npt.NDArray[np.float32], tokenizer: Any) -> None:
        self.name, self.embedding, self.tokenizer = name, embedding, tokenizer
        self.features = int(embedding.shape[1])
        words = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
        self.weights = hashlib.sha256(words.encode() + np.ascontiguousarray(embedding).tobytes()).hexdigest()

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Features `[texts, features]`; those of a text without any token are 0."""
        out = np.zeros((len(texts), self.features), dtype=np.float32)
        for start in range(0, len(texts), AT_ONCE):
            some = [cleaned(text) for text in texts[start : start + AT_ONCE]]
            for at, found in enumerate(self.tokenizer.encode_batch(some, add_special_tokens=False), start):
                if found.ids:
                    out[at] = self.embedding[found.ids].mean(axis=0)
        return out


def cleaned(text: str) -> str:
    """The text as the tokenizer takes it.

    >>> cleaned("  Dear\\n\\n friend,\\tcall  ")
    'Dear friend, call'
    """
    return " ".join(unicodedata.normalize("NFC", text[:LONGEST]).split())


@functools.cache
def wordllama() -> TextBackbone:
    """The text backbone whose weights and tokenizer are files inside the package wordllama.

    The files are read without importing the package, which would look for its tokenizer on the network and set up the
    logging of the whole process.

    Raises:
        MissingExtraError: the package of the extra `text` is not installed.
        ModelError: its files are missing or damaged.
    """
    found = importlib.util.find_spec("wordllama")
    places = None if found is None else found.submodule_search_locations
    try:
        from tokenizers import Tokenizer
    except ImportError:
        places = None
    if not places:
        raise MissingExtraError(f"the backbone {NAME}", "text")
    folder = Path(places[0])
    try:
        weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    except Exception as error:  # the two readers raise errors of several kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"the files of {NAME} in {folder} cannot be read ({reason}): install the package again"
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return TextBackbone(NAME, np.ascontiguousarray(weights, dtype=np.float32), tokenizer)


_KNOWN: dict[str, Callable[[], TextFeatures]] = {NAME: wordllama}


def text_backbone(name: str, weights: str | None = None) -> TextFeatures:
    """The text backbone of this name.

    Args:
        weights: the checksum that its weights must have.

    Raises:
        ModelError: the name is unknown, or the weights have changed.
        MissingExtraError: its package is not installed.
    """
    if name not in _KNOWN:
        raise ModelError(f'unknown text backbone "{name}": there is {", ".join(_KNOWN)}; register yours first')
    found = _KNOWN[name]()
    if weights is not None and found.weights != weights:
        raise ModelError(
            f"the weights of backbone {name} have changed: the task was learned with {weights[:12]}..., "
            f"here they are {found.weights[:12]}...; install the version of its package that was used then"
        )
    return found


def register_text_backbone(backbone: TextFeatures) -> None:
    """Make a text backbone of the user's known by its name in this process: tasks are learned and predicted with it.

    Raises:
        ConfigError: another one has this name.
    """
    there = _KNOWN.get(backbone.name)
    if there is not None and (there is wordllama or there().weights != backbone.weights):
        raise ConfigError(f'there is a text backbone "{backbone.name}" already: choose another name')
    _KNOWN[backbone.name] = lambda: backbone
