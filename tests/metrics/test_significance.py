"""Tests of significance against sacreBLEU's, against sc_stats, and against what they
must say of extremes.
"""

from __future__ import annotations

import re
import subprocess
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from rescore.asr import agreement
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics.folds import by_group, speakers, split, warn_of_folds
from rescore.metrics.mapsswe import matched_pairs
from rescore.metrics.mt import Bleu, Chrf
from rescore.metrics.significance import (
    SAMPLES,
    by_speakers,
    confidence_interval,
    paired_bootstrap,
    paired_interval,
    paired_randomisation,
)
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.plan import resolve
from tests.conftest import run_main
from tests.metrics.test_alignment import sclite

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def systems(seed: int, number: int = 120) -> tuple[list[str], list[str], list[str]]:
    """References, and two systems of which the first makes more errors."""
    random = np.random.default_rng(seed)

    def spoilt(words: list[str], rate: float) -> str:
        kept = []
        for word in words:
            draw = random.random()
            if draw < rate:
                kept.append(str(random.choice(WORDS)))
            elif draw < 1.3 * rate:
                kept += [word, str(random.choice(WORDS))]
            elif draw < 0.95:
                kept.append(word)
        return " ".join(kept) or "x"

    references = [
        list(map(str, random.choice(WORDS, random.integers(5, 20))))
        for _ in range(number)
    ]
    return (
        [" ".join(words) for words in references],
        [spoilt(words, 0.25) for words in references],
        [spoilt(words, 0.2) for words in references],
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "metric", [Bleu(tokenise="none"), Chrf()], ids=["BLEU", "chrF"]
)
def test_p_values_are_sacrebleus(metric: Bleu | Chrf, seed: int) -> None:
    references, first, second = systems(seed)
    theirs = {
        "BLEU": sacrebleu.metrics.BLEU(tokenize="none"),
        "chrF": sacrebleu.metrics.CHRF(),
    }[metric.name]
    rows = [
        metric.statistics(texts, [(reference,) for reference in references])
        for texts in (first, second)
    ]
    for name in ("ar", "bs"):
        scores = PairedTest(
            [("one", first), ("two", second)],
            {metric.name: theirs},
            [references],
            name,
            1000,
        )()[1]
        result = next(values for key, values in scores.items() if key != "System")[1]
        if name == "ar":
            found = paired_randomisation(metric, rows[0], rows[1], trials=1000)
            assert found == pytest.approx(result.p_value, abs=2e-3)
        else:  # the same samples
            found = paired_bootstrap(metric, rows[0], rows[1])
            assert found == pytest.approx(result.p_value, abs=2e-3)
            low, high = confidence_interval(metric, rows[1])
            assert (high - low) / 2 == pytest.approx(result.ci, abs=0.02)


def test_extremes() -> None:
    metric = ErrorRate()
    good = metric.statistics(["a b"] * 40, [("a b",)] * 40)
    bad = metric.statistics(["x y"] * 40, [("a b",)] * 40)
    assert paired_randomisation(metric, good, good) == 1
    assert paired_randomisation(metric, good, bad) < 0.01
    assert paired_bootstrap(metric, good, good) == 1
    assert paired_bootstrap(metric, good, bad) < 0.01
    assert confidence_interval(metric, bad) == (100, 100)


def test_interval_holds_the_value_and_shrinks_with_more() -> None:
    references, first, _ = systems(5, 800)
    metric = ErrorRate()
    rows = metric.statistics(first, [(reference,) for reference in references])
    few, many = (
        confidence_interval(metric, rows[:100]),
        confidence_interval(metric, rows),
    )
    assert few[0] < metric.values(rows[:100].sum(axis=0)[None])[0] < few[1]
    assert 2 < (few[1] - few[0]) / (many[1] - many[0]) < 4  # about the root of 8


