"""Speech recognisers that write JSON or lists of words: icefall, sherpa-onnx, WeNet,
NeMo, Whisper, cloud services and Vosk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rescore.columns import FIRST_PASS, Column
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
from rescore.nbest import Header, Hypothesis, NbestList

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
        """Yield a list for each cut, whose lines stand together.

        Several `hyp` lines are several hypotheses. There are no scores.
        """
        yield from grouped(self._entries(source), source.name, more_references=True)

    def _entries(self, source: Source) -> Iterator[tuple[str, NbestList]]:
        """Yield each line as a list of a reference or a hypothesis, with its id."""
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
                text = strip_markup(literal_words(words, place))
                yield name, NbestList(name, [Hypothesis(text)])


class _Sherpa:
    """sherpa-onnx: the name of a wave file, then its result as one line of JSON with
    `text`, `tokens`, `timestamps`.
    """

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return False
        for line in source.head.split("\n"):
            is_object = line.strip().startswith("{")
            if is_object and '"timestamps"' in line and '"tokens"' in line:
                return True
        return False

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each result.

        An utterance is called after the last wave file named before it, else after its
        place, from 1.

        The score is that in the file, else the sum of the tokens' log-probabilities
        where the decoder gave them. With `hypotheses` (several paths of modified beam
        search) these are the list.
        """
        name = ""
        number = 0
        for place, line in source.filled():
            if not line.lstrip().startswith("{"):
                name = _wave_file(line) or name
                continue
            result = loads(line, place, line=True)
            if not isinstance(result, dict):
                raise UserError(f'{place}: the key "text" is missing')
            number += 1
            entries = result.get("hypotheses") or [result]
            if not isinstance(entries, list):
                raise UserError(f"{place}: hypotheses is no list")
            hypotheses = [_sherpa_hypothesis(entry, place) for entry in entries]
            yield NbestList(name or str(number), hypotheses)
            name = ""


_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
LAST_TOKEN = 0.2
"""Seconds that the last token of an utterance is taken to last: sherpa does not say its
end.
"""


def _wave_file(line: str) -> str:
    """Return the utterance of the first wave file in a line, or an empty string."""
    for word in line.split():
        if word.lower().endswith(_AUDIO):
            return utterance_of(word)
    return ""


def _text_in(value: Any, place: str) -> str:
    """Return the text of an object."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise UserError(f'{place}: the key "text" is missing')
    return str(value["text"])


def _sherpa_hypothesis(result: Any, place: str) -> Hypothesis:
    """Return one path of sherpa's beam search."""
    text = strip_markup(_text_in(result, place))
    scores = {}
    # the name in older versions
    values = result.get("ys_log_probs", result.get("ys_probs"))
    if values:
        each = values if isinstance(values, list) else [values]
        numbers = [json_number(value, place, "the value of a token") for value in each]
        scores = {FIRST_PASS: sum(numbers)}
    if result.get("score") is not None:
        scores = {FIRST_PASS: json_number(result["score"], place)}
    times = piece_times(text, _timed_tokens(result, place))
    return Hypothesis(text, scores, times=times)


def _timed_tokens(result: Mapping[str, Any], place: str) -> list[_Word]:
    """Return sherpa's tokens with their times: each ends where the next one starts."""
    tokens = result.get("tokens", [])
    starts = result.get("timestamps", [])
    if not isinstance(tokens, list) or not isinstance(starts, list):
        return []
    if len(tokens) != len(starts):
        return []
    words: list[_Word] = []
    try:
        for number, token in enumerate(tokens):
            text = str(token).replace("\u2581", "")
            if number + 1 < len(starts):
                span = Span.read(starts[number], starts[number + 1], place)
            else:
                span = Span.read(starts[number], LAST_TOKEN, place, duration=True)
            words.append((text, *span))
    except BackwardsError:
        return []
    return words


