"""Law: what goes into the alignment file of another scorer comes out, and the WER of
`rescore eval` has the counts of the file.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats.source import Source, sniff
from rescore.nbest import NbestList
from tests.conftest import run_main
from tests.formats.scorers import MADE, WRITERS, Utterances, aligned, counted

NO_WORDS = {
    "sclite": {"*"},
    "icefall-errs": {"*"},
}
"""Words that a form cannot hold: they look like its gaps."""


def held(form: str) -> Utterances:
    """The utterances that a form can hold."""
    bad = NO_WORDS.get(form, set())
    return {
        name: texts
        for name, texts in MADE.items()
        if bad.isdisjoint(" ".join(texts).split())
    }


def written(folder: Path, form: str, name: str = "scored.txt") -> Path:
    path = folder / name
    path.write_text(WRITERS[form](held(form).items()), encoding="utf-8")
    return path


def found(path: Path) -> Utterances:
    return {one.id: (one.references[0], texts(one)[0]) for one in formats.read([path])}


def texts(nbest: NbestList) -> list[str]:
    return [hypothesis.text for hypothesis in nbest.hypotheses]


@pytest.mark.parametrize("form", WRITERS)
def test_what_goes_in_comes_out(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, form)
    assert sniff(Source(path)) == form
    read = found(path)
    expected = held(form)
    if form == "sclite":  # which writes errors in capitals
        assert "their own case is not known" in caplog.text
    assert read == expected
    assert "number of words" not in caplog.text


@pytest.fixture(autouse=True)
def messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rescore")


@pytest.mark.parametrize("form", WRITERS)
def test_eval_has_the_counts_of_the_file(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form)
    report = tmp_path / "r.json"
    done = run_main("eval", str(path), "--case-sensitive", "--report", str(report))
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[1].split()
    measured = dict(zip(("S", "D", "I", "words"), map(int, row[-5:-1]), strict=True))
    expected = {"S": 0, "D": 0, "I": 0, "words": 0}
    for pair in held(form).values():
        of = counted(aligned(pair))
        for kind in "SDI":
            expected[kind] += of[kind]
        expected["words"] += len(pair[0].split())
    assert measured == expected


@pytest.mark.parametrize("form", WRITERS)
def test_files_of_several_systems(form: str, tmp_path: Path) -> None:
    """`eval` compares them, `combine` lets them vote."""
    for name in "abc":
        own = {}
        for utterance, (reference, hypothesis) in held(form).items():
            own[utterance] = (reference, hypothesis.replace(" ", f" {name} ", 1))
        content = WRITERS[form](own.items())
        (tmp_path / f"{name}.wer").write_text(content, encoding="utf-8")
    paths = [str(tmp_path / f"{name}.wer") for name in "abc"]
    done = run_main("eval", *paths)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(".wer") == 3
    done = run_main("combine", *paths, "-o", str(tmp_path / "voted.jsonl"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "voted.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(held(form))
    assert "ref" in json.loads(lines[0])


@pytest.mark.parametrize("form", WRITERS)
def test_other_words_than_counts(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A word with a blank: the counts of the file tell it."""
    if form == "icefall-errs":
        return  # has no counts of an utterance
    path = written(tmp_path, form)
    text = path.read_text(encoding="utf-8")
    if form == "speechbrain-wer":
        text = text.replace("/ 3, 0 ins", "/ 4, 0 ins")
    else:
        text = text.replace("nobody", "no body").replace("NOBODY", "NO BODY")
        text = text.replace("'***'  '***'  '***'", "'***'  '***'  '***'  '***'")
        text = text.replace("D      D      D ", "D  D      D      D ")
    path.write_text(text, encoding="utf-8")
    try:
        list(formats.read([path]))
    except UserError as error:
        assert form == "kaldi-per-utt" and "as many words" in str(error)
        return
    assert "number of words than" in caplog.text


