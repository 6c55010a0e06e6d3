"""A kind of network that is written outside the package: one class, one registration,
and everything else works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rescore.lms.base import Capabilities, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.networks import Network
from rescore.lms.scorers import NetworkScorer, ScoredNetwork
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, inner_positions
from rescore.lms.training.options import NeuralOptions
from rescore.options import option
from rescore.parts import KINDS
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json


class Bag(NeuralKind):
    """Predicts each token from the sum of the others' embeddings."""

    capabilities = Capabilities(pseudo=True, vectors=True)

    @dataclass(frozen=True, kw_only=True)
    class Options(NeuralOptions):
        title = "Bags of words"

        at_most: int = option(
            1000, "Tokens that are predicted of each sentence.", metavar="N", low=1
        )

    class Sum(Network):
        def __init__(self, config: NetworkConfig) -> None:
            super().__init__()
            self.config, self.output_bias = config, None
            self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
            self.linear = nn.Linear(config.d_model, config.d_model)

        def forward(
            self, tokens: Tensor, lengths: Tensor, layers: int | None = None
        ) -> Tensor:
            own = (
                self.token_embedding(tokens)
                * inner_positions(tokens, lengths)[..., None]
            )
            hidden: Tensor = self.linear(own.sum(dim=1, keepdim=True) - own)
            return hidden

    class Others(Objective):
        perplexity = "pseudo-perplexity of a bag"

        def __init__(self, at_most: int) -> None:
            self.at_most = at_most

        def __call__(
            self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]
        ) -> Example:
            predicted = inner_positions(tokens, lengths) & (
                torch.arange(tokens.shape[1]) <= self.at_most
            )
            return Example(tokens, lengths, predicted, tokens[predicted])

    def network(self, config: NetworkConfig) -> Network:
        return Bag.Sum(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        return Bag.Others(options.at_most)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        return NetworkScorer(spec.name, network)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    KINDS.register("bag", Bag, "bag of words")
    yield
    KINDS.remove("bag")


TRAIN = (
    "train",
    "--lm",
    "bag",
    "--text",
    "text",
    "--config",
    "tiny.json",
    "--held-out",
    "5",
    "--device",
    "cpu",
)


def test_it_is_trained_resumed_and_scored_with(
    rescore: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:60]))
    NetworkConfig(
        "bag", 200, layers=1, d_model=16, heads=2, d_ff=16, max_positions=40
    ).save(tmp_path / "tiny.json")
    done = rescore(*TRAIN, "--steps", "10", "--at-most", "9", "--out", "lm")
    assert done.returncode == 0 and "pseudo-perplexity of a bag" in done.stderr, (
        done.stderr
    )
    assert (
        rescore(
            *TRAIN, "--steps", "12", "--at-most", "9", "--resume", "--out", "lm"
        ).returncode
        == 0
    )
    assert "kind: bag" in (tmp_path / "lm" / "README.md").read_text()
    hypotheses = {
        "hyp_1": {"score": -1, "text": "the old clock"},
        "hyp_2": {"score": -2, "text": "the odd clock"},
    }
    lists = write_json(
        tmp_path / "l.json",
        {f"u{n}": {"ref": "the old clock", **hypotheses} for n in range(3)},
    )
    score = ("score", lists, "--lm", "bag:lm", "--cache", "cache", "-v")
    first, again = rescore(*score), rescore(*score)
    assert (
        "2 scores were in the cache, 0 were computed" in caplog.text
        and first.stdout == again.stdout
    )
    assert len(list((tmp_path / "cache").glob("*.sqlite3"))) == 1
    column = json.loads(first.stdout.splitlines()[0])["hyps"][0]["scores"]["bag"]
    assert column < 0
    done = rescore("compare", lists, "--lm", "bag:lm", "--dev", lists)
    assert done.returncode == 0 and "bag" in done.stdout, done.stderr
    (tmp_path / "pairs").write_text(
        "1\tthe old clock\tthe clock\n3\ta wall\tthe old wall\n", encoding="utf-8"
    )
    vectors = rescore("similarity", "pairs", "--lm", "bag:lm", "--kind", "hidden")
    assert vectors.returncode == 0, vectors.stderr
    started = rescore(
        "train",
        "--lm",
        "tta",
        *TRAIN[3:],
        "--steps",
        "1",
        "--init",
        "lm",
        "--out",
        "new",
    )
    assert_one_line_error(
        started, "--init lm: is of kind bag, which has other weights than kind tta"
    )


def test_it_is_in_the_help_and_in_errors(rescore: Run, tmp_path: Path) -> None:
    said = " ".join(rescore("train", "--help-all").stdout.split())
    assert "unilm-bw, bag, ngram" in said or ("bag" in said and "--at-most" not in said)
    own = " ".join(rescore("train", "--lm", "bag", "--help-all").stdout.split())
    assert (
        "Bags of words: --at-most N Tokens that are predicted of each sentence."
        " [from 1 on] [default: 1000]" in own
    )
    assert "bag: bag of words" in " ".join(rescore("run", "--help-all").stdout.split())
    assert_one_line_error(
        rescore("train", "--lm", "elmo", "--out", "x"), "channel", "bag"
    )
    assert_one_line_error(
        rescore("train", "--lm", "tta", "--out", "x", "--at-most", "3"),
        "train --lm tta takes no --at-most; give it to --lm bag",
    )
    assert_one_line_error(
        rescore("train", "--lm", "bag", "--out", "x", "--mask-rate", "0.1"),
        "train --lm bag takes no --mask-rate; give it to --lm bilm",
    )
    lists = write_json(
        tmp_path / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    assert_one_line_error(
        rescore(lists, "--lm", "bga:x", "--weight", "0.1"), "did you mean bag?"
    )
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "config.json").write_text('{"kind": "bagg"}')
    assert_one_line_error(
        rescore(lists, "--lm", "bag:c", "--weight", "0.1"),
        "config.json: kind 'bagg'",
        "bag",
    )