def test_memory_does_not_grow_with_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 utterances took 460 MB when all samples were drawn at once; what is drawn
    is the same.
    """
    metric, random = ErrorRate(), np.random.default_rng(1)
    rows = random.integers(0, 5, (2, 20_000, 4))
    tracemalloc.start()
    found = (
        confidence_interval(metric, rows[0]),
        paired_randomisation(metric, rows[0], rows[1], trials=1000),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    monkeypatch.setattr("rescore.metrics.significance._CELLS", 1 << 26)
    assert found[0] == confidence_interval(metric, rows[0])
    assert found[1] == paired_randomisation(metric, rows[0], rows[1], trials=1000)


def test_samples_without_a_value_do_not_count() -> None:
    """Of two sentences one has no reference words: a sample of it alone has no error
    rate.
    """
    metric = ErrorRate()
    rows = metric.statistics(["the", "a b"], [("",), ("a c",)])
    assert confidence_interval(metric, rows) == (50.0, 100.0)
    assert paired_interval(metric, rows, rows) == (0.0, 0.0)
    assert confidence_interval(metric, rows[:1]) is None, (
        "a single unit says nothing of others"
    )


def test_by_speaker() -> None:
    rows = np.array([[1, 0], [2, 5], [4, 1]])
    assert by_group(list(rows), ["x", "y", "x"]).tolist() == [[5, 1], [2, 5]]
    first, second, talk, bare = (
        NbestList(name, [Hypothesis("a")])
        for name in ("2414-128-0001", "bob_1", "talk1.3", "u1")
    )
    assert speakers([first, second]) == ["2414", "bob"]
    assert speakers([talk], r"talk\d+") == ["talk1"]
    with pytest.raises(UserError, match="utterance u1: --speaker"):
        speakers([bare])
    with pytest.raises(UserError, match="not a regular expression"):
        speakers([bare], "(")
    bare.fields = {"talk1": "d"}
    assert speakers([bare, first], "talk1") == ["d", "-"]
    assert speakers([talk], "talk1") == ["talk1"]
    first.fields = {"speaker": "anna"}
    assert speakers([first, second]) == ["anna", "-"]
    assert speakers([first, second], r"^(\w+?)[-_]") == ["2414", "bob"]


def test_the_signature_names_the_field_of_the_speakers() -> None:
    """Of every command: without the field, ids say who the speaker is."""
    lists = [NbestList(f"ann-{n}", [Hypothesis("a")], ("a",)) for n in range(2)]
    assert by_speakers(lists).units == "by=speaker"
    for nbest in lists:
        nbest.fields = {"speaker": "ben"}
    assert by_speakers(lists).units == "by=speaker,speaker=speaker"


def test_speakers_of_one_utterance_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also where another field has fewer names."""
    config = RunConfig(by_speaker=True)
    told = []
    for names in (["anna", "ben"], ["anna", "anna"]):
        caplog.clear()
        every = []
        for number, name in enumerate(names):
            hypotheses = [Hypothesis("a", {"s2s": -1.0})]
            fields = {"speaker": name, "room": "hall"}
            every.append(NbestList(f"u-{number}", hypotheses, ("a",), fields=fields))
        resolve(config, Dataset(every))
        told.append([text for text in caplog.messages if "--by-speaker" in text])
    assert [len(messages) for messages in told] == [1, 0]


def test_segments_by_hand() -> None:
    # Two right words in a row part the first error from the others; one does not.
    found = matched_pairs(
        [("a b c d e f g h",)], ["x b c d y f g h"], ["a b c d e f z h"]
    )
    assert (found.segments, found.mean) == (2, 0.5)
    assert matched_pairs([("a b",)], ["a b"], ["a b"]).p_value == 1
    assert matched_pairs([("a b",)], ["a b c"], ["a b"]).segments == 1


def test_the_same_error_in_every_segment() -> None:
    """No deviation is left to compare with: p was 1 where one system lost a word in
    each of 20 sentences.
    """
    for number, p in ((1, 1.0), (2, 0.5), (20, 2.0**-19)):
        found = matched_pairs(
            [("a b c",)] * number, ["a b"] * number, ["a b c"] * number
        )
        assert (found.segments, found.mean, found.z, found.p_value) == (
            number,
            1.0,
            np.inf,
            p,
        )
    assert matched_pairs([("a b c",)] * 3, ["a b"] * 3, ["x b c"] * 3).p_value == 1


def test_mapsswe_with_several_references() -> None:
    """Each output is compared with the reference that is closest to it, as in WER."""
    references = [("a b c d", "x y z"), ("e f g h", "u v w")]
    first, second = ["x y z", "u v w"], ["x y z", "e f g h"]
    assert matched_pairs(references, first, second) == matched_pairs(
        references, second, first
    )
    assert matched_pairs(references, first, second).segments == 0
    found = matched_pairs(references, ["x y", "u v w"], ["a b c d", "u v w w"])
    assert (found.segments, found.mean) == (2, 0.0)


