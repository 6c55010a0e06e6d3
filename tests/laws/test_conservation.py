"""What goes into a reader comes out of it, or an error or a warning says what does not:
each list, hypothesis, reference, source and id of a file is in the lists, for every
format.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import pytest

import rescore
from rescore import formats
from rescore.asr.outputs import align_systems, read_each
from rescore.asr.whole import read_systems
from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import Audio, Hypothesis, NbestList
from rescore.parts import FORMATS
from tests.conftest import Run, assert_one_line_error
from tests.formats.scorers import WRITERS

# --- sets of lists -------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What a file says of one utterance; all texts are unique."""

    id: str
    texts: tuple[str, ...]
    reference: str
    source: str


def entry(number: int, name: str, size: int) -> Entry:
    texts = tuple(f"hyp{number}x{rank} said" for rank in range(size))
    return Entry(name, texts, f"ref{number} said", f"src{number} dit")


def entries(names: Sequence[str], sizes: Sequence[int]) -> list[Entry]:
    return [
        entry(number, name, sizes[number % len(sizes)])
        for number, name in enumerate(names)
    ]


IDS: dict[str, list[str]] = {
    "plain": ["u-1", "u-2", "u-3"],
    "folders": ["spk1/a.wav", "spk2/a.wav", "spk2/b.wav"],
    "endings": ["a.wav", "a.flac", "a"],
    "numbers": ["1", "2", "3"],
    "adjacent": ["u-1", "u-1", "u-2"],
    "apart": ["u-1", "u-2", "u-1"],
    "files": ["spk1/a.wav", "spk2/a.wav", "spk2/a.flac"],
    "files twice": ["spk/u-1.wav", "spk/u-1.wav", "spk/u-2.wav"],
    "files again": ["spk/u-1.wav", "spk/u-2.wav", "spk/u-1.wav"],
}
REPEATED = ("adjacent", "apart", "files twice", "files again")
BLANKS = {"blanks": ["my spk/a.wav", "my spk (2)/a.wav", "my spk/a b.wav"]}
"""Paths that an id writes as in URLs."""
FILES = ("files", "files twice", "files again")
SIZES = {"one": (1,), "same": (2,), "mixed": (2, 1, 3)}

