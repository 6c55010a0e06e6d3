"""Whole recordings of several recognisers: cut into pieces without loss, voted on,
measured.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rescore.asr.combine import LONGEST, combine
from rescore.asr.measured import measured_recordings
from rescore.asr.mixture import Mixture
from rescore.asr.whole import Recording
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError
from rescore.formats.times import timed_pieces
from rescore.metrics.base import text_value
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import NbestList
from rescore.tuning import TuningOptions, tune_weights
from tests.asr.test_whole import read_recordings
from tests.conftest import Run
from tests.metrics.test_alignment import sclite_counts

VOTED = Choice({FIRST_PASS: 1.0}, decision=Decision("rover", 1.0))
PLAIN, WHISPER, MIXED = (
    Normaliser(),
    Normaliser(whisper_english=True),
    Normaliser(split_mixed=True),
)


def recording(text: str, step: float | None = None, start: float = 0.0) -> Recording:
    """A recording whose words follow each other, `step` seconds each; without times for
    None.
    """
    words = text.split()
    times = (
        [
            (start + step * place, start + step * (place + 1))
            for place in range(len(words))
        ]
        if step
        else []
    )
    return Recording(words, times)


def joined(lists: Sequence[NbestList], system: str) -> list[str]:
    return " ".join(
        hypothesis.text
        for nbest in lists
        for hypothesis in nbest.hypotheses
        if system in hypothesis.scores
    ).split()


def noisy(words: Sequence[str], rate: float, seed: int) -> str:
    """The words with substitutions, deletions and insertions."""
    chance = random.Random(seed)
    heard = []
    for word in words:
        draw = chance.random()
        if draw > rate:
            heard.append(word)
        elif draw > rate / 2:
            heard.append(f"w{chance.randrange(300)}")
        elif draw > rate / 4:
            heard += [word, f"w{chance.randrange(300)}"]
    return " ".join(heard)


def spoken(number: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [f"w{chance.randrange(300)}" for _ in range(number)]


WORDS = st.sampled_from(
    ["a", "b", "c", "let's", "twenty", "one", "uh", "Mr.", "-", "d", "我们ok走", "走"]
)
TEXTS = st.lists(st.lists(WORDS, max_size=60), min_size=2, max_size=4)


@settings(deadline=None, max_examples=150)
@given(
    TEXTS,
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from([PLAIN, WHISPER, MIXED]),
)
def test_nothing_is_lost_or_doubled(
    texts: list[list[str]], timed: list[bool], normaliser: Normaliser
) -> None:
    """The words and times of each system, joined over the pieces, are its input; a cut
    may part a word without blanks only where the normaliser does.
    """
    systems = {
        f"s{rank}": {"r": recording(" ".join(text), 0.5 if timed[rank] else None)}
        for rank, text in enumerate(texts)
    }
    reference = recording(" ".join(texts[0]))
    lists = list(combine(systems, normaliser, {"r": reference}))
    for name, recordings in systems.items():
        words, times = joined(lists, name), recordings["r"].times
        assert "".join(words) == "".join(recordings["r"].words)
        if normaliser is not MIXED:
            assert words == recordings["r"].words
        own = [
            hypothesis
            for nbest in lists
            for hypothesis in nbest.hypotheses
            if name in hypothesis.scores
        ]
        if True in timed[: len(texts)] and name != f"s{timed.index(True)}":
            # a text of several systems has the times of the first system with times
            continue
        spans = [span for hypothesis in own for span in hypothesis.times]
        assert (
            [spans[0][0], spans[-1][1]] == pytest.approx([times[0][0], times[-1][1]])
            if times
            else not spans
        )
        assert all(
            first[1] == pytest.approx(second[0]) for first, second in pairwise(spans)
        )
        assert len(spans) == (
            sum(len(timed_pieces(hypothesis.text)) for hypothesis in own)
            if times
            else 0
        )
    assert "".join("".join(nbest.references[0].split()) for nbest in lists) == "".join(
        reference.words
    )
    assert len({nbest.id for nbest in lists}) == len(lists)


def test_pieces_are_short_and_cut_where_systems_agree() -> None:
    words = spoken(2000)
    systems = {
        f"s{seed}": {"r": recording(noisy(words, 0.2, seed))} for seed in range(4)
    }
    lists = list(combine(systems, PLAIN))
    assert len(lists) > 100
    assert (
        max(
            len(hypothesis.text.split())
            for nbest in lists
            for hypothesis in nbest.hypotheses
        )
        <= 3 * LONGEST
    )
    texts = VOTED.texts(ErrorRate(), Dataset.of(lists))
    voted = ErrorRate().statistics([" ".join(texts)], [[" ".join(words)]])[0, :3].sum()
    single = [
        ErrorRate().statistics([recordings["r"].text], [[" ".join(words)]])[0, :3].sum()
        for recordings in systems.values()
    ]
    assert voted < 0.4 * min(single)


def test_cuts_follow_times_where_texts_say_nothing() -> None:
    """A system in another language gets words at the same time as the others, and no
    piece with all its words.
    """
    words = spoken(400)
    systems = {
        f"s{seed}": {"r": recording(noisy(words, 0.05, seed), 0.5)} for seed in range(3)
    }
    systems["other"] = {"r": recording(" ".join(f"x{word}" for word in words), 0.5)}
    lists = list(combine(systems, PLAIN))
    for nbest in lists[1:-1]:
        first, other = nbest.hypotheses[0], nbest.hypotheses[-1]
        if first.times and other.times:
            assert abs(first.times[0][0] - other.times[0][0]) < 25
    assert max(len(nbest.hypotheses[-1].text.split()) for nbest in lists) < 3 * LONGEST
    assert joined(lists, "other") == systems["other"]["r"].words


@pytest.mark.parametrize("ending", ["ctm", "stm", "srt", "vtt", "txt", "json", "jsonl"])
def test_no_format_loses_words_at_a_cut(ending: str, tmp_path: Path) -> None:
    words = noisy(spoken(300), 0.1, 1).split()
    lines = [words[start : start + 9] for start in range(0, len(words), 9)]
    clock = [
        (
            f"00:{9 * at // 60:02}:{9 * at % 60:02}",
            f"00:{(9 * at + 8) // 60:02}:{(9 * at + 8) % 60:02}",
        )
        for at in range(len(lines))
    ]
    entries = [
        {
            "text": " ".join(line),
            "words": [
                {"start": 9 * at + place, "end": 9 * at + place + 1}
                for place in range(len(line))
            ],
        }
        for at, line in enumerate(lines)
    ]
    texts = {
        "ctm": [f"r A {at}.00 1.00 {word}" for at, word in enumerate(words)],
        "stm": [
            f"r 1 s {9 * at}.00 {9 * at + 8}.00 {' '.join(line)}"
            for at, line in enumerate(lines)
        ],
        "srt": [
            f"{at}\n{clock[at][0]},000 --> {clock[at][1]},000\n{' '.join(line)}\n"
            for at, line in enumerate(lines)
        ],
        "vtt": [
            "WEBVTT\n",
            *(
                f"{clock[at][0]}.000 --> {clock[at][1]}.000\n{' '.join(line)}\n"
                for at, line in enumerate(lines)
            ),
        ],
        "txt": [" ".join(line) for line in lines],
        "json": [json.dumps({"segments": entries})],
        "jsonl": [
            json.dumps(
                {
                    "id": f"r-{at}",
                    "recording": "r",
                    "hyps": [{"text": " ".join(line), "score": 0.0}],
                }
            )
            for at, line in enumerate(lines)
        ],
    }
    (tmp_path / f"r.{ending}").write_text(
        "\n".join(texts[ending]) + "\n", encoding="utf-8"
    )
    systems = {
        "a": read_recordings(tmp_path),
        "b": {"r": recording(noisy(words, 0.1, 2), 1.0)},
    }
    lists = list(combine(systems, PLAIN))
    assert len(lists) > 10
    assert joined(lists, "a") == words
    assert joined(lists, "b") == systems["b"]["r"].words


@pytest.mark.parametrize("step", [0.5, None])
def test_text_without_blanks_is_cut(step: float | None) -> None:
    """Lines of Chinese are cut between characters, and the voted text has no blank
    within a line.
    """
    chance = random.Random(1)
    lines = [
        "".join(chr(0x4E00 + chance.randrange(900)) for _ in range(30))
        for _ in range(40)
    ]

    def heard(seed: int) -> str:
        chance = random.Random(seed)
        return " ".join(
            "".join("误" if chance.random() < 0.1 else letter for letter in line)
            for line in lines
        )

    systems = {
        f"s{seed}": {"r": recording(heard(seed), step and 30 * step)}
        for seed in range(3)
    }
    lists = list(combine(systems, MIXED))
    assert (
        max(len(hypothesis.text) for nbest in lists for hypothesis in nbest.hypotheses)
        <= 3 * LONGEST
    )
    texts = VOTED.texts(ErrorRate(normaliser=MIXED), Dataset.of(lists))
    errors = Levenshtein.distance("".join("".join(texts).split()), "".join(lines))
    assert errors < 0.06 * 1200
    assert "".join(texts).count(" ") <= len(lines)


def test_a_word_of_several_is_not_cut() -> None:
    """Words that the normaliser joins stay together: `twenty one` is 21."""
    text = (
        "we had twenty one calls and let's say twenty two more of them in all of this"
        " year again"
    )
    systems = {name: {"r": recording(text)} for name in "abc"}
    for nbest in combine(systems, WHISPER):
        assert not nbest.hypotheses[0].text.endswith(("twenty",))
    texts = VOTED.texts(
        ErrorRate(normaliser=WHISPER), Dataset.of(list(combine(systems, WHISPER)))
    )
    assert " ".join(texts) == text


def test_a_system_lacks_a_recording(caplog: pytest.LogCaptureFixture) -> None:
    text = " ".join(spoken(50))
    systems = {
        "a": {"r": recording(text), "q": recording(text)},
        "b": {"r": recording(text)},
    }
    lists = list(combine(systems, PLAIN))
    assert "recording q: b has no output" in caplog.text
    assert {
        systems
        for nbest in lists
        for systems in [tuple(nbest.hypotheses[0].scores)]
        if nbest.recording == "q"
    } == {("s2s", "a")}
    assert {
        tuple(nbest.hypotheses[0].scores) for nbest in lists if nbest.recording == "r"
    } == {("s2s", "a", "b")}


def test_an_empty_recording() -> None:
    lists = list(combine({"a": {"r": recording("")}, "b": {"r": recording("")}}, PLAIN))
    assert [hypothesis.text for hypothesis in lists[0].hypotheses] == [""]
    one = list(
        combine(
            {
                "a": {"r": recording("")},
                "b": {"r": recording("x y")},
                "c": {"r": recording("")},
            },
            PLAIN,
        )
    )
    assert joined(one, "b") == ["x", "y"]


def test_names_of_systems_are_no_reserved_columns() -> None:
    lists = list(
        combine({"words": {"r": recording("a")}, "s2s": {"r": recording("a")}}, PLAIN)
    )
    assert {"words.2", "s2s.2"} <= lists[0].hypotheses[0].scores.keys()


def test_a_bad_system_does_no_harm() -> None:
    """Tuned votes of three good systems and two bad ones, which agree, are about as
    good as those of the good ones.
    """

    def lists_of(part: int, names: str) -> list[NbestList]:
        words = spoken(1500, part)
        noise = {name: (0.15, 10 * part + number) for number, name in enumerate("abc")}
        noise |= dict.fromkeys("de", (0.8, 10 * part + 9))
        systems = {name: {"r": recording(noisy(words, *noise[name]))} for name in names}
        return list(combine(systems, PLAIN, {"r": recording(" ".join(words))}))

    metric, options = ErrorRate(), TuningOptions(decision=Decision("rover"))
    values = {}
    for names in ("abc", "abcde"):
        weights = tune_weights(metric, Dataset.of(lists_of(1, names)), [], options)
        test = lists_of(2, names)
        values[names] = text_value(
            metric, test, weights.texts(metric, Dataset.of(test))
        )
    equal = text_value(metric, test, VOTED.texts(metric, Dataset.of(test)))
    assert values["abcde"] < min(equal - 1, values["abc"] + 1)
    assert weights.mixture
    votes = weights.mixture.votes
    assert max(votes["d"], votes["e"]) < min(votes[name] for name in "abc")


def test_the_factor_of_no_word_is_an_option_of_the_decision() -> None:
    systems = {
        "a": {"r": recording("x y z")},
        "b": {"r": recording("x z")},
        "c": {"r": recording("x z")},
    }
    lists = list(combine(systems, PLAIN))
    votes = Choice({FIRST_PASS: 1.0}, mixture=Mixture(dict.fromkeys("abc", 1.0)))
    for options, text in (({}, "x z"), ({"no_word": 0.3}, "x y z")):
        choice = replace(votes, decision=Decision("rover", 1.0, options))
        assert choice.texts(None, Dataset.of(lists)) == [text]


def test_the_ctm_of_a_vote_is_sorted_and_tuning_names_what_it_compares(
    rescore: Run, tmp_path: Path
) -> None:
    """The clocks of the systems differ, and the times of a system run backwards; sclite
    wants starts in order.
    """
    words = spoken(400)
    (tmp_path / "talk.txt").write_text(" ".join(words), encoding="utf-8")
    for name, late, seed in (("a", 0.0, 1), ("b", 1.7, 2), ("c", -1.5, 3)):
        heard = noisy(words, 0.3, seed).split()
        starts = [
            5 + late + 0.4 * place - 3 * (name == "c" and place % 50 == 0)
            for place in range(len(heard))
        ]
        rows = [
            f"talk 1 {start:.2f} 0.60 {word}\n"
            for start, word in zip(starts, heard, strict=True)
        ]
        (tmp_path / f"{name}.ctm").write_text("".join(rows), encoding="utf-8")
    done = rescore(
        "combine", "a.ctm", "b.ctm", "c.ctm", "--ref", "talk.txt", "-o", "l.jsonl"
    )
    assert done.returncode == 0, done.stderr
    how = done.stderr.rpartition("to measure each system and the vote: rescore ")[
        2
    ].split()
    table = rescore(*how)
    assert (
        table.returncode == 0
        and "\ntuned votes " in table.stderr
        and "\ntuned votes, ROVER " in table.stdout
    )
    assert (
        rescore(
            "rerank", "l.jsonl", "--decide", "rover", "--scale", "1", "--best", "x.ctm"
        ).returncode
        == 0
    )
    assert (
        rescore(
            "rerank", "l.jsonl", "--decide", "rover", "--scale", "1", "--best", "x"
        ).returncode
        == 0
    )
    rows = [line.split() for line in (tmp_path / "x.ctm").read_text().splitlines()]
    starts = [float(row[2]) for row in rows]
    assert (
        starts == sorted(starts)
        and len(starts) > 300
        and {row[0] for row in rows} == {"talk"}
    )
    texts = [line.split()[1:] for line in (tmp_path / "x").read_text().splitlines()]
    assert [row[4] for row in rows] == [word for text in texts for word in text]
    done = rescore("tune", "l.jsonl", "--decide", "rover", "-o", "w.json")
    assert re.search(r"\nequal votes +\d+\.\d\d", done.stderr), done.stderr
    assert re.search(r"votes: .*\nWER \d+\.\d\d -> \d+\.\d\d", done.stderr), done.stderr


CTM = "r A 0.0 0.5 hello 0.9\nr A 0.5 0.5 world 0.8\n"
FILES = {
    "r.ctm": CTM,
    "r.stm": "r 1 s 0.00 1.00 hello world\n",
    "r.srt": "1\n00:00:00,000 --> 00:00:01,000\n<i>hello</i> world\n\n",
    "r.vtt": "WEBVTT\n\n00:00.000 --> 00:01.000\nhello world\n",
    "r.txt": "hello\nworld\n",
    "r.json": json.dumps(
        {
            "segments": [
                {
                    "text": " hello world",
                    "words": [
                        {"word": " hello", "start": 0, "end": 0.5},
                        {"word": " world", "start": 0.5, "end": 1},
                    ],
                }
            ]
        }
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_recordings(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    read = read_recordings(path)
    assert read["r"].words == ["hello", "world"]
    assert read["r"].times == (
        []
        if name == "r.txt"
        else [(0.0, pytest.approx(0.5)), (pytest.approx(0.5), 1.0)]
    )
    assert read_recordings(tmp_path).keys() == {"r"}


def test_phrases_of_a_service_are_joined(tmp_path: Path) -> None:
    results = {
        "results": [
            {"alternatives": [{"transcript": text, "confidence": 0.9}]}
            for text in ("a b", "c")
        ]
    }
    (tmp_path / "talk.json").write_text(json.dumps(results), encoding="utf-8")
    assert read_recordings(tmp_path)["talk"].words == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"r.ctm": CTM, "r.txt": "hello"}, "r.txt: recording r is in another file"),
        ({"r.ctm": "r A 0.0 hello\n"}, "line 1: not CTM"),
        ({"r.ctm": "r A 0.0 -1 hello\n"}, "line 1: from 0 s to -1 s"),
        ({"r.ctm": "r A x 1 hello\n"}, "line 1"),
        ({"r.srt": "hello\n"}, "no subtitle in it"),
        ({}, "no recording in it"),
    ],
)
def test_bad_files(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_recordings(tmp_path)


def test_times_that_run_backwards_or_overlap(tmp_path: Path) -> None:
    """The words are sorted by time, and none is lost."""
    words = spoken(200)
    rows = [
        f"r 1 {(7 * place) % 50:.2f} 3.00 {word}\n" for place, word in enumerate(words)
    ]
    (tmp_path / "r.ctm").write_text("".join(rows), encoding="utf-8")
    systems = {
        "a": read_recordings(tmp_path),
        "b": {"r": recording(" ".join(words), 0.5)},
    }
    lists = list(combine(systems, PLAIN))
    order = sorted(range(200), key=lambda place: (7 * place) % 50)
    assert joined(lists, "a") == [words[place] for place in order]
    assert joined(lists, "b") == words


def test_no_cut_is_within_a_word_that_is_compared_letter_by_letter() -> None:
    """A cut is a blank when the pieces are joined."""
    words = ["hoots", "at", "night", "in", "the", "old", "barn"] * 20
    systems = {name: {"r": recording(" ".join(words))} for name in "ab"}
    lists = list(combine(systems, Normaliser(split_characters=True)))
    assert len(lists) > 10 and joined(lists, "a") == words


@pytest.mark.parametrize("same", [PLAIN, MIXED, Normaliser(split_characters=True)])
@pytest.mark.parametrize("text", ["今天天气很好", "今天 o 很<|zh|>好", "a你b好c 你"])
def test_letters_keep_the_times_of_the_words_of_json(
    text: str, same: Normaliser, tmp_path: Path
) -> None:
    """No time is spread over a segment if words have times, whatever is compared."""
    spans = []
    words = []
    for at, piece in enumerate(timed_pieces(text)):
        start = at + 0.1 * (at % 3)
        spans.append((start, start + 0.3))
        words.append({"word": piece, "start": start, "end": start + 0.3})
    for name in "ab":
        (tmp_path / name).mkdir()
        file = tmp_path / name / "r.json"
        file.write_text(json.dumps({"segments": [{"text": text, "words": words}]}))
    systems = {name: read_recordings(tmp_path / name) for name in "ab"}
    times: list[tuple[float, float]] = []
    pieces: list[str] = []
    for nbest in combine(systems, same):
        times += nbest.hypotheses[0].times
        pieces += timed_pieces(nbest.hypotheses[0].text)
    if "<" in text:
        del spans[-2]  # a tag, which is dropped
    assert times == [pytest.approx(span) for span in spans]
    assert len(pieces) == len(times)


def test_durations_that_rounding_made_negative(tmp_path: Path) -> None:
    """As in NIST's own test data."""
    path = tmp_path / "r.ctm"
    path.write_text(
        "r A 101.05 0.20 in\nr A 101.23 -0.01 and\nr A 101.22 0.07 they\n",
        encoding="utf-8",
    )
    assert read_recordings(path)["r"].times[1] == (101.23, 101.23)
    path.write_text("r A 101.23 -0.1 and\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"line 1: from 101.23 s to 101.13 s"):
        read_recordings(path)


def test_channels_are_recordings(tmp_path: Path) -> None:
    (tmp_path / "x.ctm").write_text("r A 0 1 hello\nr B 0 1 world\n", encoding="utf-8")
    assert {name: one.text for name, one in read_recordings(tmp_path).items()} == {
        "r-A": "hello",
        "r-B": "world",
    }


def test_whole_recordings_are_measured_as_one_utterance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The errors are those of the texts of the whole recordings, whatever their
    segmentation.
    """
    (tmp_path / "out").write_text("r-00001 a b x\nr-00002 d e\n", encoding="utf-8")
    (tmp_path / "ref").mkdir()
    (tmp_path / "ref" / "r.txt").write_text("a b\nc d\nf", encoding="utf-8")
    (tmp_path / "ref" / "q.txt").write_text("z", encoding="utf-8")
    (lists,) = measured_recordings([str(tmp_path / "out")], str(tmp_path / "ref"))
    assert "no output for recording q" in caplog.text
    texts = {
        nbest.id: (nbest.hypotheses[0].text, nbest.references[0]) for nbest in lists
    }
    assert texts == {"r": ("a b x \nd e", "a b \nc d \nf"), "q": ("", "z")}
    (tmp_path / "other").write_text("p-00001 a\np-00002 b\n", encoding="utf-8")
    with pytest.raises(UserError, match="no reference for recording p"):
        measured_recordings([str(tmp_path / "other")], str(tmp_path / "ref"))


@pytest.mark.tools
def test_whole_recordings_are_counted_as_sclite_counts(tmp_path: Path) -> None:
    """CTM against references in lines; for sclite each recording is one utterance."""
    references, outputs = tmp_path / "ref", tmp_path / "out"
    references.mkdir()
    outputs.mkdir()
    texts: list[tuple[str, str]] = []
    for number in range(40):
        words = spoken(60, number)
        heard = noisy(words, 0.3, number).split()
        lines = [
            " ".join(words[start : start + 7]) for start in range(0, len(words), 7)
        ]
        (references / f"r{number}.txt").write_text("\n".join(lines), encoding="utf-8")
        rows = [
            f"r{number} 1 {place / 2:.2f} 0.50 {word}\n"
            for place, word in enumerate(heard)
        ]
        (outputs / f"r{number}.ctm").write_text("".join(rows), encoding="utf-8")
        texts.append((" ".join(words), " ".join(heard)))
    (lists,) = measured_recordings([str(outputs)], str(references))
    counted = ErrorRate().statistics(
        [nbest.hypotheses[0].text for nbest in lists],
        [nbest.references for nbest in lists],
    )
    by_name = {
        nbest.id: row for nbest, row in zip(lists, counted[:, :3].tolist(), strict=True)
    }
    expected = sclite_counts(
        tmp_path, [reference for reference, _ in texts], [heard for _, heard in texts]
    )
    assert [by_name[f"r{number}"] for number in range(40)] == expected


def test_the_pieces_of_a_reference_follow_its_words() -> None:
    """The words of a segment share its time, so a pause moves their times by seconds;
    the pieces do not depend on these times.
    """
    chance = random.Random(5)
    words = [chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(120)]
    starts = [float(place) for place in range(60)]
    starts += [place + 8.0 for place in range(60, 120)]
    spoken = [(start, start + 0.5) for start in starts]
    shared = [(128 / 120 * place, 128 / 120 * (place + 1)) for place in range(120)]
    systems = {name: {"r": Recording(words, list(spoken))} for name in ("a", "b", "c")}
    lists = list(combine(systems, EXACT, {"r": Recording(words, shared)}))
    assert len(lists) > 10
    for nbest in lists:
        assert nbest.references == (nbest.hypotheses[0].text,)
