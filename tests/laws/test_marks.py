"""Law: marks of toolkits are no words. This holds for each form of texts, and for
hypotheses, references and source texts.

Hypotheses and references are the same texts with the same marks. So the answer is a
WER of 0; another WER would say that one form keeps a mark that another drops.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import rescore
from rescore.asr.measured import measured_recordings
from rescore.asr.sessions import measured_sessions
from rescore.asr.whole import read_systems
from rescore.formats.outputs import read_output
from rescore.formats.references import References
from rescore.nbest import NbestList
from tests.conftest import Run

MARKS = {
    "tag": ["<|en|>it is", "<|en|><|0.00|>fine<|endoftext|>", "<|de|>we do"],
    "apostrophe": ["it &apos;s fine", "don &apos;t", "we do"],
    "ampersand": ["you &amp; me", "R&amp;D", "we &#91;do&#93;"],
    "sentence": ["<s> it is </s>", "fine <eos>", "we do <pad>"],
    "bpe": ["it lo@@ ng", "fi@@ ne", "we do"],
    "pieces": ["▁it ▁is", "▁fi ne", "▁we ▁do"],
}
"""Texts by their marks; each word stands for itself."""
IDS = ["utt-1", "utt-2", "utt-3"]
NUMBERS = ["0", "1", "2"]


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


Texts = list[tuple[str, str]]
Write = Callable[[Texts, Path], Path]


def kaldi(texts: Texts, path: Path) -> Path:
    return written(path / "text", *(f"{name} {text}\n" for name, text in texts))


def trn(texts: Texts, path: Path) -> Path:
    return written(path / "x.trn", *(f"{text} ({name})\n" for name, text in texts))


def plain(texts: Texts, path: Path) -> Path:
    return written(path / "x.txt", *(f"{text}\n" for _, text in texts))


def csv(texts: Texts, path: Path) -> Path:
    rows = [f"{name},{text},-1\n" for name, text in texts]
    return written(path / "x.csv", "id,text,score\n", *rows)


def hf(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        row = {"id": name, "sequences": [text], "sequences_scores": [-1]}
        rows.append(json.dumps(row) + "\n")
    return written(path / "x.json", *rows)


def native(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        row = {"id": name, "hyps": [{"text": text, "score": -1}]}
        rows.append(json.dumps(row) + "\n")
    return written(path / "x.jsonl", *rows)


def moses(texts: Texts, path: Path) -> Path:
    rows = [f"{name} ||| {text} ||| LM= -1 ||| -1\n" for name, text in texts]
    return written(path / "n.best", *rows)


def ref_csv(texts: Texts, path: Path) -> Path:
    return written(path / "r.csv", "id,ref\n", *(f"{n},{text}\n" for n, text in texts))


def ref_json(texts: Texts, path: Path) -> Path:
    rows = [json.dumps({"id": name, "ref": text}) + "\n" for name, text in texts]
    return written(path / "r.json", *rows)


def ref_native(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        row = {"id": name, "ref": text, "hyps": [{"text": "x", "score": -1}]}
        rows.append(json.dumps(row) + "\n")
    return written(path / "r.jsonl", *rows)


def ref_nemo(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        row = {"audio_filepath": f"{name}.wav", "duration": 1.0, "text": text}
        rows.append(json.dumps(row) + "\n")
    return written(path / "m.json", *rows)


def ref_fairseq(texts: Texts, path: Path) -> Path:
    rows = [f"S-{n}\ts\nT-{n}\t{text}\nH-{n}\t-1\tx\n" for n, text in texts]
    return written(path / "log", *rows)


OUTPUTS = (kaldi, trn, csv, hf, native)
REFERENCES = (kaldi, trn, ref_csv, ref_json, ref_native, ref_nemo)


def texts_of(mark: str, ids: list[str] = IDS) -> Texts:
    return list(zip(ids, MARKS[mark], strict=True))


def assert_right(lists: list[NbestList]) -> None:
    assert len(lists) == len(IDS)
    for nbest in lists:
        assert nbest.references == (nbest.hypotheses[0].text,), nbest


def pairs_of(outputs: tuple[Write, ...], references: tuple[Write, ...]) -> list[object]:
    return list(product(MARKS, outputs, references))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_outputs_and_references(mark: str, output: Write, tmp_path: Path) -> None:
    for write in REFERENCES:
        folder = tmp_path / write.__name__
        folder.mkdir()
        references = write(texts_of(mark), folder)
        (folder / "out").mkdir()
        path = output(texts_of(mark), folder / "out")
        assert_right(read_output(str(path), str(references)))
        if output not in (kaldi, trn):
            assert_right(list(rescore.read(path, references=references)))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("output", [plain, moses, native])
def test_lists_without_ids(mark: str, output: Write, tmp_path: Path) -> None:
    texts = texts_of(mark, NUMBERS)
    (tmp_path / "out").mkdir()
    path = output(texts, tmp_path / "out")
    for write in (plain, ref_fairseq):
        if write is ref_fairseq and output is native and mark != "tag":
            continue  # native lists leave marks in their texts
        form = "plain" if write is plain else None
        references = References((str(write(texts, tmp_path)),), form)
        assert_right(read_output(str(path), references))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("has_hypotheses", [True, False])
def test_references_and_sources_beside_hypotheses(
    mark: str, has_hypotheses: bool, tmp_path: Path
) -> None:
    """References and sources are read as hypotheses are, from the same file."""
    rows = []
    for name, text in texts_of(mark):
        rows.append(f"{name},{text},-1,{text},{text}\n")
    path = written(tmp_path / "x.csv", "id,text,score,ref,src\n", *rows)
    lists = list(rescore.read(path))
    if not has_hypotheses:  # from files beside the lists
        lists = list(rescore.read(path, references=path, sources=path))
    assert_right(lists)
    for nbest in lists:
        assert nbest.source == nbest.hypotheses[0].text


# --- whole recordings ----------------------------------------------------------------


def ctm(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        for number, word in enumerate(text.split()):
            rows.append(f"{name} 1 {number / 10:.2f} 0.1 {word}\n")
    return written(path / "x.ctm", *rows)


def stm(texts: Texts, path: Path) -> Path:
    return written(path / "x.stm", *(f"{n} 1 spk 0 1 {text}\n" for n, text in texts))


def seglst(texts: Texts, path: Path) -> Path:
    rows = []
    for name, text in texts:
        row = {"session_id": name, "speaker": "spk", "words": text}
        rows.append({**row, "start_time": 0, "end_time": 1})
    return written(path / "x.json", json.dumps(rows))


def srt(texts: Texts, path: Path) -> Path:
    folder = path / "subtitles"
    folder.mkdir()
    for name, text in texts:
        cue = f"1\n00:00:00,000 --> 00:00:01,000\n{text}\n"
        written(folder / f"{name}.srt", cue)
    return folder


WHOLE = (ctm, stm, seglst, srt, kaldi, trn, native)


def unwritten(write: Write, mark: str) -> bool:
    """Native lists leave marks in their texts, which recordings do not have."""
    return write is native and mark not in ("tag",)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("output", WHOLE)
def test_recordings(mark: str, output: Write, tmp_path: Path) -> None:
    texts = texts_of(mark)
    (tmp_path / "out").mkdir()
    path = output(texts, tmp_path / "out")
    for write in (ctm, stm, seglst, srt, kaldi, trn):
        if unwritten(output, mark):
            continue
        folder = tmp_path / write.__name__
        folder.mkdir()
        references = write(texts, folder)
        ((*lists,),) = measured_recordings([str(path)], str(references))
        assert_right(lists)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("output", [ctm, stm, seglst])
def test_sessions(mark: str, output: Write, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = output(texts_of(mark), tmp_path / "out")
    references = stm(texts_of(mark), tmp_path)
    ((*lists,),) = measured_sessions([str(path)], str(references))
    for nbest in lists:
        texts = (nbest.hypotheses[0].text, nbest.references[0])
        heard, expected = map(words_of_session, texts)
        assert heard == expected


def words_of_session(text: str) -> list[str]:
    """The words of a session, whose segments are lines with fields."""
    return " ".join(line.split("\x1f")[-1] for line in text.split("\n")).split()


# --- what has no mark ----------------------------------------------------------------

UNMARKED = ["you & me", "a  b", "5 < 6", "@ home", "x@y", "AT&T; so", "it is <unk>"]


@pytest.mark.parametrize("text", UNMARKED)
def test_a_text_without_marks_stays_as_it_is(text: str, tmp_path: Path) -> None:
    ref_native([("u", text)], tmp_path)
    native([("u", text)], tmp_path)
    paths = (tmp_path / "x.jsonl", tmp_path / "r.jsonl")
    (nbest,) = rescore.read(paths[0], references=paths[1])
    assert nbest.references == (text,) == (nbest.hypotheses[0].text,)
    row = {"id": "u", "hypotheses": [{"text": text, "score": -1}], "src": text}
    path = written(tmp_path / "s.json", json.dumps(row) + "\n")
    (nbest,) = rescore.read(path)
    assert nbest.source == text


def test_tags_of_references_are_told_once(rescore: Run, tmp_path: Path) -> None:
    for write in REFERENCES:
        references = write(texts_of("tag"), tmp_path)
        csv([(name, "it is") for name in IDS], tmp_path)
        done = rescore("eval", "x.csv", "--ref", references.name)
        assert done.returncode == 0
        assert done.stderr.count("; the tags were dropped") == 1, write


@pytest.mark.parametrize("ending", ["", ".trn", ".txt", ".csv", ".jsonl"])
@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark != "tag"])
def test_marks_that_are_words_are_read_back(
    ending: str, mark: str, rescore: Run, tmp_path: Path
) -> None:
    """Native lists have words alone; what `rerank --best` writes is read as these."""
    rows = []
    for name, text in texts_of(mark, ["1", "2", "3"]):
        row = {"id": name, "ref": text, "hyps": [{"text": text, "score": -1}]}
        rows.append(json.dumps(row) + "\n")
    written(tmp_path / "l.jsonl", *rows)
    assert rescore("rerank", "l.jsonl", "--best", f"b{ending}").returncode == 0
    done = rescore("eval", f"b{ending}", "--ref", "l.jsonl")
    assert " 0.00 " in done.stdout, done.stderr


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_references_that_have_marks_are_written_and_read_back(
    ending: str, rescore: Run, tmp_path: Path
) -> None:
    for mark in MARKS:
        if mark == "tag":
            continue
        ref_native(texts_of(mark), tmp_path)
        assert rescore("convert", "r.jsonl", "-o", f"x.{ending}").returncode == 0
        lists = references_of(tmp_path / f"x.{ending}")
        assert lists == [(text,) for text in MARKS[mark]]


def references_of(path: Path) -> list[tuple[str, ...]]:
    return [nbest.references for nbest in rescore.read(path)]


@pytest.mark.parametrize("ending", ["ctm", "srt", "vtt"])
@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark != "tag"])
def test_words_of_recordings_are_read_back(
    ending: str, mark: str, rescore: Run, tmp_path: Path
) -> None:
    text = " ".join(MARKS[mark])
    times = [[n, n + 1] for n in range(len(text.split()))]
    hypothesis = {"text": text, "score": -1, "times": times}
    row = {"id": "u", "hyps": [hypothesis], "recording": "talk"}
    written(tmp_path / "l.jsonl", json.dumps(row))
    assert rescore("rerank", "l.jsonl", "--best", f"talk.{ending}").returncode == 0
    (system,) = read_systems([tmp_path / f"talk.{ending}"])
    assert system["talk"].words == text.split()