# --- writers of formats ---------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How files of a format are made.

    `write` gets a folder and returns the path to read. The flags say what the format
    holds; where ids are numbers or names of files, repeated ids cannot be written.
    """

    write: Callable[[Sequence[Entry], Path], Path]
    ids: Sequence[str] = tuple(IDS)
    sizes: Sequence[str] = tuple(SIZES)
    references: bool = False
    sources: bool = False
    has_ids: bool = True
    options: ReadOptions | None = None
    makes_ids: str = "{}"
    """The id that the reader gives."""


def lines(name: str, line: Callable[[Entry], str]) -> Callable[..., Path]:
    def write(every: Sequence[Entry], folder: Path) -> Path:
        path = folder / name
        path.write_text("".join(map(line, every)))
        return path

    return write


def document(name: str, value: Callable[[Sequence[Entry]], object]) -> Callable:
    def write(every: Sequence[Entry], folder: Path) -> Path:
        path = folder / name
        path.write_text(json.dumps(value(every)))
        return path

    return write


def scored(one: Entry) -> list[tuple[str, float]]:
    return [(text, -1.0 - rank) for rank, text in enumerate(one.texts)]


def json_line(value: object) -> str:
    return json.dumps(value) + "\n"


def rows(one: Entry, mark: str) -> str:
    cells = (
        (one.id, text, str(score), one.reference, one.source)
        for text, score in scored(one)
    )
    return "".join(mark.join(row) + "\n" for row in cells)


def table(ending: str, mark: str) -> Callable[..., Path]:
    def write(every: Sequence[Entry], folder: Path) -> Path:
        path = folder / f"x.{ending}"
        head = mark.join(("id", "text", "score", "ref", "src")) + "\n"
        path.write_text(head + "".join(rows(one, mark) for one in every))
        return path

    return write


def espnet1(every: Sequence[Entry], folder: Path) -> Path:
    path = folder / "data.json"
    utterances = []
    for one in every:
        output = [
            {"rec_text": text, "score": score, "text": one.reference}
            for text, score in scored(one)
        ]
        utterances.append(f"{json.dumps(one.id)}: {json.dumps({'output': output})}")
    path.write_text('{"utts": {' + ", ".join(utterances) + "}}")
    return path


def espnet2(every: Sequence[Entry], folder: Path) -> Path:
    for rank in range(max(len(one.texts) for one in every)):
        best = folder / "out" / "logdir" / "output.1" / f"{rank + 1}best_recog"
        best.mkdir(parents=True)
        ranked = [one for one in every if len(one.texts) > rank]
        text = "".join(f"{one.id} {one.texts[rank]}\n" for one in ranked)
        score = "".join(f"{one.id} {-1.0 - rank}\n" for one in ranked)
        (best / "text").write_text(text)
        (best / "score").write_text(score)
    return folder / "out"


def kaldi(every: Sequence[Entry], folder: Path) -> Path:
    (folder / "k").mkdir()
    words = ac = lm = ""
    for one in every:
        for rank, text in enumerate(one.texts, 1):
            words += f"{one.id}-{rank} {text}\n"
            ac += f"{one.id}-{rank} {rank}\n"
            lm += f"{one.id}-{rank} {rank}\n"
    (folder / "k" / "words_text").write_text(words)
    (folder / "k" / "acwt").write_text(ac)
    (folder / "k" / "lmwt.withlm").write_text(lm)
    return folder / "k"


def srilm(every: Sequence[Entry], folder: Path) -> Path:
    (folder / "s").mkdir()
    for one in every:
        rows = "".join(f"{score} -1 2 {text}\n" for text, score in scored(one))
        (folder / "s" / one.id).write_text(rows)
    return folder / "s"


def lattice(one: Entry) -> str:
    words = [text.split() for text in one.texts]
    links = ""
    number = 0
    node = 2
    for rank, (first, second) in enumerate(words):
        links += f"J={number} S=0 E={node} W={first} a={-rank} l=0\n"
        links += f"J={number + 1} S={node} E=1 W={second} a=0 l=0\n"
        number += 2
        node += 1
    nodes = "".join(f"I={place}\n" for place in range(node))
    return f"VERSION=1.1\nUTTERANCE={one.id}\nN={node} L={number}\n{nodes}{links}"


def page_of(
    root: str, line: Callable[[Entry], str]
) -> Callable[[Sequence[Entry], Path], Path]:
    """Pages of OCR: one element of lines."""

    def write(every: Sequence[Entry], folder: Path) -> Path:
        path = folder / "x.xml"
        text = "".join(map(line, every))
        path.write_text(f"<{root}>{text}</{root.split()[0]}>")
        return path

    return write


def hocr(one: Entry) -> str:
    words = "".join(f'<ins class="alt">{text}</ins>' for text in one.texts)
    word = f'<b class="ocrx_word"><i class="alternatives">{words}</i></b>'
    return f'<span class="ocr_line" id="{one.id}">{word}</span>'


def alto(one: Entry) -> str:
    first, *others = (text.split()[0] for text in one.texts)
    told = "".join(f"<ALTERNATIVE>{word}</ALTERNATIVE>" for word in others)
    words = f'<String CONTENT="{first}">{told}</String><String CONTENT="said"/>'
    return f'<TextLine ID="{one.id}">{words}</TextLine>'


def page(one: Entry) -> str:
    told = f"<TextEquiv><Unicode>{one.reference}</Unicode></TextEquiv>"
    for rank, text in enumerate(one.texts, 1):
        unicode = f"<Unicode>{text}</Unicode>"
        told += f'<TextEquiv index="{rank}" conf="{1 / rank}">{unicode}</TextEquiv>'
    return f'<TextLine id="{one.id}">{told}</TextLine>'


def icefall(one: Entry) -> str:
    told = f"{one.id}:\tref={one.reference.split()}\n"
    return told + "".join(f"{one.id}:\thyp={text.split()}\n" for text in one.texts)


def sherpa(one: Entry) -> str:
    values = [
        {"text": text, "score": score, "timestamps": [], "tokens": []}
        for text, score in scored(one)
    ]
    return f"{one.id}\n" + json_line({**values[0], "hypotheses": values})


def wenet(one: Entry) -> str:
    told = "".join(f"candidate {score} {text}\n" for text, score in scored(one))
    return f"wav {one.id}\n{told}"


def brain(one: Entry) -> str:
    told = [f"{text};-1;-2;-3;{score}" for text, score in scored(one)]
    return ";".join(told) + "\n"


def segments(every: Sequence[Entry]) -> object:
    """Whisper's segments: one hypothesis of a file."""
    told = [
        {
            "text": f" {one.texts[0]}",
            "start": place,
            "end": place + 1.0,
            "tokens": [1],
            "avg_logprob": -1.0,
            "id": place,
        }
        for place, one in enumerate(every)
    ]
    return {"text": "", "segments": told, "language": "en"}


