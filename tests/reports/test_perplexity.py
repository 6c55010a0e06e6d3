"""Perplexities of texts that are all but impossible, and what is said of them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import counted
from rescore.lms import Question, TokenScores, load
from rescore.reports.markup import as_json
from rescore.reports.perplexity import render, text_score
from tests.lms.test_ngram import ARPA


class Certain:
    """A language model that all but excludes one word."""

    precision = "float32"
    fingerprint = "0" * 64

    def __init__(self, name: str) -> None:
        self.name = self.model = name

    def score(self, questions: object) -> list[TokenScores]:
        return [
            TokenScores(["a"], np.array([-1.0])),
            TokenScores(["b"], np.array([-2000.0])),
        ]


def test_no_warning_of_numbers_too_large() -> None:
    """exp(2000) is beyond floating point; RuntimeWarnings fail tests here."""
    lm = Certain("certain")
    found = text_score(lm, ["a", "b"], lm.score(None))
    assert (
        found.by_token.corpus == found.by_token.mean == float("inf")
        and found.log_prob == -2001
    )
    assert '"corpus": null' in as_json(found) and "Infinity" not in as_json(found)


def test_pseudo_perplexities_are_those_of_the_models_that_were_scored() -> None:
    scores = [
        text_score(lm, ["a", "b"], lm.score(None))
        for lm in map(Certain, ("bilm", "unilm", "tta"))
    ]
    assert (
        "\nbilm, tta: pseudo-perplexity, not comparable with the perplexity of other"
        " kinds\n" in render(scores)
    )
    assert "pseudo" not in render(scores[1:2])


def test_perplexity_without_unknown_words(tmp_path: Path) -> None:
    """SRILM: ppl = 10^(-logprob / (words - OOVs + sentences)), ppl1 without sentences;
    logprob without the OOVs.
    """
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = load(f"ngram:{tmp_path / 'lm.arpa'}")
    texts = ["the old", "the zzz", "zzz"]
    scores = lm.score([Question(text) for text in texts])
    found = text_score(lm, texts, scores)
    known = sum(
        value
        for one in scores
        for token, value in zip(one.tokens, one.log_probs, strict=True)
        if token != "zzz"
    )
    assert found.unknown == 2 and found.words == 5
    assert found.known_by_token == pytest.approx(math.exp(-known / (5 - 2 + 3)))
    assert found.known_by_word == pytest.approx(math.exp(-known / (5 - 2)))
    # tokens that are no words
    assert math.isnan(text_score(lm, ["the", "the zzz", "zzz"], scores).known_by_word)
    assert (
        f"without its 2 unknown tokens, {found.known_by_token:,.2f} a token"
        in render([found])
    )
    assert "without its" not in render([text_score(lm, ["the old"], scores[:1])])


def test_numbers_and_their_nouns() -> None:
    """One sentence is no plural."""
    lm = Certain("unilm")
    assert "\n1 sentence, 1 word; mean" in render(
        [text_score(lm, ["a"], lm.score(None)[:1])]
    )
    assert "\n2 sentences, 2 words; mean" in render(
        [text_score(lm, ["a", "b"], lm.score(None))]
    )
    nouns = ("list", "hypothesis", "log-probability")
    assert [counted(1, noun) for noun in nouns] == [
        "1 list",
        "1 hypothesis",
        "1 log-probability",
    ]
    assert [counted(2000, noun) for noun in nouns] == [
        "2,000 lists",
        "2,000 hypotheses",
        "2,000 log-probabilities",
    ]


def test_punctuation_that_a_model_drops_is_told() -> None:
    lm = Certain("tta")
    told = (
        "tta: does not score punctuation, but PPL/word counts a mark between blanks as"
        " a word"
    )
    assert told in render([text_score(lm, ["a .", "b"], lm.score(None))])
    assert told not in render([text_score(lm, ["a", "b"], lm.score(None))])
    reads = [TokenScores(["a", "."], np.array([-1.0, -1.0]))]
    assert told not in render([text_score(lm, ["a ."], reads)])


def test_each_column_of_perplexities_has_a_head_of_its_own() -> None:
    lm = Certain("certain")
    head, row, *_ = render([text_score(lm, ["a", "b"], lm.score(None))]).splitlines()
    names = re.split(r"\s{2,}", head.strip())
    assert len(set(names)) == len(names) == len(row.split()) - 1


@pytest.mark.parametrize(
    ("log_prob", "shown"),
    [(-5.0, "148.41"), (-13.0, "442,413.39"), (-22.6, "6.5e+09"), (-2000.0, "inf")],
)
def test_a_huge_mean_perplexity_is_shown_with_a_power_of_ten(
    log_prob: float, shown: str
) -> None:
    lm = Certain("certain")
    scores = [TokenScores(["b"], np.array([log_prob]))]
    _, row, *_ = render([text_score(lm, ["b"], scores)]).splitlines()
    assert row.split()[4:] == [shown] * 6
