"""Speech recognisers that write JSON or lists of words: icefall, sherpa-onnx, WeNet, NeMo, Whisper, cloud services
and Vosk.

Azure     {"NBest": [{"Lexical": "a b", "Confidence": 0.9}, ...]}, batch: {"recognizedPhrases": [{"nBest": ...}]}
Google    {"results": [{"alternatives": [{"transcript": "a b", "confidence": 0.9}, ...]}, ...]}
AWS       {"results": {"segments": [{"alternatives": [{"transcript": "a b", "items": [...]}, ...]}, ...]}}
Vosk      {"alternatives": [{"text": "a b", "confidence": 231.4}, ...]}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.source import ReadOptions, Source, utterance_of
from rescore.formats.tables import NUMBER
from rescore.formats.text import (
    ListSize,
    as_number,
    grouped,
    json_number,
    literal_words,
    portions,
    strip_markup,
)
from rescore.formats.times import piece_times
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList

WORD_LISTS = ("words", "Words", "result")
"""Keys of lists of words in the JSON of recognisers."""
TIMES = (("start", "end"), ("startTime", "endTime"), ("startOffset", "endOffset"))
"""Keys of a word's start and end, in seconds."""
_Word = tuple[str, float, float]
"""A word with its start and end, in seconds."""
_TICKS = 1e-7
"""Azure's unit of time, in seconds."""


def _timed_words(value: Mapping[str, Any], place: str) -> list[_Word]:
    """The words with times: Whisper's and Vosk's start and end, Google's startTime or startOffset, Azure's Offset."""
    words: list[Any] = next((value[key] for key in WORD_LISTS if isinstance(value.get(key), list)), [])
    return [timed for word in words if isinstance(word, dict) and (timed := _timed_word(word, place)) is not None]


def _timed_word(word: Mapping[str, Any], place: str) -> _Word | None:
    text = str(word.get("word", word.get("Word", "")))
    if "Offset" in word and "Duration" in word:
        start = json_number(word["Offset"], place, "Offset") * _TICKS
        return text, start, start + json_number(word["Duration"], place, "Duration") * _TICKS
    for first, last in TIMES:
        if last in word:  # Google leaves a start of 0 out, and writes "1.300s"
            begins, ends = (str(word.get(key, 0)).removesuffix("s") for key in (first, last))
            return text, as_number(begins, place, first), as_number(ends, place, last)
    return None


def _timed_tokens(result: Mapping[str, Any], place: str) -> list[_Word]:
    """sherpa's tokens: each ends where the next one starts."""
    tokens, stamps = result.get("tokens"), result.get("timestamps")
    if not isinstance(tokens, list) or not isinstance(stamps, list) or len(tokens) != len(stamps):
        return []
    starts = [json_number(stamp, place, "a timestamp") for stamp in stamps]
    ends = [*starts[1:], *(start + LAST_TOKEN for start in starts[-1:])]
    texts = [str(token).replace("\u2581", "") for token in tokens]
    return list(zip(texts, starts, ends, strict=True))


LAST_TOKEN = 0.2
"""Seconds that the last token of an utterance is taken to last: sherpa does not say its end."""


