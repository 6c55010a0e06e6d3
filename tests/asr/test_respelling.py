"""Respelling through the commands: which channel, which lexicon, and that it does no
harm.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescore import formats, pipeline
from rescore.asr import respell
from rescore.asr.channel import Channel, collect, learn
from rescore.asr.features import CHANNEL, RESPELLED
from rescore.asr.respell import SELECTION, Respelling, TermRespeller, unsuited
from rescore.columns import FIRST_PASS_ORIGIN
from rescore.errors import UserError
from rescore.lms.function import FunctionModel
from rescore.lms.lexicon import Lexicon
from rescore.metrics import MetricOptions
from rescore.metrics.listed import WordList
from rescore.nbest import NO_HEADER, Hypothesis, NbestList
from rescore.options import OptionValues
from rescore.pipeline import RunConfig
from rescore.reports.summary import render
from rescore.tuning.phrases import bonus_phrases
from tests import stages
from tests.conftest import LEXICON, ROOT, WORDS, Run, assert_one_line_error


def misheard(word: str) -> str:
    """As a recogniser would have it that writes every d as t, and every doubled letter
    once.
    """
    for pair in ("tt", "dd", "pp"):
        word = word.replace(pair, pair[0])
    return word.replace("d", "t")


def made(number: int, seed: int) -> list[NbestList]:
    """Lists whose best hypothesis is misheard, and whose second one lacks a word."""
    draw = random.Random(seed)
    lists = []
    for index in range(number):
        words = ["the", "old", draw.choice(WORDS), "by", "the", draw.choice(WORDS)]
        heard = [misheard(word) if word in WORDS else word for word in words]
        hypotheses = [
            Hypothesis(" ".join(heard), {"s2s": -1.0}),
            Hypothesis(" ".join(heard[1:]), {"s2s": -2.0}),
        ]
        lists.append(
            NbestList(f"speaker{index % 7}-{index}", hypotheses, (" ".join(words),))
        )
    return lists


def known(sentences: Sequence[str]) -> list[float]:
    """A language model: the number of words that it does not know, times -2."""
    return [
        -2.0 * sum(word not in LEXICON for word in text.split()) for text in sentences
    ]


def with_options(config: RunConfig, **options: Any) -> RunConfig:
    """The config with other options of respelling."""
    return replace(config, expanding=OptionValues(**config.expanding.values | options))


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    LEXICON.save(tmp_path / "lexicon.txt.xz")
    return RunConfig(
        expanding=OptionValues(
            respell=10, channel="dev", lexicon=str(tmp_path / "lexicon.txt.xz")
        )
    )


def test_words_are_mended(config: RunConfig) -> None:
    test, dev = made(30, 1), made(60, 2)
    outcome = pipeline.run(test, config, dev, lambda: [FunctionModel(known)])
    assert outcome.results.reranked == 0.0 and outcome.results.first_pass > 20
    assert (
        outcome.results.oracle == 0.0
        and outcome.results.metrics[0].own_oracle == outcome.results.first_pass
    )
    signature = outcome.results.signature
    digest = learn(collect(dev)).digest
    assert (
        f"lm:channel=respell:10:v{SELECTION}@{digest},lexicon:{LEXICON.digest},float32"
        in signature
    )


def test_words_of_a_list_have_a_bonus(config: RunConfig, rescore: Run) -> None:
    """What is said is always one of the listed words; first pass and language model do
    not know that.
    """
    draw = random.Random(5)
    for name, number in (("test", 20), ("dev", 60)):
        lists = []
        for index in range(number):
            said, other = (
                f"the old {draw.choice(words)} by the door"
                for words in (WORDS[:5], WORDS[5:])
            )
            hypotheses = [
                Hypothesis(other, {"s2s": -1.0}),
                Hypothesis(said, {"s2s": -1.0 - draw.random()}),
            ]
            lists.append(NbestList(f"speaker{index % 7}-{index}", hypotheses, (said,)))
        formats.write(lists, f"{name}.jsonl")
    Path("names.txt").write_text("\n".join(WORDS[:5]), encoding="utf-8")
    how = (
        "--lm",
        "tta-small",
        "--respell",
        "10",
        "--channel",
        "dev",
        "--words",
        "names.txt",
    )
    done = rescore("test.jsonl", "--dev", "dev.jsonl", *how, "--save-weights", "w.json")
    assert done.returncode == 0, done.stderr
    assert json.loads(Path("w.json").read_text())["weights"]["listed"] > 0
    assert "listed" in done.stdout and re.search(r"reranked +0\.00", done.stdout)


@pytest.mark.parametrize("decide", ["best", "mbr", "rover"])
def test_a_given_boost_is_the_bonus_of_each_listed_word(
    caplog: pytest.LogCaptureFixture, decide: str
) -> None:
    """Dev lists have no listed word, so a tuned boost gains nothing there; a given
    boost chooses on the test lists.
    """

    def lists(said: str, other: str) -> list[NbestList]:
        texts = [
            (f"the old {other}", -1.0),
            (f"the old {said}", -2.0),
            ("the cold", -9.0),
        ]
        hypotheses = [Hypothesis(text, {"s2s": score}) for text, score in texts]
        return [
            NbestList(f"u{index}", hypotheses, (f"the old {said}",))
            for index in range(30)
        ]

    test, dev = lists("meadow", "shadow"), lists("clock", "lock")
    for nbest in dev:
        nbest.references = (nbest.hypotheses[0].text,)
    words = MetricOptions(words=WordList(("Meadow",), "words"))
    config = RunConfig(decide=decide, measuring=words, boost=True)
    tuned = pipeline.run(test, config, dev, lambda: [FunctionModel(known)])
    assert (
        "the boost of listed words has no significant gain on dev: it is off"
        in caplog.text
    )
    assert (
        tuned.results.reranked == tuned.results.first_pass
        and not tuned.results.unboosted
    )
    given = pipeline.run(
        test, replace(config, boost=3.0), dev, lambda: [FunctionModel(known)]
    )
    assert given.weights.weights == {"s2s": 1.0, "known": 0.0, "listed": 3.0}
    assert given.weights.tuning.value == given.weights.tuning.first_pass == 0
    assert (
        given.results.unboosted["BWER"] == 100 and given.results.unboosted["UWER"] == 0
    )
    assert {one.metric: one.reranked for one in given.results.metrics} == {
        "WER": 0,
        "BWER": 0,
        "UWER": 0,
    }
    assert (
        "the boost changes WER 33.33 -> 0.00, BWER 100.00 -> 0.00, UWER 0.00 -> 0.00"
        in render(given.results)
    )
    assert "|w:listed=3|" in given.results.signature


@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_nothing_is_respelled_where_that_is_no_gain(
    config: RunConfig, caplog: pytest.LogCaptureFixture, decide: str
) -> None:
    """The references are what was heard: any other word is an error."""
    test, dev = made(30, 1), made(60, 2)
    for nbest in [*test, *dev]:
        nbest.references = (nbest.hypotheses[0].text,)

    config = replace(config, decide=decide)
    outcome = pipeline.run(test, config, dev, lambda: [FunctionModel(known)])
    assert "nothing is respelled" in caplog.text
    assert outcome.weights.excluded == {RESPELLED}
    assert (
        bonus_phrases(outcome.weights.weights, "+.2f", outcome.weights.excluded)[-1]
        == "nothing respelled"
    )
    summary = render(outcome.results).removesuffix(outcome.results.signature)
    assert "nothing respelled" in summary and "1e+06" not in summary
    without = pipeline.run(
        test,
        replace(config, expanding=OptionValues()),
        dev,
        lambda: [FunctionModel(known)],
    )
    assert outcome.weights.decision == without.weights.decision
    assert outcome.results.reranked == outcome.results.first_pass == 0.0


def test_stages_are_the_run(config: RunConfig, rescore: Run, tmp_path: Path) -> None:
    test, dev = made(20, 1), made(40, 2)
    formats.write(test, "test.jsonl")
    formats.write(made(40, 3), "other.jsonl")
    formats.write(dev, "dev.jsonl")
    assert (
        rescore(
            "train", "--lm", "channel", "--text", "other.jsonl", "--out", "ch"
        ).returncode
        == 0
    )
    how = (
        "--lm",
        "tta-small",
        "--respell",
        "10",
        "--lexicon",
        config.expanding.values["lexicon"],
        "--channel",
        "ch",
    )
    run = rescore("test.jsonl", "--dev", "dev.jsonl", *how, "--report", "run.json")
    assert run.returncode == 0
    for name in ("dev", "test"):
        done = rescore("score", f"{name}.jsonl", *how, "-o", f"{name}.s.jsonl")
        assert done.returncode == 0, done.stderr
    assert rescore("tune", "dev.s.jsonl", "-o", "w.json").returncode == 0
    staged = rescore(
        "rerank", "test.s.jsonl", "--weights", "w.json", "--report", "staged.json"
    )
    assert staged.returncode == 0, staged.stderr
    signatures = [
        json.loads(Path(name).read_text())["signature"]
        for name in ("run.json", "staged.json")
    ]
    assert signatures[0] == signatures[1] and "respell:10" in signatures[0]


def test_each_part_is_respelled_by_the_others() -> None:
    lists = made(21, 3)
    lists[0].hypotheses[0].text, lists[0].references = "the zzzzz", ("the kettle",)
    whole = Respelling(10, LEXICON, "dev", lists)
    ours, theirs = next(whole(lists, dev=True)), next(whole(lists))
    assert [h.text for h in ours.hypotheses[:2]] == [
        h.text for h in theirs.hypotheses[:2]
    ]
    scores = [
        {h.text: h.scores[CHANNEL] for h in one.hypotheses} for one in (ours, theirs)
    ]
    shared = [text for text in scores[0] if text in scores[1] and scores[0][text]]
    assert shared and all(scores[0][text] != scores[1][text] for text in shared)


def test_a_channel_is_learned_once(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all dev lists for the test lists, and of three parts of them for
    themselves.
    """
    learned: list[str] = []

    def counted(pairs: Counter[tuple[str, str]], source: str = "") -> Channel:
        learned.append(source)
        return learn(pairs, source)

    monkeypatch.setattr(respell, "learn", counted)
    pipeline.run(made(6, 1), config, made(30, 2), lambda: [FunctionModel(known)])
    assert len(learned) == 4 and learned.count("30 lists") == 1


