"""Any encoder of texts as a backbone: a module of the user's with its tokenizer, such as a model of transformers."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from crwn.errors import ConfigError, ModelError
from crwn.models.backbones.freezing import weights_checksum
from crwn.models.backbones.text import cleaned

AT_ONCE = 32  # texts
LONGEST = 256  # tokens of a text that are read


class TextModule:
    """Features of texts from a frozen copy of a module: the mean of what it returns for a text's tokens.

    Args:
        module: takes `input_ids` and `attention_mask`, both `[texts, tokens]`, and returns features
            `[texts, features]`, tokens `[texts, tokens, features]`, or an output of transformers with
            `last_hidden_state`.
        tokenizer: of transformers, or a function with the same arguments: texts to lists of `input_ids`.
        name: what the backbone is called in model folders and messages.
        longest: tokens of a text that are read.

    Raises:
        ConfigError: `longest` is impossible.
        ModelError: the module cannot be copied, or does not return features.
    """

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str, longest: int = LONGEST) -> None:
        if isinstance(longest, bool) or not isinstance(longest, int) or longest < 1:
            raise ConfigError(f"a text has at least one token that is read, got longest {longest!r}")
        self.name, self.longest, self.tokenizer = name, longest, tokenizer
        try:
            # Frozen weights stay parameters: models of transformers look them up.
            self.module = copy.deepcopy(module).eval().requires_grad_(False)
            self.features = int(self._computed(["one", "two words"]).shape[1])
        except ModelError:
            raise
        except Exception as error:  # the user's module and tokenizer can raise anything
            reason = str(error).splitlines()[0] if str(error) else ""
            raise ModelError(f"{name} cannot take two texts ({type(error).__name__}: {reason})") from error
        settings = json.dumps([weights_checksum(dict(self.module.state_dict())), _words(tokenizer), longest])
        self.weights = hashlib.sha256(settings.encode()).hexdigest()

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Features `[texts, features]`; those of a text without any token are 0."""
        out = np.zeros((len(texts), self.features), dtype=np.float32)
        order = np.argsort([len(text) for text in texts], kind="stable")  # texts of one length need little padding
        for start in range(0, len(order), AT_ONCE):
            some = order[start : start + AT_ONCE]
            out[some] = self._computed([texts[at] for at in some]).numpy()
        return out

    @torch.no_grad()
    def _computed(self, texts: Sequence[str]) -> Tensor:
        given = [cleaned(text) for text in texts]
        # The same arguments at every call: a tokenizer that changes none of its settings can be shared by threads.
        found = self.tokenizer(given, padding=False, truncation=True, max_length=self.longest)["input_ids"]
        width = max(1, *(len(ids) for ids in found))
        ids, mask = torch.zeros(len(texts), width, dtype=torch.long), torch.zeros(len(texts), width, dtype=torch.long)
        for row, tokens in enumerate(found):
            ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
            mask[row, : len(tokens)] = 1
        out = self.module(input_ids=ids, attention_mask=mask)
        hidden = out if isinstance(out, Tensor) else getattr(out, "last_hidden_state", None)
        if not isinstance(hidden, Tensor) or hidden.ndim not in (2, 3) or len(hidden) != len(texts):
            what = f"shape {tuple(hidden.shape)}" if isinstance(hidden, Tensor) else type(out).__name__
            raise ModelError(
                f"{self.name} returns {what} for {len(texts)} texts: a backbone returns features [texts, features]"
            )
        if hidden.ndim == 2:
            return hidden.float() * mask.any(dim=1, keepdim=True)
        share = mask[..., None].float()
        return (hidden.float() * share).sum(dim=1) / share.sum(dim=1).clamp_min(1.0)


def _words(tokenizer: Any) -> str:
    """A checksum of what the tokenizer makes of texts, as far as it can be seen."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        known = json.loads(backend.to_str())
        known.pop("padding", None)
        known.pop("truncation", None)
    elif hasattr(tokenizer, "get_vocab"):
        known = sorted(tokenizer.get_vocab().items())
    else:
        known = getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
