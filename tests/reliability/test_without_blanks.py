"""Text without blanks against the same text with blanks between its characters: under
MER both are the same words.
"""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from rescore import formats, pipeline
from rescore.asr.combine import combine
from rescore.asr.confidence import confidences
from rescore.asr.features import RECOMBINED, RESPELLED
from rescore.asr.recombine import recombine
from rescore.asr.systems import combined as as_one
from rescore.asr.whole import Recording
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.lms.function import FunctionModel
from rescore.lms.lexicon import Lexicon
from rescore.metrics import MetricOptions, Normaliser
from rescore.metrics.listed import WordList
from rescore.nbest import Hypothesis, NbestList
from rescore.options import OptionValues
from tests import stand_ins
from tests.reliability.test_metamorphic import noise

LETTERS = "我们去北京大学看天气很好他说明下雨"
RARE = "丁丂七丄"
MIXED = Normaliser(split_mixed=True)
TERMS = ("北京", "大学", "下雨", "heard => 天气")

Lists = list[NbestList]


def bare(text: str) -> str:
    return "".join(text.split())


def lists(number: int, seed: int, blanks: bool) -> Lists:
    """Lists of Chinese text, in which the same letters are right, and the same
    hypotheses the best.
    """
    draw, made = random.Random(seed), []
    for index in range(number):
        words = [draw.choice((*LETTERS, "北京", "大学", "下雨")) for _ in range(8)]
        texts: dict[str, float] = {}
        while len(texts) < 5:
            heard = list(words)
            for place in draw.sample(range(8), draw.choice((0, 1, 2, 3))):
                heard[place] = draw.choice((*LETTERS, *RARE, ""))
            wrong = sum(one != other for one, other in zip(heard, words, strict=True))
            texts["".join(heard)] = -wrong / 2 + 2 * noise("".join(heard), seed)
        shown = " ".join if blanks else "".join
        hypotheses = [
            Hypothesis(shown(text), {FIRST_PASS: score})
            for text, score in texts.items()
        ]
        made.append(
            NbestList(f"talk-{index:03d}", hypotheses, (shown("".join(words)),))
        )
    return made


ROADS: dict[str, dict[str, object]] = {
    "plain": {},
    "word bonus": {"word_bonus": True},
    "boost": {"boost": True},
    "recombination": {"expanding": OptionValues(recombine=6)},
    "respelling": {"expanding": OptionValues(respell=4, channel="dev")},
    "terms": {"expanding": OptionValues(respell=4, channel="dev"), "boost": True},
}


def model() -> FunctionModel:
    lm = FunctionModel(
        lambda texts: [
            5 * noise(bare(text), 7) - 3 * sum(map(text.count, RARE)) for text in texts
        ]
    )
    lm.name = lm.model = "one"
    return lm


