"""Times of letters and phones, and the frames that belong to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.formats.times import Span
from rescore.nbest import Audio
from rescore.research.a3t.alignment import (
    CtcAligner,
    Ctm,
    ImpossibleError,
    equal_parts,
    load_aligner,
    owners,
    read_lexicon,
    unit_spans,
    units_of,
    widened,
)
from rescore.research.a3t.ctc import Heard
from tests.research.a3t.conftest import speak


def test_frames_belong_to_the_nearest_letter() -> None:
    """Up to 50 ms; others are silence."""
    places = owners([Span(0.1, 0.2), Span(0.4, 0.5)], 60, 0.0125).tolist()
    assert places[0] == 0 and places[6] == places[8] == places[16] == 1
    assert places[19] == 1  # 37.5 ms behind it
    assert places[25] == 0 and places[32] == places[40] == 2 and places[59] == 0
    assert owners([], 3, 0.1).tolist() == [0, 0, 0]


def test_spans_meet_half_way() -> None:
    """Edges move by a quarter of a second at most."""
    spans = [Span(1.0, 1.1), Span(1.3, 1.4), Span(3.0, 3.1)]
    expected = [(0.75, 1.2), (1.2, 1.65), (2.75, 3.35)]
    assert np.array(widened(spans)) == pytest.approx(np.array(expected))
    assert widened([Span(0.1, 0.2)])[0].start == 0
    assert widened([]) == []


def test_phones_of_a_lexicon(tmp_path: Path) -> None:
    """The phones of a word share its time; a word that is not in the lexicon is a phone
    of its own.
    """
    path = tmp_path / "lexicon"
    path.write_text("Ab AE B\nab EY B\nc\tS IY K\n")
    lexicon = read_lexicon(path)
    assert units_of("AB  c x", lexicon) == ["AE", "B", "S", "IY", "K", "x"]
    assert units_of("Ab c", {}) == ["a", "b", "c"]
    spans = [Span(0.0, 0.1), Span(0.2, 0.4), Span(0.4, 0.7), Span(1.0, 1.5)]
    expected = [(0, 0.2), (0.2, 0.4), (0.4, 0.5), (0.5, 0.6), (0.6, 0.7), (1.0, 1.5)]
    placed = unit_spans(spans, "ab c x", lexicon)
    assert np.array(placed) == pytest.approx(np.array(expected))
    assert unit_spans(spans, "ab c x", {}) == spans
    path.write_text("ab\n")
    with pytest.raises(UserError, match=r"line 1: expected `word phone phone ...`"):
        read_lexicon(path)


def test_times_of_a_ctm(tmp_path: Path) -> None:
    """The letters of a word are equally long; lines may be in any order."""
    path = tmp_path / "words.ctm"
    path.write_text(";; comment\nu 1 0.6 0.2 C 0.9\nu 1 0.0 0.5 ab\nv 1 0 1 d\n")
    aligner = load_aligner(str(path))
    assert isinstance(aligner, Ctm)
    spans = aligner.spans(Audio("", name="u"), "ab c")
    expected = [(0, 0.25), (0.25, 0.5), (0.6, 0.8)]
    assert np.array(spans) == pytest.approx(np.array(expected))
    assert equal_parts(Span(1.0, 2.0), 2) == [Span(1.0, 1.5), Span(1.5, 2.0)]
    with pytest.raises(UserError, match="utterance v is 'd' there, but 'e' in the"):
        aligner.spans(Audio("", name="v"), "e")
    with pytest.raises(UserError, match="utterance w is '' there, but 'e' in the"):
        aligner.spans(Audio("", name="w"), "e")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("u 1 0.0", r"line 1: expected `utterance channel start duration word`"),
        ("u 1 0.0 x a", r"line 1: time is 'x', not a number of seconds"),
        ("u 1 -1 0.5 a", r"line 1: from -1 s to -0.5 s; give a start of 0 or more"),
    ],
)
def test_damaged_ctm(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.ctm").write_text(line + "\n")
    with pytest.raises(UserError, match=message):
        load_aligner(str(tmp_path / "bad.ctm"))


def test_a_recogniser_places_letters(ctc: Path, tmp_path: Path) -> None:
    """Near their true times, from one look at the recording."""
    path = tmp_path / "x.wav"
    true = speak("abc bca", path, seed=98)
    audio = Audio(str(path), name="x")
    aligner = load_aligner(f"ctc:{ctc}")
    assert isinstance(aligner, CtcAligner)
    looks = []
    hear = aligner.recogniser.hear

    def counted(audio: Audio) -> Heard:
        looks.append(audio)
        return hear(audio)

    aligner.recogniser.hear = counted  # type: ignore[method-assign]
    spans = aligner.spans(audio, "abc bca")
    middles = np.array([sum(span) / 2 for span in spans])
    expected = np.array([sum(span) / 2 for span in true])
    assert middles == pytest.approx(expected, abs=0.1)
    assert len(aligner.spans(audio, "ab")) == 2
    assert aligner.spans(audio, "") == []
    with pytest.raises(
        ImpossibleError, match=r"utterance x: .*x.wav: too short for 'aba"
    ):
        aligner.spans(audio, "ab" * 50)
    assert len(looks) == 1
    speak("c", path, seed=97)  # the file has changed
    assert len(aligner.spans(audio, "c")) == 1 and len(looks) == 2


def test_tokens_of_several_letters_cannot_be_placed(ctc: Path, tmp_path: Path) -> None:
    speak("ab", tmp_path / "x.wav")
    aligner = CtcAligner(ctc)
    aligner.recogniser.names = lambda labels: [" "] * len(labels)  # type: ignore[method-assign]
    with pytest.raises(UserError, match="its tokens are no single letters"):
        aligner.spans(Audio(str(tmp_path / "x.wav"), name="x"), "ab")