def fairseq(one: Entry) -> str:
    told = f"S-{one.id}\t{one.source}\nT-{one.id}\t{one.reference}\n"
    for text, score in scored(one):
        told += f"H-{one.id}\t{score}\t{text}\nP-{one.id}\t-1 -1\n"
    return told


def moses(one: Entry) -> str:
    told = (f"{one.id} ||| {text} ||| ||| {score}\n" for text, score in scored(one))
    return "".join(told)


def openai(one: Entry) -> str:
    choices = [
        {"message": {"content": text}, "logprobs": {"content": [{"logprob": score}]}}
        for text, score in scored(one)
    ]
    body = {"choices": choices}
    return json_line({"custom_id": one.id, "response": {"body": body}})


def pairs(one: Entry) -> list[list[object]]:
    return [[text, score] for text, score in scored(one)]


def apart(one: Entry, texts: str, scores: str, cost: int = 1, **more: str) -> str:
    value: dict[str, object] = {texts: list(one.texts)}
    value[scores] = [cost * score for _, score in scored(one)]
    return json_line({**more, **value})


def scorer(name: str) -> Form:
    """The alignment file of another scorer."""

    def write(every: Sequence[Entry], folder: Path) -> Path:
        texts = [(one.id, (one.reference, one.texts[0])) for one in every]
        path = folder / "scored"
        path.write_text(WRITERS[name](texts))
        return path

    return Form(write, sizes=("one",), references=True)


