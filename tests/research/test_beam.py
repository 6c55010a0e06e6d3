"""benchmarks/beam.py: a unified network translates as its own scores say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.nbest import Hypothesis, NbestList, are_means
from rescore.research.unified import Unified
from rescore.research.unified_kind import Segment
from tests.conftest import ROOT
from tests.research.test_unified import SOURCES, log_probs, random_network, slides


@pytest.fixture(scope="module")
def beam() -> ModuleType:
    path = ROOT / "benchmarks" / "beam.py"
    spec = importlib.util.spec_from_file_location("beam", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["beam"] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> Path:
    return random_network(tmp_path_factory.mktemp("unified"), tokenizer, config)


def test_a_beam_of_one_is_greedy(beam: ModuleType, folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    for text in SOURCES:
        (source,) = tokenizer.encode([text])
        search = beam.BeamSearch(network, tokenizer, 1)
        (best,) = search.translations(source)
        assert best.ids == greedy(network, tokenizer, source, len(best.ids))


def greedy(
    network: Network, tokenizer: Tokenizer, source: list[int], longest: int
) -> list[int]:
    """Return the most probable tokens, one after another, up to [EOS]."""
    size = tokenizer.vocab_size
    front = [tokenizer.bos, *source, tokenizer.eos]
    tokens = [token + Segment.SOURCE * size for token in front]
    tokens.append(tokenizer.bos + Segment.TARGET * size)
    ids: list[int] = []
    never = [tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.mask]
    while len(ids) < longest:
        with torch.no_grad():
            hidden = network(torch.tensor([tokens]), torch.tensor([len(tokens)]))
            logits = hidden[0, -1] @ network.token_embedding.weight.T
        logits[never] = -torch.inf
        token = int(logits.argmax())
        if token == tokenizer.eos:
            break
        ids.append(token)
        tokens.append(token + Segment.TARGET * size)
    return ids


def test_sums_equal_the_definition(beam: ModuleType, folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    (source,) = tokenizer.encode(SOURCES[:1])
    translations = beam.BeamSearch(network, tokenizer, 4).translations(source)
    assert isinstance(network, Unified)
    network.double()
    front = [tokenizer.bos, *source, tokenizer.eos]
    for translation in translations:
        target = [tokenizer.bos, *translation.ids]
        segments = [Segment.SOURCE] * len(front) + [Segment.TARGET] * len(target)
        sees = slides(len(front), len(target), "seq2seq")
        with torch.no_grad():
            found = log_probs(network, [*front, *target], segments, sees)
        predicted = [*translation.ids, tokenizer.eos]
        slow = found[range(len(front), len(front) + len(target)), predicted]
        assert translation.sum == pytest.approx(slow.sum().item(), abs=1e-3)
        assert translation.mean == pytest.approx(translation.sum / len(predicted))


def test_lists_of_a_beam(beam: ModuleType, folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    given = [NbestList("1", [Hypothesis("x")], ("Yes, it's so.",), SOURCES[0])]
    (nbest,) = beam.translated(network, tokenizer, given, 4)
    assert nbest.source == SOURCES[0] and nbest.references == ("yes it's so",)
    means = nbest.column("s2s")
    assert len(means) == 4 and means == sorted(means, reverse=True)
    assert are_means(nbest)
