"""One network, four masks: every reading of a unified network equals its definition, one
token at a time under a mask that is written out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import (
    ComputeOptions,
    Question,
    capabilities_of,
    checkpoint,
    is_pseudo,
    load,
    without_context,
)
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.research.unified import Unified, objectives
from rescore.research.unified_kind import (
    MIXTURE,
    READINGS,
    Segment,
    UnifiedConfig,
    UnifiedKind,
    UnifiedOptions,
)
from tests.conftest import SENTENCES, Run, assert_one_line_error

SOURCES = ["the old house", "he said so", "yes", "the old clock"]
TARGETS = [text for text in SENTENCES if len(text.split()) <= 8][:6]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS]
SIDES = ["seq2seq", "channel", "bi:source", "bi:channel"]


@pytest.fixture(scope="module", params=[False, True], ids=["next token", "cloze"])
def folder(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> Path:
    """A random network, which predicts next tokens or masked tokens."""
    return random_network(
        tmp_path_factory.mktemp("unified"), tokenizer, config, cloze=request.param
    )


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> Path:
    """A random network that predicts next tokens."""
    return random_network(tmp_path_factory.mktemp("plain"), tokenizer, config)


def random_network(
    folder: Path, tokenizer: Tokenizer, config: NetworkConfig, cloze: bool = False
) -> Path:
    torch.manual_seed(3)
    network = checkpoint.build(config.of_kind("unified", cloze=cloze))
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    checkpoint.save(folder, network, tokenizer)
    return folder


# --- the definition ------------------------------------------------------------------


def log_probs(
    network: Unified, tokens: list[int], segments: list[int], sees: list[list[bool]]
) -> Tensor:
    """Return (n, vocabulary) natural logs: equations 1 to 3 with the mask `sees`.

    Args:
        network: The network, in float64.
        tokens: The ids of the tokens.
        segments: The segment of each token.
        sees: Whether position i sees position j, at [i][j].
    """
    places = [segments[:rank].count(segment) for rank, segment in enumerate(segments)]
    embedded = (
        network.token_embedding(torch.tensor(tokens))
        + network.sentence_embedding(torch.tensor(segments))
        + network.position_embedding(torch.tensor(places))
    )
    hidden = embedded[None] * network.scale
    for block in network.layers():
        hidden = block(hidden, hidden, torch.tensor(sees)[None, None])
    return torch.log_softmax(hidden[0] @ network.token_embedding.weight.T, dim=-1)


def slides(first: int, second: int, reading: str) -> list[list[bool]]:
    """Return the mask of the slides for sequences of two segments: of a bidirectional
    language model everything, of the others the past, of sequence-to-sequence the whole
    source and the past of the target.
    """
    size = first + second
    if reading == "bi":
        return [[True] * size for _ in range(size)]
    if reading == "seq2seq":
        of_source = [[True] * first + [False] * second] * first
        of_target = [
            [True] * first + [place <= own for place in range(second)]
            for own in range(second)
        ]
        return of_source + of_target
    return [[place <= own for place in range(size)] for own in range(size)]


def definition(reading: str, folder: Path, source: str, target: str) -> list[float]:
    """Return the log-probability of each token of the target, each from a sequence of
    its own.
    """
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    assert isinstance(network.config, UnifiedConfig)
    network.double()
    given, ids = tokenizer.encode([source, target])
    if reading == "r2l":
        ids = ids[::-1]
    front = [tokenizer.bos]
    if ":" in reading or reading == "seq2seq":
        front = [tokenizer.bos, *given, tokenizer.eos, tokenizer.bos]
    both_sides = reading.startswith("bi")
    if not both_sides:
        ids = [*ids, tokenizer.eos]
    first_segment = {
        "l2r": Segment.FORWARD,
        "r2l": Segment.BACKWARD,
        "seq2seq": Segment.SOURCE,
    }.get(reading, Segment.BOTH)
    values = []
    for rank, token in enumerate(ids):
        if both_sides:
            own = [*ids[:rank], tokenizer.mask, *ids[rank + 1 :], tokenizer.eos]
        elif network.config.cloze:
            own = [*ids[:rank], tokenizer.mask]
        else:
            own = ids[:rank]
        at = len(front) + rank
        if not both_sides and not network.config.cloze:
            at -= 1
        tokens = [*front, *own]
        second = len(own) + 1 if len(front) > 1 else 0
        first = len(tokens) - second
        segments = [first_segment] * first + [first_segment + 1] * second
        sees = slides(first, second, "bi" if both_sides else reading)
        with torch.no_grad():
            found = log_probs(network, tokens, segments, sees)
        values.append(found[at, token].item())
    return values[::-1] if reading == "r2l" else values


# --- scores --------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["bi", "l2r", "r2l"])
def test_a_sentence_equals_the_definition(reading: str, folder: Path) -> None:
    found = load(f"unified:{reading}:{folder}").score(without_context(TARGETS))
    for text, scores in zip(TARGETS, found, strict=True):
        slow = definition(reading, folder, "", text)
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert len(scores.tokens) == len(slow)


@pytest.mark.parametrize("budget", [None, 60])
@pytest.mark.parametrize("reading", SIDES)
def test_a_pair_equals_the_definition(
    reading: str, budget: int | None, folder: Path
) -> None:
    """Hypotheses share the reading of their source; a single pair does not."""
    lm = load(f"unified:{reading}:{folder}", ComputeOptions(batch_tokens=budget))
    assert capabilities_of(lm).source
    assert is_pseudo(f"unified:{reading}") == reading.startswith("bi")
    found = lm.score([Question(target, source) for source, target in PAIRS])
    for (source, target), scores in zip(PAIRS[::5], found[::5], strict=True):
        sides = (target, source) if "channel" in reading else (source, target)
        slow = definition(READINGS[reading], folder, *sides)
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert (scores.tokens[-1] == "[EOS]") != reading.startswith("bi")
    for (source, target), scores in zip(PAIRS, found, strict=True):
        (alone,) = lm.score([Question(target, source)])
        np.testing.assert_allclose(scores.log_probs, alone.log_probs, atol=1e-4)