NUMBERED = ("numbers",)
ALL_IDS = tuple(name for name in IDS if name != "numbers")
FORMS: dict[str, list[Form]] = {
    "native": [
        Form(
            lines(
                "x.jsonl",
                lambda one: json_line(
                    {
                        "id": one.id,
                        "ref": one.reference,
                        "src": one.source,
                        "hyps": [{"text": t, "score": s} for t, s in scored(one)],
                    }
                ),
            ),
            references=True,
            sources=True,
        )
    ],
    "espnet1": [Form(espnet1, references=True)],
    "espnet2": [Form(espnet2)],
    "kaldi": [Form(kaldi)],
    "lattice": [Form(lines("x.slf", lattice), options=ReadOptions(size=9))],
    "srilm": [Form(srilm, ids=("plain", "numbers"))],
    "hocr": [Form(page_of('div class="ocr_page"', hocr))],
    "alto": [Form(page_of("alto", alto))],
    "page": [Form(page_of("PcGts", page), references=True)],
    "icefall": [Form(lines("recogs", icefall), references=True)],
    "sherpa": [Form(lines("log", sherpa), ids=FILES)],
    "wenet": [Form(lines("nbest", wenet))],
    "whisper": [Form(document("t.json", segments), sizes=("one",), has_ids=False)],
    "parakeet": [
        Form(
            document(
                "t.json",
                lambda every: {
                    "beam_size": 2,
                    "hypotheses": [
                        {"text": text, "score": score, "tokens": []}
                        for one in every
                        for text, score in scored(one)
                    ],
                },
            ),
            has_ids=False,
        )
    ],
    "brain-to-text": [Form(lines("rows", brain), ids=NUMBERED)],
    "speech": [
        Form(
            document(
                "t.json",
                lambda every: {
                    "results": [
                        {
                            "alternatives": [
                                {"transcript": text, "confidence": 0.5}
                                for text in one.texts
                            ]
                        }
                        for one in every
                    ]
                },
            ),
            has_ids=False,
        )
    ],
    "fairseq": [Form(lines("log", fairseq), NUMBERED, references=True, sources=True)],
    "moses": [Form(lines("x.best", moses), NUMBERED)],
    "opennmt": [
        Form(
            lines("x", lambda one: "".join(f"{text}\n" for text in one.texts)),
            NUMBERED,
            ("same",),
            options=ReadOptions(size=2),
        )
    ],
    "openai": [Form(lines("x.jsonl", openai), ids=ALL_IDS)],
    "ctranslate2": [
        Form(
            document(
                "x.json",
                lambda every: [
                    {
                        "hypotheses": [text.split() for text in one.texts],
                        "scores": [score for _, score in scored(one)],
                        "attention": [],
                    }
                    for one in every
                ],
            ),
            has_ids=False,
        )
    ],
    "hf": [
        Form(
            lines(
                "x.jsonl",
                lambda one: apart(
                    one,
                    "sequences",
                    "sequences_scores",
                    id=one.id,
                    labels=one.reference,
                ),
            ),
            references=True,
        )
    ],
    "sockeye": [
        Form(
            lines(
                "x.jsonl",
                lambda one: apart(
                    one, "translations", "scores", -1, sentence_id=one.id
                ),
            )
        )
    ],
    "nemo": [
        Form(
            lines(
                "x.jsonl",
                lambda one: json_line(
                    {
                        "audio_filepath": one.id,
                        "text": one.reference,
                        "src": one.source,
                        "beams": pairs(one),
                    }
                ),
            ),
            references=True,
            ids=(*IDS, *BLANKS),
            sources=True,
        )
    ],
    "hyporadise": [
        Form(
            document(
                "x.json",
                lambda every: [
                    {"id": one.id, "input": list(one.texts), "output": one.reference}
                    for one in every
                ],
            ),
            references=True,
        )
    ],
    "tsv": [Form(table("tsv", "\t"), references=True, sources=True)],
    "csv": [Form(table("csv", ","), (*IDS, *BLANKS), references=True, sources=True)],
    "nemo-beams": [
        Form(
            lines(
                "x.tsv",
                lambda one: "".join(f"{t}\t{s}\n" for t, s in scored(one)),
            ),
            NUMBERED,
            ("same",),
            options=ReadOptions(size=2),
        )
    ],
    "text": [],
    "json": [
        Form(
            lines(
                "x.jsonl",
                lambda one: json_line(
                    {
                        "path": one.id,
                        "ref": one.reference,
                        "src": one.source,
                        "nbest": pairs(one),
                    }
                ),
            ),
            references=True,
            ids=(*IDS, *BLANKS),
            sources=True,
        ),
        Form(  # a row for each hypothesis
            lines(
                "x.jsonl",
                lambda one: "".join(
                    json_line(
                        {
                            "audio": one.id,
                            "reference": one.reference,
                            "source": one.source,
                            "text": text,
                            "score": score,
                        }
                    )
                    for text, score in scored(one)
                ),
            ),
            references=True,
            sources=True,
        ),
        Form(  # a rank for each hypothesis, the last first
            lines(
                "x.jsonl",
                lambda one: "".join(
                    json_line({"id": one.id, "text": text, "rank": rank + 1})
                    for rank, text in list(enumerate(one.texts))[::-1]
                ),
            )
        ),
        Form(  # parts of an audio file, whose ids are made of path and start
            lines(
                "x.jsonl",
                lambda one: json_line(
                    {
                        "path": "talk.wav",
                        "offset": float(one.id),
                        "text": one.texts[0],
                    }
                ),
            ),
            NUMBERED,
            ("one",),
            makes_ids="talk.wav@{}",
        ),
        Form(  # rows without scores
            lines(
                "x.jsonl",
                lambda one: json_line(
                    {"id": one.id, "ref": one.reference, "text": one.texts[0]}
                ),
            ),
            sizes=("one",),
            references=True,
        ),
    ],
    **{name: [scorer(name)] for name in WRITERS},
}
"""The forms in which files of each format are written; 1-best text is no list."""


