"""Perplexity of words by frequency: tokens assigned to words, ranges counted by hand,
an n-gram's figures from its definition.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.lms import Question, TokenScores, load, without_context
from rescore.lms.lexicon import Lexicon
from rescore.reports.perplexity import documents
from rescore.research.frequencies import Corpus, measure, read_corpus, word_log_probs
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.lms.test_ngram import ARPA, definition

TEXT = ["the old clock", "the clock", "old zzz"]


def scores(tokens: list[str], unknown: tuple[int, ...] = ()) -> TokenScores:
    """Scores -1, -2, -4, ... of tokens, so that each sum says what it is of."""
    return TokenScores(tokens, -(2.0 ** np.arange(len(tokens))), unknown)


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("the clock", ["the", "clock"], [-1, -2]),
        ("The clock", ["the", "cl", "##ock", "[EOS]"], [-1, -6]),
        ("the clock", ["[EOS]", "the", "clock"], [-2, -4]),  # of a backward model
        ("the clock", ["the", "\u0120cl", "ock", "</s>"], [-1, -6]),
        ("the clock", ["\u2581the", "\u2581cl", "ock"], [-1, -6]),
        ("the clock", ["\u2581", "the", "\u2581clock"], [-3, -4]),
        ("the clock", ["the</w>", "cl", "ock</w>"], [-1, -6]),
        ("the clock", ["the", "cl@@", "ock"], [-1, -6]),
        ("it's", ["it", "'", "s"], [-7]),
        ("caf\u00e9 noir", ["cafe", "noir"], [-1, -2]),
        ("", ["[EOS]"], []),
        ("", [], []),
    ],
)
def test_tokens_are_assigned_to_words(
    text: str, tokens: list[str], expected: list[float]
) -> None:
    assert word_log_probs(text, scores(tokens)) == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the clock", ["the", "cl"]),
        ("the clock", ["the", "wall", "clock"]),
        ("the clock", ["clock"]),  # the first token is not scored
        ("the clock", ["the", "clo", "[EOS]"]),
    ],
)
def test_tokens_that_are_not_the_text(text: str, tokens: list[str]) -> None:
    assert word_log_probs(text, scores(tokens)) is None


def test_removed_punctuation() -> None:
    """A tokenizer that removes punctuation has no token for it."""
    found = word_log_probs("The cat, sat - on it.", scores(["the", "cat", "sat"]))
    assert found is None
    tokens = ["the", "cat", "sat", "on", "it", "[EOS]"]
    found = word_log_probs("The cat, sat - on it.", scores(tokens))
    assert found is not None and math.isnan(found.pop(3))
    assert found == [-1, -2, -4, -8, -16]


def test_unknown_words() -> None:
    found = word_log_probs("a zzz b", scores(["a", "[UNK]", "b", "[EOS]"], (1,)))
    assert found is not None
    assert found[0] == -1 and math.isnan(found[1]) and found[2] == -4
    found = word_log_probs("azzz b", scores(["a", "[UNK]", "b"], (1,)))
    assert found is not None and math.isnan(found[0]) and found[1] == -4


@pytest.mark.parametrize("kind", ["tta", "unilm", "unilm-bw"])
def test_nothing_is_lost(kind: str, models: dict[str, Path]) -> None:
    """The words' log-probabilities and the end's are those of the sentence."""
    every = load(f"{kind}:{models[kind]}").score(without_context(SENTENCES[:50]))
    pieces = 0
    for text, found in zip(SENTENCES, every, strict=False):
        words = word_log_probs(text, found)
        assert words is not None and len(words) == len(text.split())
        ends = [
            value
            for token, value in zip(found.tokens, found.log_probs, strict=True)
            if token == "[EOS]"
        ]
        assert len(ends) == kind.startswith("unilm")
        assert sum(words) + sum(ends) == pytest.approx(found.sum, abs=1e-6)
        pieces += len(found.tokens) - len(words)
    assert pieces > 100


def test_ngram_by_hand(tmp_path: Path) -> None:
    """The tokens of an n-gram are words; a count of 0, 1 to 9, and 10 on."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = load(f"ngram:{tmp_path / 'lm.arpa'}")
    corpus = Corpus({"the": 10, "old": 3}, 1, "digest")
    report = measure([lm], documents(TEXT), corpus, ("text", "corpus"))
    by_word: dict[str, list[float]] = {"the": [], "old": [], "clock": []}
    for text in TEXT:
        words = text.split()
        for word, value in zip(words, definition(words), strict=False):
            if word in by_word:
                by_word[word].append(value)
    expected = [math.exp(-np.mean(by_word[word])) for word in ("clock", "old", "the")]
    assert [each.perplexities[0] for each in report.ranges] == pytest.approx(expected)
    assert [each.counts for each in report.ranges] == ["0", "1-9", "10 on"]
    assert [each.words for each in report.ranges] == [2, 2, 2]
    assert report.unknown == 1 and report.unmatched == 0
    assert report.cells()[0] == ["count", "words", "PPL ngram"]
    assert report.cells()[-1][:2] == ["all", "6"]
    assert report.signatures[0].startswith("PPL|corpus:digest|lm:ngram=")


