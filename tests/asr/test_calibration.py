"""Confidences of words against definitions, and what calibration promises."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rescore.asr.confidence import ConfusionNetwork, calibrate, correct, quality
from rescore.formats import audio
from rescore.formats.times import timed_pieces
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import FIRST_PASS_ALONE
from tests.conftest import ROOT, Run, assert_one_line_error, some_lists

TEXTS = [
    "the old clock ticked",
    "the old clock licked",
    "the cold clock ticked",
    "the old o'clock",
]


def network(
    text: str = TEXTS[0], probabilities: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
) -> ConfusionNetwork:
    return ConfusionNetwork(text, TEXTS, np.log(probabilities))


def test_a_confidence_is_the_sum_of_the_posteriors_that_agree() -> None:
    assert network().confidences(1.0) == pytest.approx([1.0, 0.8, 0.9, 0.6])
    squared = np.array([0.16, 0.09, 0.04, 0.01]) / 0.3
    assert network().confidences(2.0) == pytest.approx(
        [1, squared[[0, 1, 3]].sum(), squared[:3].sum(), squared[[0, 2]].sum()]
    )


def test_a_text_that_is_in_no_list_and_an_empty_one() -> None:
    assert network("the new clock").confidences(1.0)[1] == 0.0
    assert network("").confidences(1.0).shape == (0,)


def test_correct_words_are_those_of_sclite_alignment() -> None:
    flags = correct(
        network("THE old, clock ticked"),
        ["a the old clock tocked"],
        Normaliser(drop_punctuation=True),
    )
    assert flags.tolist() == [True, True, True, False]
    assert correct(network("a b"), ["x y", "a y"], Normaliser()).tolist() == [
        True,
        False,
    ]


def test_quality_by_definition() -> None:
    confidences, right = (
        np.array([0.9, 0.8, 0.3, 0.6]),
        np.array([True, True, False, False]),
    )
    found = quality(confidences, right)
    entropy = 4.0  # four words, half of them right: one bit each
    assert found.nce == pytest.approx(
        (entropy + math.log2(0.9 * 0.8 * 0.7 * 0.4)) / entropy
    )
    assert found.ece == pytest.approx((0.1 + 0.2 + 0.3 + 0.6) / 4)
    assert found.correct == 0.5
    assert math.isnan(quality(np.array([0.5]), np.array([True])).nce)


def noisy(number: int, seed: int) -> list[NbestList]:
    """Lists whose scores are three times too far apart, and whose references follow the
    honest posteriors.
    """
    random = np.random.default_rng(seed)
    lists = []
    for index in range(number):
        scores = random.normal(size=4)
        honest = np.exp(scores) / np.exp(scores).sum()
        words = [f"w{index}", f"x{index}", f"y{index}", f"z{index}"]
        hypotheses = [
            Hypothesis(f"so {word}", {"s2s": 3 * float(score)})
            for word, score in zip(words, scores, strict=True)
        ]
        lists.append(
            NbestList(str(index), hypotheses, (f"so {random.choice(words, p=honest)}",))
        )
    return lists


def test_calibration_finds_the_scale() -> None:
    lists = noisy(2000, 1)
    texts = [
        max(nbest.hypotheses, key=lambda one: one.scores["s2s"]).text for nbest in lists
    ]
    found = calibrate(lists, texts, FIRST_PASS_ALONE, Normaliser())
    assert found.scale == pytest.approx(1 / 3, rel=0.2)


def test_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    dev, test = ROOT / "data" / "dev.json", ROOT / "data" / "test.json"
    done = rescore("confidence", test, "--dev", dev, "-o", "words.jsonl")
    assert done.returncode == 0, done.stderr
    plain, calibrated = (
        line.split("NCE")[1].split() for line in done.stdout.splitlines()[1:]
    )
    assert float(calibrated[0]) > float(plain[0]) and float(calibrated[0]) > 0
    rows = [
        json.loads(line) for line in (tmp_path / "words.jsonl").read_text().splitlines()
    ]
    words = [word for row in rows for word in row["words"]]
    assert all(0 <= word["confidence"] <= 1 for word in words)
    segments = "".join(
        f"{row['id']} rec {index} {index + 1}\n" for index, row in enumerate(rows)
    )
    (tmp_path / "segments").write_text(segments, encoding="utf-8")
    assert (
        rescore(
            *("confidence", test, "-o", "words.ctm", "-o", "again.jsonl"),
            *("--segments", "segments"),
        ).returncode
        == 0
    )
    again = (tmp_path / "again.jsonl").read_text()
    assert again.count("\n") == len(rows)
    lines = [line.split() for line in (tmp_path / "words.ctm").read_text().splitlines()]
    assert len(lines) == len(words) and all(
        len(line) == 6 and line[:2] == ["rec", "1"] for line in lines
    )
    assert_one_line_error(
        rescore("confidence", test, "-o", "w.jsonl", "-o", "words.ctm"),
        "no times of words",
        "--segments FILE, or write .jsonl",
    )
    assert_one_line_error(
        rescore("confidence", test, "-o", "words.txt"),
        "its ending is none of .ctm, .srt, .vtt, .jsonl",
    )
    assert_one_line_error(
        rescore("confidence", test, "-o", "w.jsonl", "--metric", "bleu"),
        "has no word errors",
    )


def test_scored_lists_with_weights(
    rescore: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev, test = some_lists(tmp_path, "dev", 40), some_lists(tmp_path, "test", 40)
    done = rescore(
        test, "--lm", f"tta:{model}", "--dev", dev, "--save-weights", "w.json"
    )
    assert done.returncode == 0, done.stderr
    for path in (dev, test):
        rescore(
            "score", path, "--lm", f"tta:{model}", "-o", f"{path.stem}.scored.jsonl"
        )
    calibrated = ("--dev", "dev.scored.jsonl")
    stages = rescore(
        "confidence",
        "test.scored.jsonl",
        "--weights",
        "w.json",
        *calibrated,
        "-o",
        "two.jsonl",
    )
    assert "calibrated on dev" in stages.stdout
    own = rescore(
        "confidence",
        "dev.scored.jsonl",
        "--weights",
        "w.json",
        *calibrated,
        "-o",
        "own.jsonl",
    )
    assert (
        "of 40 test utterances are also in the dev lists" in own.stderr
        and "too good" in own.stderr
    )
    read, real = [], audio.read_segments
    monkeypatch.setattr(
        audio, "read_segments", lambda path: read.append(path) or real(path)
    )
    places = (
        f"{json.loads(line)['id']} rec {at} {at + 1}\n"
        for at, line in enumerate((tmp_path / "two.jsonl").open())
    )
    (tmp_path / "segments").write_text("".join(places), encoding="utf-8")
    assert (
        rescore("confidence", test, "-o", "w.ctm", "--segments", "segments").returncode
        == 0
    )
    assert read == ["segments"]  # once: it may be a pipe


@pytest.mark.parametrize("text", ["a bb c dd", "今天 很好"])
@pytest.mark.parametrize("metric", ["wer", "cer"])
def test_words_keep_the_times_of_the_lists(
    metric: str, text: str, rescore: Run, tmp_path: Path
) -> None:
    """In every form; no time is made of letters where a toolkit has measured it."""
    pieces = timed_pieces(text)
    times = [[at + 0.1 * (at % 3), at + 0.5] for at in range(len(pieces))]
    hyps = [
        {"text": text, "score": -1.0, "times": times},
        {"text": text.replace("a", "b"), "score": -1.5},
    ]
    entry = {"id": "u", "hyps": hyps, "reference": text}
    (tmp_path / "l.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    for name in ("o.jsonl", "o.ctm", "o.srt", "o.vtt"):
        done = rescore("confidence", "l.jsonl", "--metric", metric, "-o", name)
        assert done.returncode == 0, done.stderr
    rows = [line.split() for line in (tmp_path / "o.ctm").read_text().splitlines()]
    (record,) = [json.loads(line) for line in (tmp_path / "o.jsonl").open()]
    words = record["words"]
    assert [row[4] for row in rows] == [word["word"] for word in words]
    assert [row[5] for row in rows] == [f"{word['confidence']:.4f}" for word in words]
    starts = [word["start"] for word in words]
    assert starts == pytest.approx([float(row[2]) for row in rows])
    known = [start for start, _ in times]
    assert {starts[0], words[-1]["end"]} == {known[0], times[-1][1]}
    if metric == "cer" or text.isascii():
        assert set(known) <= set(starts)
    assert "00:00:00,000 --> 00:00:03,500" in (tmp_path / "o.srt").read_text()
    assert text in (tmp_path / "o.vtt").read_text()


def test_times_of_lists_count_from_the_start_of_their_segment(
    rescore: Run, tmp_path: Path
) -> None:
    hyps = [{"text": "a b", "score": -1.0, "times": [[0.5, 1.0], [1.75, 2.0]]}]
    entry = {"id": "u", "hyps": hyps}
    (tmp_path / "l.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    (tmp_path / "segments").write_text("u talk 10 13\n", encoding="utf-8")
    done = rescore("confidence", "l.jsonl", "-o", "o.ctm", "--segments", "segments")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "o.ctm").read_text().splitlines()
    assert [row[:16] for row in rows] == ["talk 1 10.50 0.5", "talk 1 11.75 0.2"]
