"""A T-TA with phrase keys is trained, goes on, and takes over what one without has learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from rescore.errors import UserError
from rescore.lms import checkpoint, kind_of
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.tta import TTA, Phrases
from tests.conftest import SENTENCES


@dataclass(frozen=True, slots=True)
class Workshop:
    folder: Path

    def train(self, out: str, steps: int, kind: str = "tta", *, resume: bool = False, **shape: Any) -> TTA:
        folder = self.folder
        settings = {"text": (folder / "text",), "held_out": 20, "batch_tokens": 300, "dropout": 0.0}
        settings |= {"steps": steps, "checkpoint_seconds": 0.0, "resume": resume, "out": folder / out}
        settings |= {"device": "cpu", "precision": "float32", "compiled": False}
        settings |= {} if "init" in shape else {"tokenizer": folder / "tokenizer.json"}
        train_kind = kind_of(kind)
        assert train_kind.Options is not None
        train_kind.train(train_kind.Options(**({"config": str(folder / "c.json")} | settings | shape)))
        network = checkpoint.load(folder / out)[0]
        assert isinstance(network, TTA)
        return network


@pytest.fixture
def workshop(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig) -> Workshop:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:200]))
    tokenizer.save(tmp_path / "tokenizer.json")
    config.save(tmp_path / "c.json")
    return Workshop(tmp_path)


def test_training_uses_them_and_resumes(workshop: Workshop) -> None:
    first = workshop.train("lm", 6, phrases=16)
    assert first.config.phrases == 16
    for side in first.phrases:
        assert isinstance(side, Phrases)
        assert side.key.weight.abs().max() > 0 < side.query.weight.abs().max()  # both are zero at first
    same = workshop.train("lm", 6, phrases=16, resume=True)  # nothing is left to do
    for one, other in zip(first.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_model_without_them_gets_them(workshop: Workshop) -> None:
    folder = workshop.folder
    plain = workshop.train("plain", 2)
    assert not plain.phrases
    more = workshop.train("more", 0, init=str(folder / "plain"), phrases=16)
    tokens, lengths = torch.tensor([[2, 9, 8, 7, 3]]), torch.tensor([5])
    with torch.no_grad():
        assert torch.allclose(plain(tokens, lengths), more(tokens, lengths), atol=1e-5)
    assert workshop.train("kept", 1, init=str(folder / "more")).config.phrases == 16
    with pytest.raises(UserError, match="has phrase keys of 16 units"):
        workshop.train("x", 1, init=str(folder / "more"), phrases=64)
    with pytest.raises(UserError, match="phrases is 64; a bilm has none, tta may"):
        NetworkConfig("bilm", phrases=64)