class _Icefall:
    """icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and `cut-id:<TAB>hyp=['A', 'C']`."""

    def sniff(self, source: Source) -> bool:
        return _recog(source.head.lstrip().partition("\n")[0]) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The lines of one cut stand together; several `hyp` lines are several hypotheses. There are no scores."""
        entries = (_cut(line, place) for place, line in source.filled())
        yield from grouped((entry for entry in entries if entry is not None), source.name, more_references=True)


_RECOG_TIMES = ("timestamp_ref", "timestamp_hyp")


def _recog(line: str) -> tuple[str, str, str] | None:
    """The id, the kind and the rest of a line `id:<TAB>ref=[...]`; None for other lines."""
    head, equals, rest = line.partition("=")
    cells = head.split()
    if not equals or len(cells) != 2 or not cells[0].endswith(":") or cells[1] not in ("ref", "hyp", *_RECOG_TIMES):
        return None
    return cells[0][:-1], cells[1], rest


def _cut(line: str, place: str) -> tuple[str, NbestList] | None:
    recog = _recog(line)
    if recog is None:
        raise UserError(f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`")
    name, kind, rest = recog
    if kind in _RECOG_TIMES:
        return None
    text = literal_words(rest, place)
    return name, NbestList(name, [], (text,)) if kind == "ref" else NbestList(name, [Hypothesis(strip_markup(text))])


class _Sherpa:
    """sherpa-onnx: the name of a wave file, then its result as one line of JSON with `text`, `tokens`, `timestamps`."""

    def sniff(self, source: Source) -> bool:
        return not source.is_folder and any(
            line.startswith("{") and '"timestamps"' in line and '"tokens"' in line
            for line in map(str.strip, source.head.split("\n"))
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """An utterance is called after the last wave file named before it, else after its place, from 1.

        The score is the sum of the tokens' log-probabilities where the decoder gave them.
        """
        name, number = None, 0
        for place, line in source.filled():
            if not line.lstrip().startswith("{"):
                name = next((utterance_of(word) for word in line.split() if word.lower().endswith(_AUDIO)), name)
                continue
            result = loads(line, place, line=True)
            if not isinstance(result, dict) or not isinstance(result.get("text"), str):
                raise UserError(f'{place}: the key "text" is missing')
            number += 1
            values = next((result[key] for key in _PROBABILITIES if result.get(key)), None)
            scores = {} if values is None else {FIRST_PASS: _total(values, place)}
            scores |= {column: _total(result[key], place) for column, key in _COMPONENTS.items() if result.get(key)}
            text = strip_markup(result["text"])
            hypothesis = Hypothesis(text, scores, times=piece_times(text, _timed_tokens(result, place)))
            yield NbestList(name or str(number), [hypothesis], provenance=_COLUMNS)
            name = None


class _Wenet:
    """WeNet's `decoder_main --output_nbest`: a line `wav ID`, then `candidate SCORE TEXT` for each hypothesis."""

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n", 2)[:2] if line]
        marks = [line.partition(" ")[0] for line in lines]
        return marks == ["wav", "candidate"] or (marks == ["wav", "wav"] and "\ncandidate " in source.head)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The score is the total, a natural logarithm. WeNet leaves empty texts out: no candidate is one empty text."""
        nbest: NbestList | None = None
        for place, line in source.filled():
            mark, _, rest = line.partition(" ")
            if mark == "wav" and rest.strip():
                if nbest is not None:
                    yield _or_empty(nbest)
                nbest = NbestList(rest.strip(), [])
            elif mark == "candidate" and nbest is not None:
                score, _, text = rest.partition(" ")
                nbest.hypotheses.append(Hypothesis(strip_markup(text), {FIRST_PASS: as_number(score, place)}))
            else:
                raise UserError(f"{place}: expected `wav ID` or `candidate SCORE TEXT`")
        if nbest is not None:
            yield _or_empty(nbest)


def _or_empty(nbest: NbestList) -> NbestList:
    nbest.hypotheses = nbest.hypotheses or [Hypothesis("", {FIRST_PASS: 0.0})]
    return nbest


_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
_PROBABILITIES = ("ys_log_probs", "ys_probs", "token_log_probs")
_COMPONENTS = {"lm": "lm_probs", "context": "context_scores"}
"""Columns, and the fields with their values for each token."""
_COLUMNS = {name: Column.component("sherpa") for name in _COMPONENTS}


def _total(values: Any, place: str) -> float:
    if not isinstance(values, list):
        raise UserError(f"{place}: log-probabilities of tokens are not a list of numbers")
    return sum(json_number(value, place, "a token's log-probability") for value in values)


_WIDTH = re.compile(r"width(\d+)")


class _NemoBeams:
    """NeMo's beams file: `text<TAB>score` lines, the same number of them for each utterance."""

    Options = ListSize

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n")[:20] if line]
        cells = [line.split("\t") for line in lines[: max(1, len(lines) - 1)]]
        return bool(cells) and all(len(row) == 2 and NUMBER.fullmatch(row[1]) is not None for row in cells)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Ids are numbers from 1. The width of the beam is in the file's name, or given by --nbest-size."""
        width = _WIDTH.search(source.path.name)
        size = options.of(ListSize).size or (int(width[1]) if width else None)
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with --nbest-size N (the beam width)"
            )
        lines = enumerate(source.lines(), 1)
        hypotheses = (self._hypothesis(line, f"{source.name}: line {number}") for number, line in lines)
        yield from portions(hypotheses, size, source.name)

    def _hypothesis(self, line: str, place: str) -> Hypothesis:
        text, tab, score = line.rpartition("\t")
        if not tab:
            raise UserError(f"{place}: expected `text<TAB>score`")
        return Hypothesis(strip_markup(text), {FIRST_PASS: as_number(score, place)})


class _Whisper:
    """JSON of Whisper (OpenAI's, faster-whisper's, whisper.cpp's likes): one file a recording, made of segments."""

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return any(map(self.sniff, source.files(_is_json)[:1]))
        peek = source.peek
        return "segments" in peek.keys or (peek.root == "[" and {"avg_logprob", "text"} <= set(peek.keys))

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """A recording is a list of one hypothesis, called after the file.

        Its score is the sum over segments of `avg_logprob` times the number that Whisper divided by: tokens and end.
        """
        if source.is_folder:
            for file in source.files(_is_json):
                yield from self.read(file, options)
            return
        document = loads(source.read_all(), source.name)
        segments = document.get("segments") if isinstance(document, dict) else document
        if not isinstance(segments, list) or any(not isinstance(segment, dict) for segment in segments):
            raise UserError(f'{source.name}: expected a list of segments, with "text" in each')
        texts, scores = [], []
        times: list[_Word] = []
        for number, segment in enumerate(segments, 1):
            text = segment.get("text")
            if not isinstance(text, str):
                raise UserError(f'{source.name}: segment {number}: the key "text" is missing')
            texts.append(text.strip())
            scores.append(_segment_score(segment, f"{source.name}: segment {number}"))
            times += _timed_words(segment, f"{source.name}: segment {number}")
        numbers = [score for score in scores if score is not None]
        first_pass = {FIRST_PASS: sum(numbers)} if segments and len(numbers) == len(segments) else {}
        text = " ".join(" ".join(texts).split())
        yield NbestList(source.stem, [Hypothesis(text, first_pass, times=piece_times(text, times))])