class Letters:
    """A model of words: minus a number of nats for each letter of a word."""

    precision = "float32"
    fingerprint = "0" * 64

    def __init__(self, name: str, nats: dict[str, float]) -> None:
        self.name = self.model = name
        self._nats = nats

    def score(self, questions: list[Question]) -> list[TokenScores]:
        texts = [question.text.split() for question in questions]
        values = [[-self._nats.get(word, 1.0) for word in words] for words in texts]
        return [
            TokenScores(words, np.array(own))
            for words, own in zip(texts, values, strict=True)
        ]


def test_wins_by_hand() -> None:
    """`common` is the better model of the frequent word, `rare` of the other ones."""
    common, rare = Letters("common", {"a": 0.5}), Letters("rare", {"b": 0.5})
    corpus = Corpus({"a": 500, "b": 5, "c": 5}, 1, "")
    report = measure([common, rare], documents(["a b a", "c b"]), corpus, ("t", "c"))
    few, many = report.ranges
    assert (few.words, few.wins, few.ties) == (3, (0, 2 / 3), 1 / 3)
    assert (many.words, many.wins, many.ties) == (2, (1, 0), 0)
    assert (few.low, few.high, many.low, many.high) == (1, 9, 100, None)
    assert few.perplexities == pytest.approx((math.e, math.exp(2 / 3)))
    assert report.whole.wins == (2 / 5, 2 / 5)
    assert len(report.charts()) == 2
    alike = measure([common, common], documents(["a b"]), corpus, ("t", "c"))
    assert alike.whole.ties == 1
    impossible = Letters("impossible", {"a": 2000.0})
    report = measure([impossible], documents(["a"]), corpus, ("t", "c"))
    assert report.whole.perplexities == (math.inf,) and len(report.charts()) == 1


def test_a_corpus_is_a_text_or_a_lexicon(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The cat, the dog.\nthe end\n" * 5, encoding="utf-8")
    corpus = read_corpus(str(tmp_path / "text"))
    words = ("the", "THE", "cat", "Dog!", "bird")
    assert [corpus.count(word) for word in words] == [15, 15, 5, 5, 0]
    assert corpus.least == 1
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(UserError, match="model: has no lexicon"):
        read_corpus(str(folder))
    Lexicon({"the": 15, "cat": 5}, 30).save(folder / "lexicon.txt.xz")
    for path in (folder, folder / "lexicon.txt.xz"):
        corpus = read_corpus(str(path))
        assert corpus.count("The") == 15 and corpus.count("end") == 0
        assert corpus.least == 3
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="empty: no text in it"):
        read_corpus(str(tmp_path / "empty"))


def test_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:6]), encoding="utf-8")
    (tmp_path / "corpus").write_text("\n".join(SENTENCES), encoding="utf-8")
    lms = ["--lm", "tta-small", "--lm", "unilm-bw"]
    outputs = ["-o", "f.json", "-o", "f.tex", "--plot", "f.svg"]
    done = rescore("frequencies", "text", "--corpus", "corpus", *lms, *outputs)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "f.json").read_text())
    assert report["models"] == ["tta-small", "unilm-bw"]
    words = sum(len(sentence.split()) for sentence in SENTENCES[:6])
    assert sum(each["words"] for each in report["ranges"]) == words - report["unknown"]
    for each in [*report["ranges"], report["whole"]]:
        assert sum(each["wins"]) + each["ties"] == pytest.approx(1)
    assert report["pseudo"] == ["tta-small"]
    assert "tta-small wins %" in done.stdout and "tta-small: pseudo" in done.stdout
    assert r"tta-small wins \%" in (tmp_path / "f.tex").read_text(encoding="utf-8")
    assert (tmp_path / "f.svg").read_text(encoding="utf-8").count("<g ") == 2


def test_errors(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("zzz\n", encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = ["--lm", "ngram:lm.arpa"]
    done = rescore("frequencies", "text", "--corpus", "text", *lm)
    assert_one_line_error(done, "text: no word that all models know (ngram)")
    done = rescore("frequencies", "text", *lm)
    assert_one_line_error(done, "--corpus")
    done = rescore("frequencies", "text", "--corpus", "nowhere", *lm)
    assert_one_line_error(done, "nowhere: no such file")
