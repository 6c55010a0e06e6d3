"""Errors of the words in a list and of all others: by hand, and together those of
WER.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rescore.asr.respell import find_lexicon
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError
from rescore.metrics import (
    METRICS,
    MetricOptions,
    Normaliser,
    choose_metric,
    list_statistics,
    total,
)
from rescore.metrics.alignment import align
from rescore.metrics.cached import remembered
from rescore.metrics.listed import ListedErrorRate, OtherErrorRate, OwnTerms, WordList
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import ROOT, Run, assert_one_line_error, read_report
from tests.decision.plain import losses
from tests.metrics.test_significance import systems

NAMES = WordList(("Anna", "New York", "lear"), "names.txt")


def test_by_hand() -> None:
    references = [("anna saw king lear",), ("in new york",), ("the end",)]
    hypotheses = ["hanna saw a king", "in new cork today", "the end anna"]
    inside, outside = ListedErrorRate(words=NAMES), OtherErrorRate(words=NAMES)
    # anna -> hanna, lear is missing; york -> cork; anna inserted
    assert inside.statistics(hypotheses, references).tolist() == [
        [1, 1, 0, 2],
        [1, 0, 0, 2],
        [0, 0, 1, 0],
    ]
    assert outside.statistics(hypotheses, references)[:, 3].tolist() == [2, 1, 2]
    assert inside.values(np.array([[2, 1, 1, 8]])).tolist() == [50.0]
    assert inside.details(np.array([1, 2, 3, 4]))["listed_words"] == 4


@pytest.mark.parametrize("seed", range(3))
def test_both_add_up_to_all(seed: int) -> None:
    references, _, hypotheses = systems(seed, 200)
    listed = WordList(("a", "d e"), "x")
    sums = [
        metric.statistics(hypotheses, [(one,) for one in references])
        for metric in (
            ListedErrorRate(words=listed),
            OtherErrorRate(words=listed),
            ErrorRate(),
        )
    ]
    assert (sums[0] + sums[1]).tolist() == sums[2].tolist()
    assert sums[0][:, :3].sum() and sums[1][:, :3].sum()


def test_the_list_is_read_as_references_are(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("New York\n\nAnna\nAnna\n", encoding="utf-8")
    (tmp_path / "other.txt").write_text("Anna\nNew York\n", encoding="utf-8")
    (tmp_path / "none.txt").write_text("\n", encoding="utf-8")
    one, other = (WordList.load(tmp_path / name) for name in ("names.txt", "other.txt"))
    assert one.digest == other.digest != NAMES.digest
    assert one.terms == ["Anna", "New York"]
    text = ["anna", "Anna", "york", "new", "york"]
    assert OwnTerms(one, Normaliser()).every.marks(text) == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert OwnTerms(one, Normaliser(case_sensitive=True)).every.marks(text) == [
        False,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(UserError, match=r"none\.txt: no word in it"):
        WordList.load(tmp_path / "none.txt")
    made = METRICS["bwer"].choose(ListedErrorRate.Options(words=NAMES), ["anna"])
    assert made.options.words == NAMES and made.settings["words"] == NAMES.digest
    with pytest.raises(UserError, match="needs --words FILE"):
        METRICS["uwer"].choose(ListedErrorRate.Options(), ["anna"])
    with pytest.raises(
        UserError, match=r"names\.txt: no word of the references is a word of this list"
    ):
        METRICS["bwer"].choose(ListedErrorRate.Options(words=NAMES), ["a b"])
    with pytest.raises(UserError, match="is outside this list"):
        METRICS["uwer"].choose(ListedErrorRate.Options(words=NAMES), ["anna lear"])


def test_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    entries = [
        {
            "id": "u",
            "ref": "anna saw lear",
            "hyps": [{"text": "hanna saw lear too", "score": -1}],
        }
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8"
    )
    (tmp_path / "names.txt").write_text("Anna\nLear\n", encoding="utf-8")
    metrics = [
        "--metric",
        "wer",
        "--metric",
        "bwer",
        "--metric",
        "uwer",
        "--words",
        "names.txt",
    ]
    done = rescore("l.jsonl", *metrics, "--report", "r.json")
    assert done.returncode == 0, done.stderr
    found = {one["metric"]: one for one in read_report(tmp_path / "r.json")["metrics"]}
    assert [found[name]["first_pass"] for name in ("BWER", "UWER")] == [50.0, 100.0]
    assert (
        f"|words:{WordList.load(tmp_path / 'names.txt').digest}|"
        in found["BWER"]["signature"]
    )
    assert "|tok:space|align:sclite|" in found["UWER"]["signature"]
    assert "listed words" in done.stdout and rescore("report", "r.json").returncode == 0
    assert_one_line_error(rescore("l.jsonl", "--metric", "bwer"), "needs --words FILE")
    assert (
        "50.00"
        in rescore("eval", "l.jsonl", "--metric", "bwer", "--words", "names.txt").stdout
    )


def test_whispers_normaliser(rescore: Run, tmp_path: Path) -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    words = Normaliser(whisper_english=True)
    found = " ".join(words("Mr. Park can't colour twenty-one cars, um [noise]"))
    assert found == "mister park can not color 21 cars"
    (tmp_path / "h.trn").write_text("it is 21 colours (u-1)\n", encoding="utf-8")
    (tmp_path / "r.trn").write_text(
        "It's twenty one, um, colors (u-1)\n", encoding="utf-8"
    )
    done = rescore(
        "eval", "h.trn", "--ref", "r.trn", "--whisper-english", "--report", "-"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (
        found["systems"][0]["value"] == 0.0
        and "|whisper-english:0.1." in found["signature"]
    )
    assert (
        json.loads(rescore("eval", "h.trn", "--ref", "r.trn", "--report", "-").stdout)[
            "systems"
        ][0]["value"]
        > 50
    )


DATA = ROOT / "tests" / "data"


def by_definition(
    references: list[str], hypotheses: list[str], lists: list[set[str]]
) -> dict[str, list[int]]:
    """Le et al. 2021: errors and words of listed and of other words, each utterance
    with its own list.
    """
    found = {"BWER": [0, 0, 0, 0], "UWER": [0, 0, 0, 0]}
    for reference, hypothesis, listed in zip(
        references, hypotheses, lists, strict=True
    ):
        for expected, word in align(reference.split(), hypothesis.split()):
            row = found[
                "BWER" if (word if expected is None else expected) in listed else "UWER"
            ]
            row[3] += expected is not None
            if expected != word:
                row[2 if expected is None else 1 if word is None else 0] += 1
    return found


def test_each_utterance_has_its_own_list() -> None:
    texts = {
        name: dict(
            line.split(maxsplit=1)
            for line in (DATA / f"biasing.{name}").read_text().splitlines()
        )
        for name in ("ref", "hyp")
    }
    words = WordList.load(DATA / "biasing.words")
    assert words.by_utterance and set(words.terms) == {
        "brindle",
        "osprey",
        "kettering",
        "marlowe",
    }
    lines = dict(
        line.partition(" ")[::2]
        for line in (DATA / "biasing.words").read_text().splitlines()
    )
    wanted = by_definition(
        list(texts["ref"].values()),
        list(texts["hyp"].values()),
        [set(lines[name].split()) for name in texts["ref"]],
    )
    lists = [
        NbestList(
            name, [Hypothesis(texts["hyp"][name], {"s2s": 0.0})], (texts["ref"][name],)
        )
        for name in texts["ref"]
    ]
    for name in ("bwer", "uwer"):
        metric = choose_metric(name, lists, MetricOptions(words=words))
        sums = total(list_statistics(metric, lists), [0] * len(lists))
        assert sums.tolist() == wanted[metric.name]
        assert metric.settings["words-by"] == "utterance"
        assert METRICS[name].choose(metric.options, []).options == metric.options
    # by hand: brindle -> brindled, osprey of talk-2 deleted, marlowe -> marlow; the
    # second kettering inserted; marlowe in talk-1, osprey in talk-3 and brindle in
    # talk-4 are in the lists of others only
    assert wanted["BWER"] == [2, 1, 1, 5]
    assert wanted["UWER"] == [1, 1, 3, 16]
    with pytest.raises(
        UserError,
        match=r"biasing\.words: utterance talk-9 is not in it; give each a line",
    ):
        list_statistics(metric, [replace(lists[0], id="talk-9")])


@pytest.mark.parametrize("seed", range(2))
def test_lists_of_utterances_in_every_use(seed: int) -> None:
    """Random texts by the definition; minimum Bayes risk with the losses of each
    utterance's own list.
    """
    references, first, second = systems(seed, 60)
    random = np.random.default_rng(seed)
    listed = [set(map(str, random.choice(list("abcdefgh"), 2))) for _ in references]
    lines = tuple(
        f"u{index} {' '.join(sorted(words))}" for index, words in enumerate(listed)
    )
    words = WordList(lines, "x", by_utterance=True)
    lists = [
        NbestList(
            f"u{index}",
            [Hypothesis(one, {"s2s": 0.0}), Hypothesis(other, {"s2s": 0.0})],
            (reference,),
        )
        for index, (reference, one, other) in enumerate(
            zip(references, first, second, strict=True)
        )
    ]
    wanted = by_definition(references, second, listed)
    for name in ("bwer", "uwer"):
        metric = remembered(choose_metric(name, lists, MetricOptions(words=words)))
        assert (
            total(list_statistics(metric, lists), [1] * 60).tolist()
            == wanted[metric.name]
        )
        for nbest, own, loss in zip(lists, listed, losses(metric, lists), strict=True):
            alone = METRICS[name](words=WordList(tuple(own), "y"))
            assert loss.tolist() == losses(alone, [nbest])[0].tolist()
        assert (
            len(
                Choice({"s2s": 1.0}, decision=Decision("mbr", 1.0)).texts(
                    metric, Dataset.of(lists)
                )
            )
            == 60
        )


def test_kaldis_form_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    common = [
        "eval",
        DATA / "biasing.hyp",
        "--ref",
        DATA / "biasing.ref",
        "--words",
        DATA / "biasing.words",
    ]
    done = rescore(*common, "--metric", "bwer", "--metric", "uwer", "--report", "-")
    assert [one["systems"][0]["value"] for one in json.loads(done.stdout)] == [
        80.0,
        31.25,
    ], done.stderr
    (tmp_path / "some.words").write_text(
        "talk-1 osprey\ntalk-2 osprey\n", encoding="utf-8"
    )
    common[-1] = "some.words"
    assert_one_line_error(
        rescore(*common, "--metric", "bwer"),
        "some.words: utterance talk-3 is not in it",
    )
    # no ids with words
    for text in ("R2D2\nC3PO\n", "New York 2\nNew York 3\n", "Anna\ntalk-1 osprey\n"):
        (tmp_path / "names.txt").write_text(text, encoding="utf-8")
        assert not WordList.load(tmp_path / "names.txt").by_utterance


def test_respelling_takes_the_words_of_all_utterances() -> None:
    found = find_lexicon(None, [], WordList.load(DATA / "biasing.words"))
    assert found.listed == {"brindle", "osprey", "kettering", "marlowe"}
