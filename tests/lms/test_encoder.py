"""Encoders begin with the T-TA's embeddings; with those times sqrt(d) where their file
says so, or is an old one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from tests.conftest import ROOT

TOKENS, LENGTHS = torch.tensor([[2, 7, 8, 3]]), torch.tensor([4])


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("kind", ["bilm", "unilm"])
def test_what_the_first_layer_reads(
    kind: str, norm: bool, config: NetworkConfig
) -> None:
    """X + P, and with a LayerNorm what BERT has: LayerNorm(X + P), not scaled behind
    it.
    """
    torch.manual_seed(0)
    plain = replace(config, kind=kind, embedding_norm=norm)
    network, scaled = (
        checkpoint.build(plain),
        checkpoint.build(replace(plain, scaled_embeddings=True)),
    )
    scaled.load_state_dict(network.state_dict())
    with torch.no_grad():
        embedded = (
            network.token_embedding(TOKENS) + network.position_embedding.weight[:4]
        )
        embedded = network.embedding_norm(embedded)
        torch.testing.assert_close(network(TOKENS, LENGTHS, 0), embedded)
        torch.testing.assert_close(
            scaled(TOKENS, LENGTHS, 0), embedded * config.d_model**0.5
        )


def test_files_of_before_keep_their_meaning(
    config: NetworkConfig, tmp_path: Path
) -> None:
    for kind in ("tta", "bilm", "unilm"):
        written = asdict(replace(config, kind=kind))
        (tmp_path / "new.json").write_text(json.dumps(written))
        del written["scaled_embeddings"]
        (tmp_path / "old.json").write_text(json.dumps(written))
        assert not NetworkConfig.load(tmp_path / "new.json").scaled_embeddings
        assert NetworkConfig.load(tmp_path / "old.json").scaled_embeddings is (
            kind != "tta"
        )
    for kind in ("bilm", "unilm", "unilm-bw"):
        assert NetworkConfig.load(
            ROOT / "models" / kind / "config.json"
        ).scaled_embeddings


def test_the_first_query_is_checked(config: NetworkConfig) -> None:
    with pytest.raises(
        UserError, match="first_query is 'sos'; it must be position or mask"
    ):
        replace(config, first_query="sos")