@pytest.mark.tools
@pytest.mark.parametrize("seed", range(4))
def test_mapsswe_is_sc_stats(seed: int, tmp_path: Path) -> None:
    program = sclite()
    references, first, second = systems(seed)
    for name, texts in (("ref", references), ("one", first), ("two", second)):
        lines = [
            f"{text} (s{index % 7}-{index:04d})\n" for index, text in enumerate(texts)
        ]
        (tmp_path / f"{name}.trn").write_text("".join(lines), encoding="utf-8")
    alignments = ""
    for name in ("one", "two"):
        command = [
            program,
            "-r",
            "ref.trn",
            "trn",
            "-h",
            f"{name}.trn",
            "trn",
            "-i",
            "rm",
            "-o",
            "sgml",
            "-n",
            name,
        ]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        alignments += (tmp_path / f"{name}.sgml").read_text(encoding="utf-8")
    command = [
        str(Path(program).with_name("sc_stats")),
        "-p",
        "-t",
        "mapsswe",
        "-v",
        "-n",
        "-",
    ]
    report = subprocess.run(
        command,
        cwd=tmp_path,
        input=alignments,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    numbers = re.search(
        r"# segs: (\d+)\).*mean: *(\S+)\) \(std dev: *(\S+)\) \(Z Stat: *(\S+)\)",
        report,
    )
    assert numbers
    found = matched_pairs([(reference,) for reference in references], first, second)
    assert found.segments == int(numbers[1])
    wanted = [float(number) for number in numbers.groups()[1:]]
    assert [found.mean, found.deviation, found.z] == pytest.approx(wanted, abs=5.1e-4)


def test_pages_tell_the_number_of_samples() -> None:
    pages = {"output.md": SAMPLES, "combine.md": agreement.SAMPLES}
    for name, number in pages.items():
        page = (Path(__file__).parents[2] / "docs" / name).read_text()
        assert f" {number:,} samples of the utterances" in " ".join(page.split())
    assert f"{SAMPLES:,} samples" in run_main("eval", "--help").stdout


def of_speakers(names: Sequence[str | None]) -> list[NbestList]:
    """Return a list for each speaker; None for a list without the field."""
    lists = []
    for number, name in enumerate(names):
        fields = {} if name is None else {"speaker": name}
        texts = [Hypothesis(f"a {number}")]
        lists.append(NbestList(f"u{number}", texts, ("a",), fields=fields))
    return lists


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("aabbcc", "3 speakers for 4 folds"),
        ("aabbccdd", ""),
        ("aaaaaa", ""),
        ("abcdef", ""),
        ([None] * 6, ""),
        (["a", "b", "c", "d", None, None], "2 of 6 lists have no field speaker"),
        (["a", "b", "c", "d", "a", None], ""),
        (["a", "b", "b", "b", None, None], "3 speakers for 4 folds"),
    ],
)
def test_folds_say_who_is_not_kept_together(
    names: Sequence[str | None], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    lists = of_speakers(names)
    warn_of_folds(lists, split(lists, 4))
    assert said in caplog.text and bool(said) == bool(caplog.text)


def test_named_speakers_must_be_as_many_as_folds() -> None:
    with pytest.raises(UserError, match="only 3 speakers; give fewer folds"):
        split(of_speakers("aabbcc"), 4, "speaker")


@pytest.mark.parametrize("by", [None, "speaker"])
def test_tests_by_speaker_tell_of_lists_without_one(
    by: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    by_speakers(of_speakers([*"aabb", None, None]), by)
    said = "2 of 6 lists have no field speaker (first: utterance u4)"
    assert said in caplog.text
    caplog.clear()
    by_speakers(of_speakers("aabb"), by)
    for nbest in (lists := of_speakers([None] * 4)):
        nbest.id = nbest.id.replace("u", "ann-")
    by_speakers(lists, by)
    assert not caplog.text


def test_speakers_that_are_not_found_name_the_fields() -> None:
    (nbest,) = of_speakers([None])
    nbest.fields = {"talker": "1", "room": "b"}
    nbest.hypotheses[0].scores["qe"] = 1.0
    for by in (None, "speaker", "spoken"):
        with pytest.raises(UserError, match=r"or a field .found: room, talker."):
            speakers([nbest], by)
    with pytest.raises(UserError, match="--speaker qe: qe was read as a column of"):
        speakers([nbest], "qe")