def _is_json(path: Path) -> bool:
    return path.suffix == ".json"


def _segment_score(segment: dict[str, Any], place: str) -> float | None:
    mean, tokens = segment.get("avg_logprob"), segment.get("tokens")
    if mean is None:
        return None
    return json_number(mean, place, "avg_logprob") * (len(tokens) + 1 if isinstance(tokens, list) else 1)


class _Services:
    """Alternatives for each phrase of a recording, one file a recording: Azure, Google, AWS, Vosk."""

    def sniff(self, source: Source) -> bool:
        keys, inner = set(source.peek.keys), set(source.peek.inner)
        if source.peek.root != "{":
            return False
        results = "results" in keys and not keys & {"utts", "hyps"} and (not inner or bool(inner & _RESULTS))
        return results or bool(keys & {*_ALTERNATIVES, "recognizedPhrases"})

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """A phrase is a list, called after the file and (where there are several) its number.

        Confidences are probabilities, whose natural log is the score; Vosk's are scores as they are. If an alternative
        has none, or all but the first have 0.0 (Google's mark for "not set"), the order is the first pass.
        """
        phrases = [phrase for place, value in _documents(source) for phrase in _phrases(value, place)]
        for number, (place, alternatives) in enumerate(phrases, 1):
            name = source.stem if len(phrases) == 1 else f"{source.stem}-{number}"
            yield NbestList(name, _hypotheses(alternatives, place), recording=source.stem)


_ALTERNATIVES = ("NBest", "nBest", "alternatives")
_RESULTS = {"alternatives", "transcripts", "segments", "items"}
_TEXTS = ("Lexical", "lexical", "transcript", "text", "Display", "display")


def _documents(source: Source) -> Iterator[tuple[str, Any]]:
    if source.peek.lines:
        for place, text in source.filled():
            yield place, loads(text, place, line=True)
    else:
        yield source.name, loads(source.read_all(), source.name)


def _phrases(value: Any, place: str) -> Iterator[tuple[str, list[Any]]]:
    """The alternatives of each phrase, with the place for errors."""
    if (alternatives := _alternatives(value)) is not None:
        yield place, alternatives
        return
    phrases = value.get("recognizedPhrases", value.get("results")) if isinstance(value, dict) else None
    phrases = phrases.get("segments") if isinstance(phrases, dict) else phrases
    if not isinstance(phrases, list):
        raise UserError(f"{place}: no alternatives in it, such as NBest, or results with alternatives")
    for number, phrase in enumerate(phrases, 1):
        alternatives = _alternatives(phrase)
        if alternatives is None:
            raise UserError(f"{place}, phrase {number}: no alternatives in it")
        if alternatives:  # Google has phrases without speech
            yield f"{place}, phrase {number}", alternatives


def _alternatives(value: Any) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _ALTERNATIVES if isinstance(value.get(key), list)), None)


def _hypotheses(alternatives: list[Any], place: str) -> list[Hypothesis]:
    """The alternatives of a phrase, with scores where all have one."""
    hypotheses, scores = [], []
    for rank, alternative in enumerate(alternatives, 1):
        known = alternative if isinstance(alternative, dict) else {}
        key = next((key for key in _TEXTS if isinstance(known.get(key), str)), None)
        if key is None:
            raise UserError(f"{place}, alternative {rank}: no text, such as Lexical, transcript or text")
        text = strip_markup(known[key])
        words = _timed_words(known, f"{place}, alternative {rank}")
        hypotheses.append(Hypothesis(text, times=piece_times(text, words)))
        confidence = known.get("Confidence", known.get("confidence"))
        if confidence is not None:
            number = json_number(confidence, f"{place}, alternative {rank}", "confidence")
            scores.append(number if key == "text" else math.log(number) if number > 0 else -math.inf)
    # Google writes 0.0 for a confidence that is not set.
    unset = all(score == -math.inf for score in scores[1:]) and (len(scores) > 1 or scores == [-math.inf])
    if len(scores) == len(hypotheses) and not unset:
        for hypothesis, score in zip(hypotheses, scores, strict=True):
            hypothesis.scores[FIRST_PASS] = score
    return hypotheses


ICEFALL = _Icefall()
SHERPA = _Sherpa()
WENET = _Wenet()
NEMO_BEAMS = _NemoBeams()
WHISPER = _Whisper()
SERVICES = _Services()