class Shouts:
    """Lists of another package, which this test registers."""

    def sniff(self, source: Source) -> bool:
        return "shouts" in source.head

    def read(self, source: Source, options: ReadOptions):  # type: ignore[no-untyped-def]
        for _, line in source.filled():
            name, *texts = json.loads(line)["shouts"]
            yield NbestList(name, [Hypothesis(text) for text in texts])


SHOUTS = Form(lines("x", lambda one: json_line({"shouts": [one.id, *one.texts]})))

# --- the law -------------------------------------------------------------------------


def test_each_format_is_under_the_law() -> None:
    assert set(FORMATS.shipped) == FORMS.keys()


CASES = [
    pytest.param(name, form, ids, size, id=f"{name}{number}-{ids}-{size}")
    for name, forms in FORMS.items()
    for number, form in enumerate(forms)
    for ids in form.ids
    for size in form.sizes
]


@pytest.mark.parametrize(("name", "form", "ids", "size"), CASES)
def test_all_of_a_file_is_read_or_told(
    name: str,
    form: Form,
    ids: str,
    size: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    check(name, form, entries((IDS | BLANKS)[ids], SIZES[size]), tmp_path, caplog, ids)


@pytest.mark.parametrize("ids", IDS)
def test_all_of_another_packages_file_is_read_or_told(
    ids: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMATS._parts, "shouts", (Shouts(), "shouts"))
    every = entries(IDS[ids], SIZES["mixed"])
    check("shouts", SHOUTS, every, tmp_path, caplog, ids)


def check(
    name: str,
    form: Form,
    every: list[Entry],
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    ids: str,
) -> None:
    """See that a file of the entries is read, or an error names the repeated id."""
    path = form.write(every, folder)
    caplog.set_level(logging.INFO)
    try:
        lists = formats.read([path], format_name=name, options=form.options)
    except UserError as error:
        assert ids in REPEATED and form.has_ids, error
        assert "u-1" in str(error), error
        told = ("duplicated", "different references", "have the rank")
        assert any(words in str(error) for words in told), error
        return
    if ids in REPEATED and form.has_ids:
        assert "has the id of a row above" in caplog.text
        every = [
            replace(one, id=nbest.id) for one, nbest in zip(every, lists, strict=1)
        ]
        assert len({one.id for one in every}) == len(every)
    told = [(hypothesis.text) for nbest in lists for hypothesis in nbest.hypotheses]
    assert (
        " ".join(told).split()
        == " ".join(sum((one.texts for one in every), ())).split()
    )
    if not form.has_ids:
        return
    numbered = name in ("brain-to-text", "opennmt", "nemo-beams")
    assert numbered or [unquote(nbest.id) for nbest in lists] == [
        form.makes_ids.format(one.id) for one in every
    ]
    assert [len(nbest.hypotheses) for nbest in lists] == [
        len(one.texts) for one in every
    ]
    if form.references:
        assert [nbest.references for nbest in lists] == [
            (one.reference,) for one in every
        ]
    if form.sources:
        assert [nbest.source for nbest in lists] == [one.source for one in every]


# --- references and sources ----------------------------------------------------------


def text_table(ending: str, mark: str, id_name: str, name: str) -> Callable[..., Path]:
    def write(every: Sequence[Entry], folder: Path) -> Path:
        path = folder / f"texts.{ending}"
        rows = "".join(f"7{mark}{one.id}{mark}{one.reference}\n" for one in every)
        path.write_text(f"votes{mark}{id_name}{mark}{name}\n{rows}")
        return path

    return write


def text_record(id_name: str, name: str) -> Callable[..., Path]:
    return lines(
        "texts", lambda one: json_line({id_name: one.id, "x": 7, name: one.reference})
    )


def cut(one: Entry) -> str:
    words = [{"id": word, "text": word} for word in one.reference.split()]
    return json_line({"id": one.id, "start": 0, "supervisions": words})


TEXTS: dict[str, Callable[..., Path]] = {
    "csv": text_table("csv", ",", "id", "text"),
    "tsv without its ending": text_table("txt", "\t", "utt_id", "transcript"),
    "Common Voice": text_table("tsv", "\t", "path", "sentence"),
    "JSON Lines": text_record("id", "text"),
    "NeMo": text_record("audio_filepath", "text"),
    "lhotse supervisions": text_record("id", "text"),
    "lhotse cuts": lines("cuts.jsonl", cut),
    "kaldi": lines("text", lambda one: f"{one.id} {one.reference}\n"),
    "trn": lines("x.trn", lambda one: f"{one.reference} ({one.id})\n"),
}
"""Files of texts with ids, for --ref and --src."""
TEXTS |= {
    f"{name} lists {number}": form.write
    for name, forms in FORMS.items()
    for number, form in enumerate(forms)
    if form.references and "adjacent" in form.ids
}


@pytest.mark.parametrize("role", ["ref", "src"])
@pytest.mark.parametrize("ids", [*IDS, "other folders", "stems"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_a_file_are_matched_or_told(
    name: str, ids: str, role: str, tmp_path: Path
) -> None:
    names = {
        "other folders": [f"/data/{one}" for one in IDS["folders"]],
        "stems": ["a", "b", "c"],
    }
    own = entries(names.get(ids, IDS.get(ids, [])), (1,))
    theirs = own
    if ids == "other folders":
        theirs = entries(IDS["folders"], (1,))
    if ids == "stems":
        theirs = entries(["x/a.wav", "y/b.flac", "c.wav"], (1,))
    if " lists " in name and role == "src":
        theirs = [replace(one, source=one.reference) for one in theirs]
    unique = {one.id: one for one in own}
    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        "".join(
            json_line({"id": one.id, "hyps": [{"text": "x", "score": -1}]})
            for one in unique.values()
        )
    )
    path = TEXTS[name](theirs, tmp_path)
    files = {"references": path} if role == "ref" else {"sources": path}
    try:
        read = formats.read([lists], **files)
    except UserError as error:
        has_no_sources = role == "src" and "no source texts in it" in str(error)
        is_repeated = ids in REPEATED and "duplicated" in str(error)
        assert has_no_sources or is_repeated, error
        return
    if ids in REPEATED:
        # neighbours of one id in icefall's files have alternative references
        assert name.startswith("icefall lists") and role == "ref"
        texts = {text for nbest in read for text in nbest.references}
        assert texts == {one.reference for one in theirs}
        return
    if role == "ref":
        given = [" ".join(nbest.references) for nbest in read]
    else:
        given = [nbest.source for nbest in read]
    assert given == [one.reference for one in theirs]


# --- what is left unread -------------------------------------------------------------


class Stops(Shouts):
    """A reader that stops before the end."""

    def read(self, source: Source, options: ReadOptions):  # type: ignore[no-untyped-def]
        for nbest in super().read(source, options):
            yield nbest
            return


def test_a_reader_that_stops_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = entries(IDS["plain"], SIZES["one"])
    path = SHOUTS.write(every, tmp_path)
    for reader, is_told in ((Stops(), True), (Shouts(), False)):
        monkeypatch.setitem(FORMATS._parts, "shouts", (reader, "shouts"))
        caplog.clear()
        formats.read([path], format_name="shouts")
        assert ("was not read to its end" in caplog.text) is is_told


def test_columns_without_numbers_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "x.csv").write_text("id,text,score,lm,who\nu,a,-1,-2,Ann\n")
    (nbest,) = formats.read([tmp_path / "x.csv"])
    assert nbest.hypotheses[0].scores == {"s2s": -1.0, "lm": -2.0}
    assert "x.csv: 1 column read as a field of --by: who" in caplog.text


def test_columns_of_numbers_that_are_no_scores_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are called columns, not columns of texts."""
    caplog.set_level(logging.INFO)
    tables = {
        "id,text,score,age,who\nu,a,-1,31,Ann\n": "age, who",
        "id,h1,h2,age,secs\nu,a,b,31,2.5\n": "age, secs",
    }
    for number, (table, told) in enumerate(tables.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(table)
        (nbest,) = rescore.read(path, field={"text": "h*"} if number else None)
        assert nbest.fields["age"] == "31"
        assert f": 2 columns read as fields of --by: {told}\n" in caplog.text


# --- files of recordings -------------------------------------------------------------

CUES = (
    ("00:00:01,000", "00:00:02,000", ["one two"]),
    ("00:00:03,000", "00:00:04,000", ["three", "four"]),
    ("00:00:05,000", "00:00:06,000", ["five", "six seven"]),
)
SUBTITLES = {
    f"{ending} {clock} {between!r} {within!r} {number}": (
        ending,
        head
        + between.join(
            f"{number.format(place)}{start[:clock]} --> {end[:clock]}\n"
            + within.join(texts)
            + "\n"
            for place, (start, end, texts) in enumerate(CUES, 1)
        ),
    )
    for ending, head in (("srt", ""), ("vtt", "WEBVTT\n\n"))
    for clock in (12, 8)
    for between in ("\n", "\n\n", "")
    for within in ("\n", "\n\n")
    for number in ("{}\n", "")
    # behind an empty line, the line before a time is the name of a cue of WebVTT
    if ending == "srt" or between or number
}
"""Subtitles with and without milliseconds, empty lines in cues, empty lines between
cues, numbers.
"""


@pytest.mark.parametrize("name", SUBTITLES)
def test_all_words_of_subtitles_are_read(name: str, tmp_path: Path) -> None:
    ending, content = SUBTITLES[name]
    (tmp_path / f"talk.{ending}").write_text(content)
    ((recording,), *_) = (system.values() for system in read_systems([tmp_path]))
    assert " ".join(recording.words) == "one two three four five six seven"
    assert len(recording.times) == len(recording.words)


TEXTS_OF_SYSTEMS = {
    "kaldi": ("u-1 one\nu-2 two\nu-3 three\n", 3, "u-1 four\n"),
    "trn": ("one (u-1)\ntwo (u-2)\nthree (u-3)\n", 3, "four\n"),
    "brain-to-text": ("\none;-1;-2;-3;-4\ntwo;-1;-2;-3;-4\n", 3, None),
}


@pytest.mark.parametrize("name", TEXTS_OF_SYSTEMS)
def test_ids_of_a_systems_texts_are_no_words(name: str, tmp_path: Path) -> None:
    content, number, damage = TEXTS_OF_SYSTEMS[name]
    path = tmp_path / "a"
    path.write_text(content)
    lists = read_each({"a": str(path)})["a"]
    words = " ".join(nbest.hypotheses[0].text for nbest in lists).split()
    assert len(lists) == number and set(words) <= {"one", "two", "three"}
    if damage is None:
        return
    path.write_text(content + damage)
    for read in (lambda: read_each({"a": str(path)}), lambda: read_systems([path])):
        with pytest.raises(UserError, match="line 4: "):
            read()


def test_systems_are_matched_among_all() -> None:
    """What the first system lacks is one utterance of the others, not two."""
    audio = Audio("/x/talk.wav", 2.0, 3.0)
    first = [NbestList("u1", [Hypothesis("a")])]
    second = [*first, NbestList("b2", [Hypothesis("b")], audio=audio)]
    third = [*first, NbestList("c2", [Hypothesis("c")], audio=audio)]
    aligned = align_systems({"a": first, "b": second, "c": third})
    assert [nbest.id for nbest in aligned["c"]] == ["u1", "b2"]


def test_all_tables_are_combined(rescore: Run, tmp_path: Path) -> None:
    head = "id,a,b\n"
    names = [tmp_path / "1.csv", tmp_path / "2.csv"]
    names[0].write_text(f"{head}u-1,one,uno\n")
    names[1].write_text(f"{head}u-2,two,dos\n")
    fields = ("--field", "system=a", "--field", "system=b")
    out = tmp_path / "out.jsonl"
    assert not rescore("combine", *names, *fields, "-o", out).returncode
    assert all(f'"{word}"' in out.read_text() for word in ("one", "uno", "two", "dos"))
    names[1].write_text(f"{head}u-1,two,dos\n")
    done = rescore("combine", *names, *fields, "-o", out)
    assert_one_line_error(done, "2.csv: line 2: utterance u-1 is duplicated (first: ")


def test_references_of_recordings_are_used_or_told(
    rescore: Run, tmp_path: Path
) -> None:
    for name in ("a.ctm", "b.ctm"):
        (tmp_path / name).write_text("t 1 0 1 hello\nv 1 1 1 there\n")
    (tmp_path / "1.stm").write_text("t 1 x 0 2 hello\nv 1 x 0 2 there\n")
    (tmp_path / "2.stm").write_text("u 1 x 0 2 other\n")
    command = ("combine", "a.ctm", "b.ctm", "--ref", "1.stm", "--ref")
    done = rescore(*command, "2.stm", "-o", "o.jsonl")
    assert "2.stm: no output for 1 recording with a reference (first: u)" in done.stderr
    (tmp_path / "2.stm").write_text("t 1 x 0 2 hi\n")
    done = rescore(*command, "2.stm", "-o", "o.jsonl")
    assert_one_line_error(done, "recording t has a reference in 1.stm, too")


IDS_TWICE = {
    "x": "u1 a b\nu1 a c\nu2 c d\n",
    "y.txt": "u1 a b\nu2 c d\nu2 c d\n",
    "z.trn": "a b (u1)\nc d\n",
}
"""Texts of utterances in which an id is repeated or missing."""


@pytest.mark.parametrize("other", ["o.ctm", "o.trn", "o.jsonl"])
@pytest.mark.parametrize("name", IDS_TWICE)
def test_ids_are_no_words_of_a_recording(
    name: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(IDS_TWICE[name])
    record = {"id": "u1", "text": "a"}
    Path("o.jsonl").write_text(json_line(record) + json_line(record | {"id": "u2"}))
    Path("o.trn").write_text("a (u1)\nb (u2)\n")
    Path("o.ctm").write_text("u1 1 0 1 a\nu2 1 0 1 b\n")
    for paths in ([name, other], [other, name]):
        with pytest.raises(UserError, match=name):
            read_systems(paths, False)


def test_words_that_begin_several_lines_are_no_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.txt").write_text("so we go\nso we said\nwell then\n")
    Path("r.ctm").write_text("r 1 0 1 so\nr 1 1 1 we\n")
    (heard, _) = read_systems(["r.txt", "r.ctm"], False)
    assert heard["r"].words == ["so", "we", "go", "so", "we", "said", "well", "then"]