class _Wenet:
    """WeNet's `decoder_main --output_nbest`: a line `wav ID`, then `candidate SCORE
    TEXT` for each hypothesis.
    """

    def sniff(self, source: Source) -> bool:
        first, *rest = source.head.split("\n", 2)
        if first.partition(" ")[0] != "wav" or not rest:
            return False
        second = rest[0].partition(" ")[0]
        if second == "wav":
            return "\ncandidate " in source.head
        return second == "candidate"

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each wave file; the score is the total, a natural log.

        WeNet leaves empty texts out: no candidate is one empty text.
        """
        for nbest in grouped(self._entries(source), source.name):
            nbest.hypotheses = nbest.hypotheses or [Hypothesis("", {FIRST_PASS: 0.0})]
            yield nbest

    def _entries(self, source: Source) -> Iterator[tuple[str, NbestList]]:
        """Yield each line as a list of at most one hypothesis, with its id."""
        name = ""
        for place, line in source.filled():
            mark, _, rest = line.partition(" ")
            if mark == "wav" and rest.strip():
                name = rest.strip()
                yield name, NbestList(name, [])
            elif mark == "candidate" and name:
                score, _, text = rest.partition(" ")
                scores = {FIRST_PASS: as_number(score, place)}
                hypothesis = Hypothesis(strip_markup(text), scores)
                yield name, NbestList(name, [hypothesis])
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
        if len(lines) > 1:
            lines.pop()  # it may be cut
        for line in lines:
            cells = line.split("\t")
            if len(cells) != 2 or not NUMBER.fullmatch(cells[1]):
                return False
        return bool(lines)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each beam; ids are numbers from 1.

        The width of the beam is in the file's name, or given by --nbest-size.
        """
        size = options.of(ListSize).size
        width = _WIDTH.search(source.path.name)
        if not size and width:
            size = int(width[1])
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with"
                " --nbest-size N (the beam width)"
            )
        yield from portions(self._hypotheses(source), size, source.name)

    def _hypotheses(self, source: Source) -> Iterator[Hypothesis]:
        """Yield the hypothesis of each line."""
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            text, tab, score = line.rpartition("\t")
            if not tab:
                raise UserError(f"{place}: expected `text<TAB>score`")
            scores = {FIRST_PASS: as_number(score, place)}
            yield Hypothesis(strip_markup(text), scores)


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
        """Yield each recording as a list of one hypothesis, called after the file.

        Its score is the sum over segments of `avg_logprob` times the number that
        Whisper divided by: tokens and end.
        """
        for file in source.files(_is_json):
            document = loads(file.read_all(), file.name)
            segments = document
            if isinstance(document, dict):
                segments = document.get("transcription", document.get("segments"))
            if not isinstance(segments, list):
                raise UserError(
                    f'{file.name}: expected a list of segments, with "text" in each'
                )
            yield NbestList(stem_of(file), [_whisper_hypothesis(segments, file.name)])


def _whisper_hypothesis(segments: Sequence[Any], name: str) -> Hypothesis:
    """Return the segments of a recording as one hypothesis.

    It has no score if a segment has no score.

    Args:
        segments: The segments of the document.
        name: The name of the file, for errors.
    """
    words: list[str] = []
    times: list[_Word] = []
    total = 0.0
    for number, segment in enumerate(segments, 1):
        place = f"{name}: segment {number}"
        words += _text_in(segment, place).split()
        times += _cpp_words(segment, place) or _timed_words(segment, "words", place)
        total += _segment_score(segment, place)
    text = " ".join(words)
    scores = {}
    if segments and not math.isnan(total):
        scores = {FIRST_PASS: total}
    return Hypothesis(text, scores, times=piece_times(text, times))


def _segment_score(segment: Mapping[str, Any], place: str) -> float:
    """Return the log-probability of a segment of Whisper; NaN if it has none."""
    logprob = segment.get("avg_logprob")
    if logprob is None:
        return math.nan
    tokens = segment.get("tokens")
    divisor = len(tokens) + 1 if isinstance(tokens, list) else 1
    return json_number(logprob, place, "avg_logprob") * divisor