@cache
def outcome(road: str, decide: str, blanks: bool, folder: Path) -> pipeline.Outcome:
    fields = dict(ROADS[road])
    if road in ("respelling", "terms"):
        path = folder / "lexicon.txt.xz"
        Lexicon(dict.fromkeys(LETTERS, 100), 10_000).save(path)
        fields["expanding"] = OptionValues(
            **fields["expanding"].values, lexicon=str(path)
        )  # type: ignore[attr-defined]
    options = (
        MetricOptions(words=WordList(TERMS, "words"))
        if road in ("boost", "terms")
        else MetricOptions()
    )
    config = RunConfig(
        decide=decide,
        metrics=("mer",),
        measuring=options,
        bagging=False,
        dev="dev",
        **fields,
    )  # type: ignore[arg-type]
    return pipeline.run(
        lists(12, 2, blanks), config, lists(36, 1, blanks), lambda: [model()]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lexicon")


@pytest.mark.parametrize("decide", ["best", "mbr", "rover"])
@pytest.mark.parametrize("road", ROADS)
def test_choices_weights_and_new_hypotheses_are_equal(
    road: str, decide: str, folder: Path
) -> None:
    apart, together = (
        outcome(road, decide, blanks, folder) for blanks in (True, False)
    )
    assert [*map(bare, apart.texts)] == together.texts
    assert apart.weights.weights == pytest.approx(together.weights.weights)
    for one, other in zip(apart.lists, together.lists, strict=True):
        assert [bare(h.text) for h in one.hypotheses] == [
            h.text for h in other.hypotheses
        ]
        assert [h.scores for h in one.hypotheses] == [
            pytest.approx(h.scores) for h in other.hypotheses
        ]
    figures = [
        [(m.metric, m.first_pass, m.reranked, m.oracle) for m in each.results.metrics]
        for each in (apart, together)
    ]
    assert figures[0] == figures[1]


WORDS_OF = {
    **{
        metric: {"normaliser": MIXED}
        for metric in ("wer", "bwer", "uwer", "recall", "precision", "f1")
    },
    "bleu": {"tokenise": "zh"},
    "chrf": {},
}
"""Metrics that take both texts for the same, with these options; MER is one without
options.
"""
TUNING: dict[str, dict[str, object]] = {
    "averaged": {},
    "plain": {"bagging": False},
    "folds": {"folds": 3},
}


@cache
def measured(
    metric: str,
    decide: str,
    tuning: str,
    blanks: bool,
    is_reversed: bool = False,
    further: Sequence[str] = (),
) -> pipeline.Outcome:
    """An outcome, of lists in their order or reversed, also for further metrics."""
    sets = [lists(24, 1, blanks), lists(12, 2, blanks)]
    if is_reversed:
        sets = [one[::-1] for one in sets]
    options = MetricOptions(
        words=WordList(tuple(sorted(TERMS)), "words"), **WORDS_OF.get(metric, {})
    )
    boost = True if metric in ("wer", "f1") else None
    if further:  # which reads source texts
        options = options.merged_with(MetricOptions(model="model"))
        sets = [
            [replace(nbest, source="s" * (len(nbest.id) % 5)) for nbest in one]
            for one in sets
        ]
    config = RunConfig(
        decide=decide,
        metrics=(metric, *further),
        measuring=options,
        boost=boost,
        **TUNING[tuning],
    )  # type: ignore[arg-type]
    return pipeline.run(
        sets[1], config, None if config.folds else sets[0], lambda: [model()]
    )


def figures(found: pipeline.Outcome) -> list[object]:
    return [
        (one.metric, one.first_pass, one.reranked, one.oracle)
        for one in found.results.metrics
    ]


def cases(metrics: Sequence[str]) -> list[object]:
    """All metrics, decisions and ways of tuning; most are slow tests."""
    every = product(metrics, ("best", "mbr", "rover"), TUNING)
    return [
        pytest.param(*one, marks=[] if one[2] == "plain" else [pytest.mark.slow])
        for one in every
    ]


OF_WORDS = ("mer", *(metric for metric in WORDS_OF if metric not in ("bleu", "chrf")))
"""`rover` votes on words between blanks where a metric has no words of its own."""


@pytest.mark.parametrize(
    ("metric", "decide"), [*product(("bleu", "chrf"), ("best", "mbr"))]
)
def test_metrics_without_words_are_equal(metric: str, decide: str) -> None:
    test_metrics_of_the_same_words_are_equal(metric, decide, "plain")


@pytest.mark.parametrize(("metric", "decide", "tuning"), cases(OF_WORDS))
def test_metrics_of_the_same_words_are_equal(
    metric: str, decide: str, tuning: str
) -> None:
    apart, together = (
        measured(metric, decide, tuning, blanks) for blanks in (True, False)
    )
    assert [*map(bare, apart.texts)] == [*map(bare, together.texts)]
    assert figures(apart) == figures(together)
    assert apart.weights.weights == pytest.approx(together.weights.weights)
    assert apart.decision.scale == pytest.approx(together.decision.scale)


@pytest.mark.parametrize(
    ("metric", "decide", "tuning"), cases(("cer", "mer", *WORDS_OF))
)
def test_the_order_of_lists_changes_nothing(
    metric: str, decide: str, tuning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins.install(monkeypatch)
    further = ("comet",) if metric == "bleu" else ()
    before, after = (
        measured(metric, decide, tuning, True, is_reversed, further)
        for is_reversed in (False, True)
    )
    texts = [
        {nbest.id: text for nbest, text in zip(found.lists, found.texts, strict=True)}
        for found in (before, after)
    ]
    assert texts[0] == texts[1]
    rows = [
        [asdict(one) | {"signature": ""} for one in found.results.metrics]
        for found in (before, after)
    ]
    assert rows[0] == rows[1]  # signatures have the digest of the lists in their order
    assert before.weights.weights == pytest.approx(after.weights.weights)
    assert len(before.results.metrics) > 1 or metric != "bleu"


def test_the_order_of_terms_changes_nothing() -> None:
    """Terms are sorted when they are read: all that uses them gets one order."""
    assert WordList.of_lines(TERMS, "words") == WordList.of_lines(TERMS[::-1], "words")
    assert WordList.of_lines(TERMS, "words").lines != TERMS


def test_files_that_are_packed_or_renamed_or_have_carriage_returns_are_read_alike(
    tmp_path: Path,
) -> None:
    """Equal lists and terms, on which every decision and metric is equal."""
    formats.write(lists(12, 2, False), str(tmp_path / "l.jsonl"))
    (tmp_path / "l.terms").write_text("\n".join(TERMS) + "\n", encoding="utf-8")
    for kind, read in (("jsonl", _lists), ("terms", WordList.load)):
        content = (tmp_path / f"l.{kind}").read_bytes()
        (tmp_path / "other.name").write_bytes(content)
        (tmp_path / "crlf").write_bytes(content.replace(b"\n", b"\r\n"))
        (tmp_path / "packed.gz").write_bytes(gzip.compress(content))
        (tmp_path / "packed.xz").write_bytes(lzma.compress(content))
        expected = read(tmp_path / f"l.{kind}")
        for name in ("other.name", "crlf", "packed.gz", "packed.xz"):
            found = read(tmp_path / name)
            assert found == (
                replace(expected, path=found.path)
                if isinstance(found, WordList)
                else expected
            )


def _lists(path: Path) -> Lists:
    return formats.read([str(path)])


def test_the_roads_do_something(folder: Path) -> None:
    """Without which they would be equal for another reason."""
    assert outcome("word bonus", "best", False, folder).weights.weighs("words")
    assert outcome("boost", "best", False, folder).weights.weighs("listed")
    for road, origin in (
        ("recombination", RECOMBINED),
        ("respelling", RESPELLED),
    ):
        found = outcome(road, "best", False, folder)
        assert any(
            h.origin is origin for nbest in found.lists for h in nbest.hypotheses
        )


@pytest.mark.parametrize("road", ["plain", "word bonus", "boost"])
def test_confidences_are_equal(road: str, folder: Path) -> None:
    found = []
    for blanks in (True, False):
        run = outcome(road, "mbr", blanks, folder)
        assert run.tuning_lists is not None
        words = confidences(
            replace(run.plan, weights=run.weights), run.lists, run.tuning_lists
        ).words
        found.append(
            [[(word.text, round(word.confidence, 9)) for word in one] for one in words]
        )
    assert found[0] == found[1]


def test_merged_and_combined_systems_are_equal() -> None:
    merged = []
    for blanks in (True, False):
        systems = {"other": lists(12, 2, blanks)[::-1]}
        systems["other"] = [
            replace(nbest, hypotheses=nbest.hypotheses[1:])
            for nbest in systems["other"]
        ]
        systems["first"] = [
            replace(n, hypotheses=n.hypotheses[:3]) for n in lists(12, 2, blanks)
        ]
        every = as_one({name: systems[name] for name in ("first", "other")}, MIXED)
        merged.append(
            [[(bare(h.text), h.scores) for h in nbest.hypotheses] for nbest in every]
        )
    assert merged[0] == merged[1]
    combined = []
    for blanks in (True, False):
        tracks = {
            name: {
                "talk": Recording(
                    " ".join(
                        n.hypotheses[rank].text for n in lists(30, 2, blanks)
                    ).split(),
                    (),
                )
            }
            for rank, name in enumerate("ab")
        }
        combined.append(
            [
                [bare(h.text) for h in nbest.hypotheses]
                for nbest in combine(tracks, MIXED)
            ]
        )
    assert combined[0] == combined[1] and len(combined[0]) > 5


def test_recombination_keeps_the_blanks_of_the_text() -> None:
    texts = ("我们去 ok 北京", "他们去 ok 北京", "我们去 ok 南京")
    nbest = NbestList(
        "u",
        [
            Hypothesis(text, {FIRST_PASS: -float(rank)})
            for rank, text in enumerate(texts)
        ],
    )
    assert [h.text for h in recombine(nbest).hypotheses[3:]] == ["他们去 ok 南京"]
