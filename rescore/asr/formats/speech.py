"""Speech recognisers that write JSON or lists of words: icefall, sherpa-onnx, WeNet,
NeMo, Whisper, cloud services and Vosk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.records import records_of
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.tables import NUMBER
from rescore.formats.text import (
    ListSize,
    as_number,
    grouped,
    json_number,
    literal_words,
    portions,
    stem_of,
    strip_markup,
    utterance_of,
)
from rescore.formats.times import BackwardsError, Span, piece_times, spread
from rescore.nbest import FIRST_PASS, Column, Header, Hypothesis, NbestList

_Word = tuple[str, float, float]
"""A word with its start and end, in seconds."""


_RECOG = re.compile(r"\s*(\S+):\s+(ref|hyp|timestamp_ref|timestamp_hyp)=(.*)")


class _Icefall:
    """icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and
    `cut-id:<TAB>hyp=['A', 'C']`.
    """

    def sniff(self, source: Source) -> bool:
        return _RECOG.match(source.head) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The lines of one cut stand together; several `hyp` lines are several
        hypotheses. There are no scores.
        """
        yield from grouped(self._entries(source), source.name, more_references=True)

    def _entries(self, source: Source) -> Iterator[tuple[str, NbestList]]:
        for place, line in source.filled():
            match = _RECOG.fullmatch(line)
            if match is None:
                raise UserError(
                    f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`"
                )
            name, kind, words = match.groups()
            if kind == "ref":
                yield name, NbestList(name, [], (literal_words(words, place),))
            elif kind == "hyp":
                yield (
                    name,
                    NbestList(
                        name, [Hypothesis(strip_markup(literal_words(words, place)))]
                    ),
                )


class _Sherpa:
    """sherpa-onnx: the name of a wave file, then its result as one line of JSON with
    `text`, `tokens`, `timestamps`.
    """

    def sniff(self, source: Source) -> bool:
        return not source.is_folder and any(
            line.startswith("{") and '"timestamps"' in line and '"tokens"' in line
            for line in map(str.strip, source.head.split("\n"))
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """An utterance is called after the last wave file named before it, else after
        its place, from 1.

        The score is that in the file, else the sum of the tokens' log-probabilities
        where the decoder gave them. With `hypotheses` (several paths of modified beam
        search) these are the list.
        """
        name, number = None, 0
        for place, line in source.filled():
            if not line.lstrip().startswith("{"):
                name = next(
                    (
                        utterance_of(word)
                        for word in line.split()
                        if word.lower().endswith(_AUDIO)
                    ),
                    name,
                )
                continue
            result = loads(line, place, line=True)
            if not isinstance(result, dict):
                raise UserError(f'{place}: the key "text" is missing')
            number += 1
            several = result.get("hypotheses") or [result]
            if not isinstance(several, list):
                raise UserError(f"{place}: hypotheses is no list")
            yield NbestList(
                name or str(number),
                [_sherpa_hypothesis(entry, place) for entry in several],
            )
            name = None


def _text_in(value: Any, place: str) -> str:
    """The text of an object."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise UserError(f'{place}: the key "text" is missing')
    return str(value["text"])


def _sherpa_hypothesis(result: Any, place: str) -> Hypothesis:
    text = strip_markup(_text_in(result, place))
    # the name in older versions
    values = result.get("ys_log_probs", result.get("ys_probs"))
    each = values if isinstance(values, list) else [values]
    scores = (
        {
            FIRST_PASS: sum(
                json_number(value, place, "the value of a token") for value in each
            )
        }
        if values
        else {}
    )
    if result.get("score") is not None:
        scores = {FIRST_PASS: json_number(result["score"], place)}
    return Hypothesis(
        text, scores, times=piece_times(text, _timed_tokens(result, place))
    )


_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
LAST_TOKEN = 0.2
"""Seconds that the last token of an utterance is taken to last: sherpa does not say its
end.
"""


def _timed_tokens(result: Mapping[str, Any], place: str) -> list[_Word]:
    """sherpa's tokens: each ends where the next one starts."""
    tokens, starts = result.get("tokens", []), result.get("timestamps", [])
    if (
        not isinstance(tokens, list)
        or not isinstance(starts, list)
        or len(tokens) != len(starts)
    ):
        return []
    times = [(*pair, False) for pair in pairwise(starts)] + [
        (start, LAST_TOKEN, True) for start in starts[-1:]
    ]
    texts = [str(token).replace("\u2581", "") for token in tokens]
    return _in_order(
        (text, *Span.read(start, end, place, lasts))
        for text, (start, end, lasts) in zip(texts, times, strict=True)
    )


class _Wenet:
    """WeNet's `decoder_main --output_nbest`: a line `wav ID`, then `candidate SCORE
    TEXT` for each hypothesis.
    """

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n", 2)[:2] if line]
        marks = [line.partition(" ")[0] for line in lines]
        return marks == ["wav", "candidate"] or (
            marks == ["wav", "wav"] and "\ncandidate " in source.head
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The score is the total, a natural logarithm. WeNet leaves empty texts out: no
        candidate is one empty text.
        """
        for nbest in grouped(self._entries(source), source.name):
            nbest.hypotheses = nbest.hypotheses or [Hypothesis("", {FIRST_PASS: 0.0})]
            yield nbest

    def _entries(self, source: Source) -> Iterator[tuple[str, NbestList]]:
        name = ""
        for place, line in source.filled():
            mark, _, rest = line.partition(" ")
            if mark == "wav" and rest.strip():
                name = rest.strip()
                yield name, NbestList(name, [])
            elif mark == "candidate" and name:
                score, _, text = rest.partition(" ")
                yield (
                    name,
                    NbestList(
                        name,
                        [
                            Hypothesis(
                                strip_markup(text),
                                {FIRST_PASS: as_number(score, place)},
                            )
                        ],
                    ),
                )
            else:
                raise UserError(f"{place}: expected `wav ID` or `candidate SCORE TEXT`")


_WIDTH = re.compile(r"width(\d+)")


class _NemoBeams:
    """NeMo's beams file: `text<TAB>score` lines, the same number of them for each
    utterance.
    """

    Options = ListSize
    place = Place.SHAPE

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n")[:20] if line]
        cells = [line.split("\t") for line in lines[: max(1, len(lines) - 1)]]
        return bool(cells) and all(
            len(row) == 2 and NUMBER.fullmatch(row[1]) is not None for row in cells
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Ids are numbers from 1. The width of the beam is in the file's name, or given
        by --nbest-size.
        """
        width = _WIDTH.search(source.path.name)
        size = options.of(ListSize).size or (int(width[1]) if width else None)
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with"
                " --nbest-size N (the beam width)"
            )
        lines = enumerate(source.lines(), 1)
        hypotheses = (
            self._hypothesis(line, f"{source.name}: line {number}")
            for number, line in lines
        )
        yield from portions(hypotheses, size, source.name)

    def _hypothesis(self, line: str, place: str) -> Hypothesis:
        text, tab, score = line.rpartition("\t")
        if not tab:
            raise UserError(f"{place}: expected `text<TAB>score`")
        return Hypothesis(strip_markup(text), {FIRST_PASS: as_number(score, place)})


class _Whisper:
    """JSON of Whisper (OpenAI's, faster-whisper's, whisper.cpp's): one file a
    recording, made of segments.
    """

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return any(map(self.sniff, source.files(_is_json)[:1]))
        peek = source.peek
        if "transcription" in peek.keys:  # whisper.cpp
            return isinstance(peek.first["transcription"], list)
        return "segments" in peek.keys or (
            peek.root == "[" and {"avg_logprob", "text"} <= set(peek.keys)
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """A recording is a list of one hypothesis, called after the file.

        Its score is the sum over segments of `avg_logprob` times the number that
        Whisper divided by: tokens and end.
        """
        for file in source.files(_is_json):
            document = loads(file.read_all(), file.name)
            known = document if isinstance(document, dict) else {"segments": document}
            segments = known.get("transcription", known.get("segments"))
            if not isinstance(segments, list):
                raise UserError(
                    f'{file.name}: expected a list of segments, with "text" in each'
                )
            texts, times, score = [], [], 0.0
            for number, segment in enumerate(segments, 1):
                place = f"{file.name}: segment {number}"
                texts += _text_in(segment, place).split()
                times += _cpp_words(segment, place) or _timed_words(
                    segment, "words", place
                )
                tokens, logprob = segment.get("tokens"), segment.get("avg_logprob")
                divisor = len(tokens) + 1 if isinstance(tokens, list) else 1
                score += (
                    math.nan
                    if logprob is None
                    else json_number(logprob, place, "avg_logprob") * divisor
                )
            scores = {} if math.isnan(score) or not segments else {FIRST_PASS: score}
            text = " ".join(texts)
            yield NbestList(
                stem_of(file),
                [Hypothesis(text, scores, times=piece_times(text, times))],
            )


def _cpp_words(segment: Mapping[str, Any], place: str) -> list[_Word]:
    """The words of a segment of whisper.cpp, which share its time (in milliseconds) by
    letters.
    """
    offsets, words = segment.get("offsets"), segment["text"].split()
    if not isinstance(offsets, dict):
        return []
    if not offsets.keys() >= {"from", "to"}:
        raise UserError(f'{place}: offsets: "from" and "to" are missing')
    try:
        span = Span.read(offsets["from"], offsets["to"], place, unit=1e-3)
    except BackwardsError:
        return []
    return [
        (word, *times) for word, times in zip(words, spread(words, span), strict=True)
    ]


class _Parakeet:
    """parakeet.cpp: one JSON object per recording, with `words`, or with the
    `hypotheses` of its beam search.
    """

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return any(map(self.sniff, source.files(_is_json)[:1]))
        return "frame_sec" in source.peek.keys and bool(
            {"text", "hypotheses"} & set(source.peek.keys)
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """A recording is called after its file. The score of a hypothesis is a sum over
        tokens, a natural logarithm.
        """
        for file in source.files(_is_json):
            result = loads(file.read_all(), file.name)
            several = (
                result.get("hypotheses", [result]) if isinstance(result, dict) else None
            )
            if not isinstance(several, list):
                raise UserError(
                    f'{file.name}: expected an object with "text" or a list of'
                    ' "hypotheses"'
                )
            yield NbestList(
                stem_of(file), [self._hypothesis(entry, file.name) for entry in several]
            )

    def _hypothesis(self, entry: Any, place: str) -> Hypothesis:
        text = strip_markup(_text_in(entry, place))
        scores = (
            {FIRST_PASS: json_number(entry["score"], place)}
            if entry.get("score") is not None
            else {}
        )
        return Hypothesis(
            text, scores, times=piece_times(text, _timed_words(entry, "words", place))
        )


class _BrainToText:
    """Answers of the brain-to-text language model server: a line per trial, five fields
    per hypothesis, which are its text and its acoustic, n-gram, LLM and total scores,
    with semicolons between all fields.
    """

    def sniff(self, source: Source) -> bool:
        # four: the line is damaged
        fields = source.head.partition("\n")[0].rstrip("\r").split(";")[:5]
        return (
            len(fields) > 3
            and all(map(NUMBER.fullmatch, fields[1:]))
            and not NUMBER.fullmatch(fields[0])
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Lists are numbered from 1. The total is the first pass; the other scores
        become columns. An empty line is an empty text.
        """
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            fields = line.split(";") if line.strip() else ["", "0", "0", "0", "0"]
            if len(fields) % 5:
                raise UserError(
                    f"{place}: {len(fields)} fields; expected"
                    " `text;acoustic;ngram;llm;total` per hypothesis"
                )
            yield NbestList(
                str(number), list(self._hypotheses(fields, place)), header=_PARTS
            )

    def _hypotheses(self, fields: list[str], place: str) -> Iterator[Hypothesis]:
        for first in range(0, len(fields), 5):
            text, *parts, total = fields[first : first + 5]
            scores = {FIRST_PASS: as_number(total, place)}
            scores |= {
                name: as_number(part, place, name)
                for name, part in zip(_PARTS.columns, parts, strict=True)
            }
            yield Hypothesis(strip_markup(text), scores)


_PARTS = Header(
    columns=dict.fromkeys(
        ("acoustic", "ngram", "llm"), Column.component("brain-to-text")
    )
)


def _is_json(path: Path) -> bool:
    return path.suffix == ".json"


class _Services:
    """Alternatives for each phrase of a recording, one file a recording: Azure, Google,
    AWS, Vosk.

    Azure     {"NBest": [{"Lexical": "a b", "Confidence": 0.9, "Words": [...]}, ...]}
    Google    {"results": [{"alternatives": [{"transcript": "a b", "confidence": 0.9,
                                              "words": [...]}, ...]}, ...]}
    AWS       {"results": {"segments": [{"alternatives": [{"transcript": "a b"},
                                                          ...]}, ...]}}
              {"results": {"transcripts": [{"transcript": "a b"}], "items": [...]}}
    Vosk      {"alternatives": [{"text": "a b", "confidence": 231.4,
                                 "result": [...]}, ...]}
    """

    def sniff(self, source: Source) -> bool:
        keys, inner = set(source.peek.keys), set(source.peek.inner)
        if source.peek.root != "{":
            return False
        results = (
            "results" in keys
            and not keys & {"utts", "hyps"}
            and (not inner or bool(inner & _RESULTS))
        )
        return results or bool(keys & {"NBest", "alternatives"})

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """A phrase is a list, called after the file and (where there are several) its
        number.

        Confidences are probabilities, whose natural log is the score; Vosk's are scores
        as they are. If an alternative has no confidence, or 0.0 (Google's mark for "not
        set"), the order is the first pass.
        """
        phrases = [
            phrase
            for _, value, place in records_of(source)
            for phrase in _phrases(value, place)
        ]
        for number, (place, alternatives) in enumerate(phrases, 1):
            name = (
                stem_of(source) if len(phrases) == 1 else f"{stem_of(source)}-{number}"
            )
            yield NbestList(
                name, _hypotheses(alternatives, place), recording=stem_of(source)
            )


_RESULTS = {"alternatives", "transcripts", "segments", "items"}
_KEYS = {
    "Lexical": ("Confidence", "Words"),
    "transcript": ("confidence", "words"),
    "text": ("confidence", "result"),
}
"""The keys of an alternative: the text, its confidence, and its words with times."""


def _phrases(value: Any, place: str) -> Iterator[tuple[str, list[Any]]]:
    """The alternatives of each phrase, with the place for errors."""
    results = value.get("results") if isinstance(value, dict) else None
    if isinstance(results, dict):  # AWS
        results = results.get("segments", _transcript(results))
    if not isinstance(results, list):
        yield place, _alternatives(value, place)
        return
    for number, phrase in enumerate(results, 1):
        # Google has phrases without speech
        if alternatives := _alternatives(phrase, f"{place}, phrase {number}"):
            yield f"{place}, phrase {number}", alternatives


def _transcript(results: dict[str, Any]) -> list[Any] | None:
    """AWS's results without alternatives as a phrase; a punctuation mark has no time
    and belongs to the word before.
    """
    words: list[dict[str, Any]] = []
    try:
        for item in results["items"]:
            content = str(item["alternatives"][0]["content"])
            if "end_time" in item:
                words.append(
                    {
                        "word": content,
                        "start": item.get("start_time"),
                        "end": item["end_time"],
                    }
                )
            elif words:
                words[-1]["word"] += content
        return [
            {
                "alternatives": [
                    {
                        "transcript": results["transcripts"][0]["transcript"],
                        "words": words,
                    }
                ]
            }
        ]
    except (KeyError, IndexError, TypeError):
        return None


def _alternatives(value: Any, place: str) -> list[Any]:
    alternatives = (
        value.get("NBest", value.get("alternatives"))
        if isinstance(value, dict)
        else None
    )
    if not isinstance(alternatives, list):
        raise UserError(
            f"{place}: no alternatives in it, such as NBest, or results with"
            " alternatives"
        )
    return alternatives


def _hypotheses(alternatives: list[Any], place: str) -> list[Hypothesis]:
    """The alternatives of a phrase, with scores where all have a confidence."""
    hypotheses, scores = [], []
    for rank, alternative in enumerate(alternatives, 1):
        here = f"{place}, alternative {rank}"
        known = alternative if isinstance(alternative, dict) else {}
        key = next((key for key in _KEYS if isinstance(known.get(key), str)), None)
        if key is None:
            raise UserError(f"{here}: no text, such as Lexical, transcript or text")
        confidence, words = _KEYS[key]
        text = strip_markup(known[key])
        hypotheses.append(
            Hypothesis(text, times=piece_times(text, _timed_words(known, words, here)))
        )
        if known.get(confidence) is not None:
            number = json_number(known[confidence], here, "confidence")
            scores += (
                [number] if key == "text" else [math.log(number)] if number > 0 else []
            )
    if len(scores) == len(hypotheses):
        for hypothesis, score in zip(hypotheses, scores, strict=True):
            hypothesis.scores[FIRST_PASS] = score
    return hypotheses


_TIMES = (
    ("word", "start", "end", False, 1.0),  # Whisper, Vosk
    ("w", "start", "end", False, 1.0),  # parakeet.cpp
    ("word", "startTime", "endTime", False, 1.0),  # Google, versions 1 and 2
    ("word", "startOffset", "endOffset", False, 1.0),
    ("Word", "Offset", "Duration", True, 1e-7),  # Azure
)
"""The forms of a word with times: the keys of word, start, and end or duration; whether
it is a duration; the unit, in seconds. Google leaves a start of 0 out.
"""


def _timed_words(value: Mapping[str, Any], key: str, place: str) -> list[_Word]:
    """The words in a list of words that have times."""
    words = value.get(key)
    known = (
        [word for word in words if isinstance(word, dict)]
        if isinstance(words, list)
        else []
    )
    return _in_order(
        (
            str(word.get(name, "")),
            *Span.read(word.get(start, 0), word[end], place, lasts, unit),
        )
        for word in known
        for name, start, end, lasts, unit in [
            form for form in _TIMES if {form[0], form[2]} <= word.keys()
        ][:1]
    )


def _in_order(words: Iterator[_Word]) -> list[_Word]:
    """The words; none if the times of a word run backwards, as Whisper's may."""
    try:
        return list(words)
    except BackwardsError:
        return []


ICEFALL = _Icefall()
SHERPA = _Sherpa()
WENET = _Wenet()
NEMO_BEAMS = _NemoBeams()
WHISPER = _Whisper()
PARAKEET = _Parakeet()
BRAIN_TO_TEXT = _BrainToText()
SERVICES = _Services()