def _cpp_words(segment: Mapping[str, Any], place: str) -> list[_Word]:
    """Return the words of a segment of whisper.cpp, which share its time (in
    milliseconds) by letters.
    """
    offsets = segment.get("offsets")
    if not isinstance(offsets, dict):
        return []
    if not offsets.keys() >= {"from", "to"}:
        raise UserError(f'{place}: offsets: "from" and "to" are missing')
    try:
        span = Span.read(offsets["from"], offsets["to"], place, unit=1e-3)
    except BackwardsError:
        return []
    words = segment["text"].split()
    times = spread(words, span)
    return [(word, *time) for word, time in zip(words, times, strict=True)]


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
        """Yield a list for each recording, called after its file.

        The score of a hypothesis is a sum over tokens, a natural log.
        """
        for file in source.files(_is_json):
            result = loads(file.read_all(), file.name)
            entries = None
            if isinstance(result, dict):
                entries = result.get("hypotheses", [result])
            if not isinstance(entries, list):
                raise UserError(
                    f'{file.name}: expected an object with "text" or a list of'
                    ' "hypotheses"'
                )
            hypotheses = [self._hypothesis(entry, file.name) for entry in entries]
            yield NbestList(stem_of(file), hypotheses)

    def _hypothesis(self, entry: Any, place: str) -> Hypothesis:
        """Return one entry of a result."""
        text = strip_markup(_text_in(entry, place))
        scores = {}
        if entry.get("score") is not None:
            scores = {FIRST_PASS: json_number(entry["score"], place)}
        times = piece_times(text, _timed_words(entry, "words", place))
        return Hypothesis(text, scores, times=times)


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
        """Yield a list for each line, numbered from 1.

        The total is the first pass; the other scores become columns. An empty line is
        an empty text.
        """
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            fields = line.split(";") if line.strip() else ["", "0", "0", "0", "0"]
            if len(fields) % 5:
                raise UserError(
                    f"{place}: {len(fields)} fields; expected"
                    " `text;acoustic;ngram;llm;total` per hypothesis"
                )
            hypotheses = list(self._hypotheses(fields, place))
            yield NbestList(str(number), hypotheses, header=_PARTS)

    def _hypotheses(self, fields: list[str], place: str) -> Iterator[Hypothesis]:
        """Yield a hypothesis for each five fields."""
        for first in range(0, len(fields), 5):
            text, *parts, total = fields[first : first + 5]
            scores = {FIRST_PASS: as_number(total, place)}
            for name, part in zip(_PARTS.records, parts, strict=True):
                scores[name] = as_number(part, place, name)
            yield Hypothesis(strip_markup(text), scores)


_PARTS = Header(
    records=dict.fromkeys(
        ("acoustic", "ngram", "llm"), Column.component("brain-to-text")
    )
)