def test_each_form_says_what_is_wrong(tmp_path: Path) -> None:
    pairs = {
        "\n     SYSTEM SUMMARY PERCENTAGES by SPEAKER\n\n| Sum |\n": (
            "no alignment of an utterance in it; write them with sclite -o pra"
        ),
        "utt: a\nWER: 1 % N=1 C=0 S=0 D=1 I=0\nlab: word\nrec: ____\n": (
            "line 1: words are padded with `_`; score again with --padding-symbol=space"
        ),
        "a ref  b c\na hyp  b\na op   C D\na #csid 1 0 0 1\n": (
            "line 1: expected lines `utt ref`, `utt hyp` and `utt op` with as many"
            " words"
        ),
        "a ref  b\na hyp  b\na op   C\na #csid 1 0 0\n": (
            "line 1: expected four counts behind #csid"
        ),
        "Format:\n<utterance-id>, WER DETAILS\n"
        "a, %WER 0.00 [ 0 / 1, 0 ins, 0 del, 0 sub ]\nb ; c\n = \nb\n": (
            "line 3: expected three lines of as many cells, parted by ` ; `"
        ),
    }
    for text, message in pairs.items():
        path = tmp_path / "scored"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError) as error:
            list(formats.read([path]))
        assert str(error.value) == f"{path}: {message}"


def test_other_layouts(tmp_path: Path) -> None:
    """icefall without ids, WeNet with --v=2, sclite with the report of all speakers,
    and a Kaldi file without counts.
    """
    pairs = {
        "PER-UTT DETAILS: corr or (ref->hyp)\nA (B->C)\n(*->D)\n\nSUBSTITUTIONS:"
        " count\n": {"1": ("A B", "A C"), "2": ("", "D")},
        "utt: a\nWER: 0 % N=1 C=1 S=0 D=0 I=0\nlab(b'a'): b \nrec(b'a'): b \n\n": {
            "a": ("b", "b")
        },
        " SYSTEM SUMMARY PERCENTAGES by SPEAKER\n| a | 1 |\n\n\t\tDUMP OF SYSTEM"
        " ALIGNMENT STRUCTURE\n\nid: (s-u)\nScores: (#C #S #D #I) 1 0 0 0\nREF:  b"
        " \nHYP:  b \nEval:   \n": {"s-u": ("b", "b")},
        "a ref  b\na hyp  c\na op   S\n": {"a": ("b", "c")},
        "\tDUMP OF SYSTEM ALIGNMENT STRUCTURE\nid: (u)\nScores: (#C #S #D #I) 1 1 0"
        " 0\nAttributes: Case_sensitve \nREF:  B A \nHYP:  B a \nEval: S  \n": {
            "u": ("B A", "B a")
        },
    }
    for text, expected in pairs.items():
        path = tmp_path / "scored"
        path.write_text(text, encoding="utf-8")
        assert found(path) == expected


def test_an_utterance_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "scored"
    path.write_text(WRITERS["kaldi-per-utt"]([("u", ("a", "b"))] * 2), encoding="utf-8")
    with pytest.raises(UserError, match="utterance u is duplicated"):
        list(formats.read([path]))


@pytest.mark.parametrize("form", WRITERS)
def test_an_alignment_is_no_text_to_correct(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form)
    (tmp_path / "words").write_text("Goldman Sachs\n", encoding="utf-8")
    done = run_main("correct", str(path), "--words", str(tmp_path / "words"))
    assert done.returncode == 2
    assert "rescore rerank" in done.stderr and done.stderr.count("\n") == 1
    done = run_main("rerank", str(path), "--best", str(tmp_path / "best.txt"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "best.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [heard for _, heard in held(form).values()]


@pytest.mark.parametrize("form", WRITERS)
def test_its_references_serve_other_outputs(form: str, tmp_path: Path) -> None:
    """An alignment file is a file for `--ref`."""
    path = written(tmp_path, form)
    lines = [f"{name} {heard}\n" for name, (_, heard) in held(form).items()]
    (tmp_path / "hyp").write_text("".join(lines), encoding="utf-8")
    tables = []
    for names in ([str(path)], [str(tmp_path / "hyp"), "--ref", str(path)]):
        done = run_main("eval", *names)
        assert done.returncode == 0, done.stderr
        tables.append(done.stdout.splitlines()[1].split()[1:])
    assert tables[0] == tables[1]
