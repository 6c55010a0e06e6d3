"""Words as they are written and as they are compared: confidences, votes and merged
lists use the metric's words.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.asr.confidence import ConfusionNetwork, confidences, correct
from rescore.asr.systems import combined
from rescore.asr.written import pieces_of, rewritten, tokens_of
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.metrics.mt import Bleu
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.metrics.wer import CharacterErrorRate, ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.plan import Plan
from tests.conftest import Run, write_json


class Rules(Normaliser):
    """Replaces words, and joins some, as Whisper's normaliser of English does."""

    def __call__(self, text: str) -> list[str]:
        text = f" {' '.join(text.split())} "
        for old, new in (
            (" it's ", " it is "),
            (" twenty one ", " 21 "),
            (" uh ", " "),
        ):
            text = re.sub(old, new, text, flags=re.IGNORECASE)
        return super().__call__(text)


@pytest.fixture
def normaliser() -> Normaliser:
    return Rules(split_hyphens=True)


def shown(normaliser: Normaliser, text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(piece.text, piece.words) for piece in pieces_of(text, normaliser)]


def test_pieces_by_hand(normaliser: Normaliser) -> None:
    assert shown(normaliser, "So it's twenty one  well-known uh OWLS") == [
        ("So", ("so",)),
        ("it's", ("it", "is")),
        ("twenty one", ("21",)),
        ("well-known", ("well", "known")),
        ("uh", ()),
        ("OWLS", ("owls",)),
    ]
    assert shown(normaliser, "twenty two") == [
        ("twenty", ("twenty",)),
        ("two", ("two",)),
    ]
    assert shown(normaliser, "") == [] and shown(EXACT, "A b") == [
        ("A", ("A",)),
        ("b", ("b",)),
    ]


def test_whispers_words() -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    found = shown(
        Normaliser(whisper_english=True),
        "Um, it is twenty-one thousand and five colours [noise] isn't it?",
    )
    assert [one for one in found if one[1]] == [
        ("it", ("it",)),
        ("is", ("is",)),
        ("twenty-one thousand and five", ("21005",)),
        ("colours", ("colors",)),
        ("isn't", ("is", "not")),
        ("it?", ("it",)),
    ]


TEXTS = st.lists(
    st.sampled_from(
        [
            "it's",
            "IT",
            "is",
            "twenty",
            "one",
            "uh",
            "well-known",
            "-",
            "日本",
            "2日",
            "ｶﾞ",
            "Owls,",
        ]
    ),
    max_size=7,
).map(" ".join)
KINDS = st.sampled_from(
    [
        "split_hyphens",
        "drop_punctuation",
        "nfkc",
        "split_characters",
        "split_mixed",
        "case_sensitive",
    ]
)


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, kinds=st.sets(KINDS), rules=st.booleans())
def test_pieces_hold_the_text_and_its_words(
    text: str, kinds: set[str], rules: bool
) -> None:
    normaliser = (Rules if rules else Normaliser)(**dict.fromkeys(kinds, True))
    pieces = pieces_of(text, normaliser)
    assert [word for piece in pieces for word in piece.words] == normaliser(text)
    assert (
        "".join(
            piece.text if piece.glued else f" {piece.text}" for piece in pieces
        ).split()
        == text.split()
    )
    assert tokens_of(text, normaliser) == normaliser(text)
    if all(piece.words for piece in pieces):
        assert rewritten(tokens_of(text, normaliser)) == " ".join(text.split())


def some_list(*scored: tuple[str, float], reference: str = "") -> NbestList:
    return NbestList(
        "u",
        [Hypothesis(text, {"s2s": float(np.log(p))}) for text, p in scored],
        (reference,),
    )


def test_confidences_are_of_the_metrics_words(normaliser: Normaliser) -> None:
    texts = ["IT'S a well-known owl", "it is a well known OWL", "it was a owl"]
    network = ConfusionNetwork(texts[0], texts, np.log([0.5, 0.3, 0.2]), normaliser)
    assert network.words == ["IT'S", "a", "well-known", "owl"]
    assert network.confidences(1.0) == pytest.approx([0.8, 1.0, 0.8, 1.0])
    assert correct(network, ["it is a well-known fowl"], normaliser).tolist() == [
        True,
        True,
        True,
        False,
    ]
    joined = ConfusionNetwork(
        "twenty one uh owls",
        ["twenty one uh owls", "21 owl"],
        np.log([0.6, 0.4]),
        normaliser,
    )
    assert joined.confidences(1.0) == pytest.approx([1.0, 1.0, 1.0, 0.6])
    assert correct(joined, ["21 owls"], normaliser).all()
    assert correct(joined, ["22 owls"], normaliser).tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_calibration_and_quality_count_as_the_metric(normaliser: Normaliser) -> None:
    """Error rate 0 and all words wrong did not fit each other."""
    lists = [
        some_list(
            ("It's twenty one", 0.6), ("IT'S TWENTY ONE", 0.4), reference="it is 21"
        )
    ]
    metric = ErrorRate(normaliser=normaliser)
    found = confidences(Plan(metrics=(metric,)), Dataset.of(lists))
    assert found.plain is not None and found.plain.correct == 1.0
    assert [word.confidence for word in found.words[0]] == pytest.approx([1.0] * 3)