def _is_json(path: Path) -> bool:
    """Return whether a file of a folder is JSON by its name."""
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
        if source.peek.root != "{":
            return False
        keys = set(source.peek.keys)
        if keys & {"NBest", "alternatives"}:
            return True
        if "results" not in keys or keys & {"utts", "hyps"}:
            return False
        inner = set(source.peek.inner)
        return not inner or bool(inner & _RESULTS)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each phrase, called after the file and (where there are
        several) its number.

        Confidences are probabilities, whose natural log is the score; Vosk's are scores
        as they are. If an alternative has no confidence, or 0.0 (Google's mark for "not
        set"), the order is the first pass.
        """
        phrases: list[tuple[str, list[Any]]] = []
        for _, value, place in records_of(source):
            phrases += _phrases(value, place)
        recording = stem_of(source)
        for number, (place, alternatives) in enumerate(phrases, 1):
            name = recording if len(phrases) == 1 else f"{recording}-{number}"
            hypotheses = _hypotheses(alternatives, place)
            yield NbestList(name, hypotheses, recording=recording)


_RESULTS = {"alternatives", "transcripts", "segments", "items"}
_KEYS = {
    "Lexical": ("Confidence", "Words"),
    "transcript": ("confidence", "words"),
    "text": ("confidence", "result"),
}
"""The keys of an alternative: the text, its confidence, and its words with times."""


def _phrases(value: Any, place: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the alternatives of each phrase, with the place for errors."""
    results = value.get("results") if isinstance(value, dict) else None
    if isinstance(results, dict):  # AWS
        results = results.get("segments", _transcript(results))
    if not isinstance(results, list):
        yield place, _alternatives(value, place)
        return
    for number, phrase in enumerate(results, 1):
        of_phrase = f"{place}, phrase {number}"
        alternatives = _alternatives(phrase, of_phrase)
        # Google has phrases without speech
        if alternatives:
            yield of_phrase, alternatives


def _transcript(results: dict[str, Any]) -> list[Any] | None:
    """Return AWS's results without alternatives as a phrase.

    A punctuation mark has no time and belongs to the word before.
    """
    words: list[dict[str, Any]] = []
    try:
        for item in results["items"]:
            content = str(item["alternatives"][0]["content"])
            if "end_time" in item:
                word = {"word": content, "start": item.get("start_time")}
                words.append(word | {"end": item["end_time"]})
            elif words:
                words[-1]["word"] += content
        text = results["transcripts"][0]["transcript"]
    except (KeyError, IndexError, TypeError):
        return None
    return [{"alternatives": [{"transcript": text, "words": words}]}]


def _alternatives(value: Any, place: str) -> list[Any]:
    """Return the alternatives of an object."""
    alternatives = None
    if isinstance(value, dict):
        alternatives = value.get("NBest", value.get("alternatives"))
    if not isinstance(alternatives, list):
        raise UserError(
            f"{place}: no alternatives in it, such as NBest, or results with"
            " alternatives"
        )
    return alternatives


def _hypotheses(alternatives: list[Any], place: str) -> list[Hypothesis]:
    """Return the alternatives of a phrase, with scores where all have a confidence."""
    hypotheses = []
    scores = []
    for rank, alternative in enumerate(alternatives, 1):
        of_alternative = f"{place}, alternative {rank}"
        fields = alternative if isinstance(alternative, dict) else {}
        key = next((key for key in _KEYS if isinstance(fields.get(key), str)), None)
        if key is None:
            raise UserError(
                f"{of_alternative}: no text, such as Lexical, transcript or text"
            )
        confidence, words = _KEYS[key]
        text = strip_markup(fields[key])
        times = piece_times(text, _timed_words(fields, words, of_alternative))
        hypotheses.append(Hypothesis(text, times=times))
        if fields.get(confidence) is None:
            continue
        number = json_number(fields[confidence], of_alternative, "confidence")
        if key == "text":  # Vosk's is a score
            scores.append(number)
        elif number > 0:
            scores.append(math.log(number))
    if len(scores) == len(hypotheses):
        for hypothesis, score in zip(hypotheses, scores, strict=True):
            hypothesis.scores[FIRST_PASS] = score
    return hypotheses


class _Form(NamedTuple):
    """The form of a word with times: the keys of its parts."""

    word: str
    start: str
    end: str
    """The key of the end, or of the duration."""
    lasts: bool = False
    """Whether the word has a duration."""
    unit: float = 1.0
    """The unit of times, in seconds."""


_FORMS = (
    _Form("word", "start", "end"),  # Whisper, Vosk
    _Form("w", "start", "end"),  # parakeet.cpp
    _Form("word", "startTime", "endTime"),  # Google, versions 1 and 2
    _Form("word", "startOffset", "endOffset"),
    _Form("Word", "Offset", "Duration", lasts=True, unit=1e-7),  # Azure
)
"""Google leaves a start of 0 out."""


def _timed_words(value: Mapping[str, Any], key: str, place: str) -> list[_Word]:
    """Return the words in a list of words that have times.

    No word is returned if the times of a word run backwards, as Whisper's may.

    Args:
        value: The object with the list.
        key: The key of the list.
        place: The place of the object, for errors.
    """
    entries = value.get(key)
    if not isinstance(entries, list):
        return []
    words: list[_Word] = []
    for entry in entries:
        form = _form_of(entry)
        if form is None:
            continue
        start = entry.get(form.start, 0)
        try:
            span = Span.read(start, entry[form.end], place, form.lasts, form.unit)
        except BackwardsError:
            return []
        words.append((str(entry.get(form.word, "")), *span))
    return words


def _form_of(entry: Any) -> _Form | None:
    """Return the form of a word with times, or None."""
    if not isinstance(entry, dict):
        return None
    for form in _FORMS:
        if form.word in entry and form.end in entry:
            return form
    return None


ICEFALL = _Icefall()
SHERPA = _Sherpa()
WENET = _Wenet()
NEMO_BEAMS = _NemoBeams()
WHISPER = _Whisper()
PARAKEET = _Parakeet()
BRAIN_TO_TEXT = _BrainToText()
SERVICES = _Services()