def test_a_channel_of_these_dev_lists_is_named(
    config: RunConfig, rescore: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dev, other = made(12, 2), made(12, 3)
    formats.write(dev, "dev.jsonl")
    assert (
        rescore(
            "train", "--lm", "channel", "--text", "dev.jsonl", "--out", "ch"
        ).returncode
        == 0
    )
    for lists, said in ((other, False), (dev, True)):
        caplog.clear()
        list(stages.expanded(lists, with_options(config, channel="ch"), lists))
        assert ("was learned from these dev lists" in caplog.text) == said


def test_what_was_chosen_and_what_is_absent_is_said(
    config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    lists = made(3, 2)
    caplog.set_level("INFO")
    list(stages.expanded(lists, with_options(config, channel=None)))
    assert "using --channel shipped" in caplog.text
    with pytest.raises(
        UserError, match=r"no score 'channel' \(found: s2s\); add it with --respell"
    ):
        lists[0].column(CHANNEL)


def test_words_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Lucarazan\n")
    nbest = NbestList("u", [Hypothesis("the old lucarasan", {"s2s": -1.0})], ("x",))
    words = MetricOptions(words=WordList.load(tmp_path / "names.txt"))
    learn(collect(made(30, 1))).save(tmp_path / "c")
    LEXICON.save(tmp_path / "l.xz")
    config = RunConfig(
        expanding=OptionValues(
            respell=5, channel=str(tmp_path / "c"), lexicon=str(tmp_path / "l.xz")
        )
    )
    assert len(next(stages.expanded([nbest], config)).hypotheses) == 1
    (found,) = stages.expanded([nbest], replace(config, measuring=words))
    assert "the old lucarazan" in [h.text for h in found.hypotheses]


def test_terms_of_several_words_in_texts_without_scores(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One text per utterance, no language model: the channel and the bonus of a
    correction gain only together.
    """
    pairs = [
        ("ask gold man sacks now", "ask goldman sachs now"),
        ("use post gress here", "use postgres here"),
        ("the super bass player", "the super bass player"),
        *[
            (f"she met a {who}", f"she met a {who}")
            for who in ("farmer", "baker", "singer", "king", "lady")
        ],
    ]

    def lists(number: int) -> list[NbestList]:
        every = [pairs[index % len(pairs)] for index in range(number)]
        return [
            NbestList(f"u{n}", [Hypothesis(heard, {"s2s": 0.0})], (said,))
            for n, (heard, said) in enumerate(every)
        ]

    words = MetricOptions(
        words=WordList(("Goldman Sachs", "Postgres", "Supabase", "Meta"), "terms")
    )
    config = RunConfig(
        expanding=OptionValues(respell=5, channel="shipped"), measuring=words
    )
    wrong = next(iter(stages.expanded([lists(4)[2]], config)))
    assert "the supabase player" in [hypothesis.text for hypothesis in wrong.hypotheses]
    outcome = pipeline.run(lists(24), config, lists(64), list)
    assert outcome.results.first_pass > 10 and outcome.results.reranked == 0.0
    chosen = [nbest.hypotheses for nbest in stages.expanded(lists(2), config)]
    assert [(one.origin, one.scores["edits"]) for one in chosen[0]][:2] == [
        (FIRST_PASS_ORIGIN, 0.0),
        (RESPELLED, 1.0),
    ]
    assert all(one.scores[CHANNEL] < 0 for one in chosen[0][1:])


def test_the_recording_of_a_list_is_what_models_with_neighbours_read(
    rescore: Run, tmp_path: Path
) -> None:
    """The file, else the key, else the id: evidence from the same recording changes the
    odds of a correction.
    """
    texts = (
        "our monroe forwards plan",
        "the monro forward plan and the monro forward goal",
    )
    terms = TermRespeller(WordList(("Monro Forward",), "terms"), 5)

    def channel(
        ids: tuple[str, str], recordings: tuple[str | None, str | None] = (None, None)
    ) -> float:
        hypotheses = [[Hypothesis(text, {"s2s": 0.0})] for text in texts]
        lists = map(
            NbestList,
            ids,
            hypotheses,
            ((), ()),
            (None, None),
            (NO_HEADER,) * 2,
            recordings,
        )
        return next(
            one.scores[CHANNEL]
            for one in next(terms(lists)).hypotheses
            if one.origin == RESPELLED
        )

    alone, together = channel(("a-1", "b-1")), channel(("call-0", "call-1"))
    assert together > alone
    assert (
        channel(("a-1", "b-1"), ("talk", "talk"))
        == channel(("1", "2"))
        == channel(("talk.1", "talk.2"))
        == together
    )
    assert channel(("call-0", "call-1"), ("a", "b")) == alone
    (tmp_path / "terms.txt").write_text("Monro Forward\n")
    lists = [
        NbestList(f"{name}-1", [Hypothesis(text, {"s2s": 0.0})])
        for name, text in zip("ab", texts, strict=True)
    ]
    formats.write(lists, str(tmp_path / "l.jsonl"))
    (tmp_path / "utt2spk").write_text("a-1 talk\nb-1 talk\n")
    (tmp_path / "words").write_text("a-1 monro\nb-1 monro\n")
    columns = []
    for more in ([], ["--recordings", "utt2spk"]):
        done = rescore(
            "score",
            "l.jsonl",
            "--lm",
            "tta-small",
            "--respell",
            "5",
            "--words",
            "terms.txt",
            "-o",
            "o.jsonl",
            *more,
        )
        assert done.returncode == 0, done.stderr
        nbest = formats.read([tmp_path / "o.jsonl"])[0]
        columns.append(
            next(
                one.scores[CHANNEL]
                for one in nbest.hypotheses
                if one.origin == RESPELLED
            )
        )
    assert columns[0] < columns[1]
    done = rescore(
        "score",
        "l.jsonl",
        "--lm",
        "tta-small",
        "--respell",
        "5",
        "--words",
        "words",
        "-o",
        "o.jsonl",
    )
    assert (
        "words: lines begin with utterances, so --respell looks for no term"
        in done.stderr
    )


def test_other_languages_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    chinese = [NbestList("u", [Hypothesis("今天 天气", {"s2s": 0.0})])]
    assert "knows 0 of 4 words" in str(unsuited(chinese, LEXICON))
    german = [NbestList("u", [Hypothesis("der alte gaertner", {"s2s": 0.0})])]
    (found,) = Respelling(5, LEXICON)(german)
    assert len(found.hypotheses) == 1 and "knows 0 of 3 words" in caplog.text


def test_weights_of_respelled_lists_fit_lists_that_are_left_alone(
    tmp_path: Path,
) -> None:
    learn(collect(made(30, 1))).save(tmp_path / "c")
    LEXICON.save(tmp_path / "l.xz")
    config = RunConfig(
        expanding=OptionValues(
            respell=5, channel=str(tmp_path / "c"), lexicon=str(tmp_path / "l.xz")
        )
    )
    german = [
        NbestList("g", [Hypothesis("der alte gaertner", {"s2s": 0.0})], ("der alte",))
    ]
    dev = made(60, 2)
    for nbest in dev:
        nbest.references = (nbest.hypotheses[0].text,)
    outcome = pipeline.run(german, config, dev, lambda: [FunctionModel(known)])
    assert (
        outcome.weights.excluded == {RESPELLED}
        and outcome.results.reranked == outcome.results.first_pass
    )
    # What dev lists cannot judge does no harm either.
    other = pipeline.run(made(30, 2), config, german, lambda: [FunctionModel(known)])
    assert other.weights.excluded == {RESPELLED}


def test_what_the_commands_refuse(rescore: Run, tmp_path: Path) -> None:
    lists = ROOT / "data" / "test.json"
    assert_one_line_error(
        rescore(lists, "--lm", "tta", "--respell", "5"), "--respell needs --dev lists"
    )
    (tmp_path / "w").write_text("a\n")
    assert_one_line_error(
        rescore("tune", lists, "--boost", "2"),
        "--boost needs the listed words; give --words FILE",
    )
    assert_one_line_error(
        rescore(lists, "--words", "w", "--boost", "tune"),
        "--boost tune needs --dev lists",
    )
    missing = rescore(
        "score", lists, "--lm", "tta-small", "--respell", "5", "--channel", "nowhere"
    )
    assert_one_line_error(missing, "nowhere")
    assert_one_line_error(
        rescore("score", lists, "--lm", "tta", "--respell", "5", "--channel", "dev"),
        "no dev lists",
    )


def test_the_shipped_parts() -> None:
    channel = Channel.load(Channel.shipped())
    lexicon = Lexicon.load(ROOT / "models" / "tta" / "lexicon.txt.xz")
    assert (
        lexicon.total > 100e6
        and "antiquarian" in lexicon
        and "antiquorian" not in lexicon
    )
    assert (
        channel.log_probs(["antiquarian"], ["antiquorian"])[0]
        > channel.log_probs(["aquarium"], ["antiquorian"])[0]
    )
    assert (
        json.loads((ROOT / "models" / "channel" / "channel.json").read_text())["block"]
        == 2
    )


def test_a_channel_of_recombined_lists_is_that_of_the_lists() -> None:
    lists = made(10, 1)
    recombined = list(
        stages.expanded(lists, RunConfig(expanding=OptionValues(recombine=5)))
    )
    assert learn(collect(recombined)).digest == learn(collect(lists)).digest


def test_scored_lists_are_not_respelled() -> None:
    scored = [NbestList("u", [Hypothesis("the lanter", {"s2s": 0.0, "tta": -1.0})])]
    with pytest.raises(UserError, match="has scores tta already"):
        list(Respelling(5, LEXICON)(scored))