def test_a_vote_is_of_the_metrics_words(normaliser: Normaliser) -> None:
    one = some_list(("a cat", 0.4), ("THE CAT", 0.3), ("the Cat", 0.3))
    rover = Decision("rover", 1.0)
    # The two texts of equal words count as one, in the spelling of the first.
    assert Choice({"s2s": 1.0}, decision=rover).texts(
        ErrorRate(), Dataset.of([one])
    ) == ["THE CAT"]
    assert Choice({"s2s": 1.0}, decision=rover).texts(
        ErrorRate(normaliser=EXACT), Dataset.of([one])
    ) == ["a cat"]
    assert Choice({"s2s": 1.0}, decision=rover).texts(
        Bleu(tokenise="none"), Dataset.of([one])
    ) == ["a cat"]
    one = some_list(
        ("it's a well-known owl", 0.4),
        ("it is the well known howl", 0.3),
        ("it is the known howl", 0.3),
    )
    assert Choice({"s2s": 1.0}, decision=rover).texts(
        ErrorRate(normaliser=normaliser), Dataset.of([one])
    ) == ["it's the well-known howl"]
    one = some_list(("well-known", 0.4), ("well owned", 0.35), ("well owned", 0.25))
    assert Choice({"s2s": 1.0}, decision=rover).texts(
        ErrorRate(normaliser=normaliser), Dataset.of([one])
    ) == ["well owned"]


def test_a_vote_by_characters() -> None:
    one = some_list(("今天 天汽", 0.4), ("今大 天气", 0.35), ("明天 天气", 0.25))
    metric = CharacterErrorRate(normaliser=Normaliser(split_characters=True))
    assert Choice({"s2s": 1.0}, decision=Decision("rover", 1.0)).texts(
        metric, Dataset.of([one])
    ) == ["今天 天气"]
    network = ConfusionNetwork(
        "今天", ["今天", "今大", "明天"], np.log([0.4, 0.35, 0.25]), metric.words
    )
    assert network.words == ["今", "天"] and network.confidences(1.0) == pytest.approx(
        [0.75, 0.65]
    )


def test_systems_that_write_differently_propose_one_text(
    normaliser: Normaliser,
) -> None:
    first = [some_list(("IT'S AN OWL", 0.5), ("IT IS AN OWL", 0.3))]
    other = [some_list(("it is an owl", 0.9), ("it is an Owl", 0.05), ("it was", 0.05))]
    (found,) = combined({"a": first, "b": other}, normaliser)
    # the better score of each system counts
    assert [one.text for one in found.hypotheses] == ["IT'S AN OWL", "it was"]
    assert [one.scores["b"] for one in found.hypotheses] == pytest.approx(
        np.log([0.9, 0.05]).tolist()
    )
    assert (
        found.hypotheses[0].scores["a"] == pytest.approx(np.log(0.5))
        and "a" not in found.hypotheses[1].scores
    )
    (apart,) = combined({"a": first, "b": other})
    assert len(apart.hypotheses) == 5


def test_case_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    texts = {"a": ["THE CAT", "A CAT"], "b": ["the cat", "a cap"]}
    for name, some in texts.items():
        hypotheses = {
            f"hyp_{place}": {"score": -place, "text": text}
            for place, text in enumerate(some, 1)
        }
        write_json(
            tmp_path / f"{name}.json",
            {f"u{n}": {"ref": "the cat", **hypotheses} for n in range(4)},
        )

    def merged(*options: str) -> list[str]:
        assert (
            rescore("combine", "a.json", "b.json", "-o", "m.jsonl", *options).returncode
            == 0
        )
        return [one.text for one in formats.read([tmp_path / "m.jsonl"])[0].hypotheses]

    assert merged() == ["THE CAT", "A CAT", "a cap"]
    assert merged("--case-sensitive") == ["THE CAT", "A CAT", "the cat", "a cap"]
