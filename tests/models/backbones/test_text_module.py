"""Encoders of texts that the user brings: a model of transformers, a plain module, and what is no encoder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crwn import Learner, NeuroModNet
from crwn.data.tables import table_of_texts
from crwn.errors import ConfigError, ModelError
from crwn.integrations.torchvision_wheel import import_torchvision
from crwn.models.backbones import TextModule, register_text_backbone, text_backbone

TEXT = "pay the bill invoice is due lunch cat sleeps now see you at nine"
WORDS = ["[PAD]", "[UNK]", *TEXT.split()]
BILLS = ["pay the bill now", "the invoice is due", "pay now"]
CHATS = ["lunch at nine", "the cat sleeps", "see you"]


with suppress(ImportError):  # transformers needs none, but imports what is there
    import_torchvision()


def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=known, unk_token="[UNK]", pad_token="[PAD]")


def encoder(seed: int = 0) -> Any:
    """BERT with two small layers, as transformers makes it."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **sizes))


def test_a_model_of_transformers_makes_features_that_padding_does_not_change() -> None:
    backbone = TextModule(encoder(), tokenizer(), name="small-bert")
    assert backbone.features == 32
    every = backbone([*BILLS, *CHATS])
    for at, text in enumerate([*BILLS, *CHATS]):
        assert np.allclose(backbone([text])[0], every[at], atol=1e-5)
    ids = torch.tensor([[WORDS.index(word) for word in CHATS[0].split()]])
    with torch.no_grad():
        wanted = encoder().eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].mean(dim=0)
    assert np.allclose(every[3], wanted.numpy(), atol=1e-5)
    assert not backbone(["", "  "]).any()
    assert backbone([]).shape == (0, 32)
    assert np.allclose(backbone(["cat " * 1000]), backbone(["cat " * 256]), atol=1e-6)


def test_its_checksum_is_of_weights_words_and_length() -> None:
    first = TextModule(encoder(), tokenizer(), name="one").weights
    assert TextModule(encoder(), tokenizer(), name="two").weights == first
    assert TextModule(encoder(1), tokenizer(), name="one").weights != first
    assert TextModule(encoder(), tokenizer(), name="one", longest=3).weights != first
    other = tokenizer()
    other.add_tokens(["dog"])
    assert TextModule(encoder(), other, name="one").weights != first


def test_tasks_are_learned_with_it_and_refuse_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crwn.models.backbones.text._KNOWN", {})
    with pytest.raises(ModelError, match='unknown text backbone "small-bert"'):
        text_backbone("small-bert")
    register_text_backbone(TextModule(encoder(), tokenizer(), name="small-bert"))
    texts, labels = table_of_texts([*BILLS, *CHATS] * 4, backbone="small-bert"), (["bill"] * 3 + ["chat"] * 3) * 4
    with Learner(NeuroModNet(32, (64,), 2, seed=0), bank=tmp_path / "m.crwn") as learner:
        learner.learn("kind", texts, labels, batches=60, progress=False)
        assert learner.predict([*BILLS, *CHATS], "kind").tolist() == labels[:6]
    with Learner.load(tmp_path / "m.crwn") as loaded:
        assert loaded.predict(["pay the bill"], "kind").tolist() == ["bill"]
        with pytest.raises(ConfigError, match='there is a text backbone "small-bert" already'):
            register_text_backbone(TextModule(encoder(1), tokenizer(), name="small-bert"))
        monkeypatch.setattr("crwn.models.backbones.text._KNOWN", {})
        register_text_backbone(TextModule(encoder(1), tokenizer(), name="small-bert"))
        with pytest.raises(ModelError, match="weights of backbone small-bert have changed"):
            loaded.predict(["pay the bill"], "kind")


class Bag(nn.Module):
    """The mean of embeddings: a module without transformers."""

    def __init__(self, outputs: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(100, outputs)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found: Tensor = self.embedding(input_ids) * attention_mask[..., None]
        return found.sum(dim=1)


def lengths(texts: list[str], **settings: Any) -> dict[str, list[list[int]]]:
    """A tokenizer that numbers words by their lengths."""
    return {"input_ids": [[len(word) for word in text.split()][: settings["max_length"]] for text in texts]}


def test_any_module_and_function_do() -> None:
    backbone = TextModule(Bag(), lengths, name="bag")
    first, same, other = backbone(["aa bbb", "cc ddd", "c ddd"])
    assert np.allclose(first, same, atol=1e-6)
    assert not np.allclose(first, other, atol=1e-3)


class Scalar(nn.Module):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return attention_mask.float().sum()


def test_what_is_no_encoder_is_refused_in_a_line() -> None:
    with pytest.raises(ModelError, match=r"odd returns shape \(\) for 2 texts"):
        TextModule(Scalar(), lengths, name="odd")
    with pytest.raises(ModelError, match=r"odd cannot take two texts \(TypeError: .*input_ids"):
        TextModule(nn.Linear(2, 2), lengths, name="odd")
    with pytest.raises(ConfigError, match="at least one token"):
        TextModule(Bag(), lengths, name="bag", longest=0)
