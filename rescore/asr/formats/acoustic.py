"""Lists with an acoustic and an LM score for each hypothesis: Kaldi's folders and SRILM's files."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.files import path_for
from rescore.formats.source import AcousticScale, ReadOptions, Source
from rescore.formats.text import as_number, grouped, numbered, split_id, strip_markup, table
from rescore.formats.writing import check_holds, checked_id, line, new_folder, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList, free_name

log = logging.getLogger(__name__)

ACOUSTIC, LANGUAGE = "am", "lm"
"""Columns of the acoustic score, and of the score of the language model (Kaldi's graph)."""
_WORDS = [name + packed for name in ("words_text", "words", "text", "nbest") for packed in ("", ".gz")]
_ACOUSTIC_COSTS, _GRAPH_COSTS = ("acwt", "ac_cost"), ("lmwt.withlm", "lmwt", "lm_cost", "lmwt.nolm")
_NUMBERED = re.compile(r"(.+)-(\d{1,9})")
_ARCHIVES = re.compile(r"archives\.(\d+)")


class _Kaldi:
    """A folder of archives in text form, as `nbest-to-linear` and `steps/rnnlmrescore.sh` leave it.

    `words_text` (or `text`) has the lines `utt-1 words`, `utt-2 words`, ...; `acwt` (or `ac_cost`) and `lmwt.withlm`
    (or `lmwt`, `lm_cost`, `lmwt.nolm`) the acoustic and the graph costs. Costs are negative logs: as scores they change
    sign. Any file may be gzipped.
    """

    Options = AcousticScale
    SCALE = 1 / 12
    """Kaldi's own default, --inv-acwt 12."""
    _column = Column.component("kaldi")

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return bool(self._parts(source.path))
        first = split_id(source.head.partition("\n")[0])[0]
        return source.is_regular and _NUMBERED.fullmatch(first) is not None and bool(self._costs(source.path.parent))

    def _parts(self, path: Path) -> list[Path]:
        """The files of words in the folder itself, or in its archives.1, archives.2, ..."""
        archives = numbered(path, _ARCHIVES)
        folders = archives or [path]
        texts = [next((part / name for name in _WORDS if (part / name).is_file()), None) for part in folders]
        return [text for text in texts if text is not None and (archives or self._costs(text.parent))]

    def _costs(self, folder: Path) -> dict[str, Path]:
        """Files of costs by their names without .gz."""
        files = {path.name.removesuffix(".gz"): path for path in sorted(folder.iterdir()) if path.is_file()}
        known = (*_ACOUSTIC_COSTS, *_GRAPH_COSTS)
        return {name: path for name, path in files.items() if name in known or name.startswith("lmwt.")}

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """`s2s` is the graph score and the acoustic score times --acoustic-scale (1/12); both have columns, too."""
        scale = options.of(AcousticScale).acoustic_scale
        for path in self._parts(source.path) if source.is_folder else [source.path]:
            words = Source(path, source.warnings) if source.is_folder else source
            costs = {name: table(file, source.warnings) for name, file in self._costs(path.parent).items()}
            yield from self._lists(words, costs, self.SCALE if scale is None else scale)

    def _lists(self, words: Source, costs: dict[str, dict[str, str]], scale: float) -> Iterator[NbestList]:
        graph = next((name for name in _GRAPH_COSTS if name in costs), None)
        columns: dict[str, Column] = {}

        def entry(text: str, place: str) -> tuple[str, NbestList]:
            key, said = split_id(text)
            match = _NUMBERED.fullmatch(key)
            if not match:
                raise UserError(f"{place}: expected `utterance-1 words`, found {key!r}")
            scores: dict[str, float] = {}
            for name, values in costs.items():
                file = words.path.parent / name
                if key not in values:
                    raise UserError(f"{file}: no cost for {key}, but {words.name} contains it")
                column = name.removeprefix("lmwt.")
                # A name like `lmwt.s2s` does not make a column the first pass.
                column = free_name(column) if column == FIRST_PASS else column
                column = ACOUSTIC if name in _ACOUSTIC_COSTS else FIRST_PASS if name == graph else column
                scores[column] = -as_number(values[key].split(",")[0], f"{file}: {key}", "cost")
            if scores:
                language = scores.pop(FIRST_PASS, 0.0)
                total = language + scale * scores.get(ACOUSTIC, 0.0)
                both = {ACOUSTIC: scores.pop(ACOUSTIC), LANGUAGE: language} if ACOUSTIC in scores else {}
                scores = {FIRST_PASS: total, **both, **scores}
            columns.update((name, self._column) for name in scores if name != FIRST_PASS and name not in columns)
            return match[1], NbestList(match[1], [Hypothesis(strip_markup(said), scores)], provenance=columns)

        yield from grouped((entry(text, place) for place, text in words.filled()), words.name)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """`words_text`, `lmwt.withlm` and, of lists with an acoustic score, `acwt`; other columns as `lmwt.NAME`.

        Graph cost and acoustic cost, at Kaldi's scale, give the first-pass score.
        """
        changed = False
        with new_folder(path) as target, ExitStack() as stack:
            words = stack.enter_context(opened(str(target / "words_text")))
            files: dict[str, IO[str]] = {}
            for nbest in check_holds(lists, frozenset({"components"}), path):
                for rank, hypothesis in enumerate(nbest.hypotheses, 1):
                    key = f"{checked_id(nbest, path)}-{rank}"
                    words.write(f"{key} {line(hypothesis.text)}".rstrip() + "\n")
                    costs, same = self._costs_of(hypothesis)
                    changed |= not same
                    for name, score in costs.items():
                        if name not in files:
                            files[name] = stack.enter_context(opened(str(path_for(target, name, "the column"))))
                        files[name].write(f"{key} {-score!r}\n")
        if changed:
            log.warning(
                "%s: first-pass scores are not written: the format only holds lm and am, with the sum lm + am / 12",
                path,
            )

    def _costs_of(self, hypothesis: Hypothesis) -> tuple[dict[str, float], bool]:
        """The scores that become costs, by the names of their files; and whether the first pass can be read back."""
        scores = dict(hypothesis.scores)
        total, acoustic, graph = scores.pop(FIRST_PASS), scores.pop(ACOUSTIC, None), scores.pop(LANGUAGE, None)
        if graph is None or acoustic is None:
            if graph is not None:
                scores[LANGUAGE] = graph
            graph = _without(total, acoustic or 0.0, self.SCALE)
        costs = {"lmwt.withlm": graph, **({} if acoustic is None else {"acwt": acoustic})}
        same = _close(graph + self.SCALE * (acoustic or 0.0), total)
        return costs | {f"lmwt.{name}": score for name, score in scores.items()}, same


def _without(total: float, acoustic: float, scale: float) -> float:
    """A total without its acoustic part."""
    return total - scale * acoustic if math.isfinite(acoustic) else total


def _close(score: float, other: float) -> bool:
    return score == other or math.isclose(score, other, rel_tol=1e-6, abs_tol=1e-6)


BYTELOG = 1024 / 10000.5
"""One bytelog in natural logs, as SRILM converts."""
LN10 = math.log(10)
_LOG = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[ \t]+"
_OWN = re.compile(rf"{_LOG}{_LOG}\d+(?:[ \t]|$)", re.IGNORECASE)
_SRILM_COLUMNS = {name: Column.component("srilm") for name in (ACOUSTIC, LANGUAGE)}
_SILENT = {"<s>", "</s>", "-pau-", "<pau>"}
_WORD_FIELDS = 11  # of NBestList2.0: w ( st: 0.1 et: 0.2 g: -10 a: -20 )


class _Srilm:
    """SRILM N-best lists (nbest-format(5)): one file per utterance, named after it; or a folder of such files.

    Three formats: `NBestList1.0` with one total, `NBestList2.0` with times and scores of words, both in bytelogs, and
    SRILM's own lines `acoustic language words w1 w2 ...` in logs of base 10.
    """

    Options = AcousticScale
    SCALE = 1 / 8
    """SRILM's own default, a language model weight of 8."""

    def sniff(self, source: Source) -> bool:
        files = source.files()[:1]
        head = files[0].head if files else ""
        return head.startswith(("NBestList1.0", "NBestList2.0")) or _OWN.match(head) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """`s2s` is the total, or the LM score and the acoustic score times --acoustic-scale (1/8), which have
        columns."""
        scale = options.of(AcousticScale).acoustic_scale
        scale = self.SCALE if scale is None else scale
        for file in source.files():
            lines = file.lines()
            first = next(lines, "")
            kind = first.strip() if first.startswith("NBestList") else ""
            nbest = NbestList(file.stem, [], provenance=_SRILM_COLUMNS)
            for number, text in enumerate(lines if kind else chain([first], lines), 2 if kind else 1):
                if text.strip():
                    nbest.hypotheses.append(_hypothesis(text.split(), kind, scale, f"{file.name}: line {number}"))
            yield nbest

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """One gzipped file per utterance, in SRILM's own format: the LM score's field holds all but the acoustic
        score."""
        lost: dict[str, None] = {}
        with new_folder(path) as target:
            for nbest in check_holds(lists, frozenset({ACOUSTIC, LANGUAGE}), path):
                with opened(str(path_for(target, f"{checked_id(nbest, path, '/.')}.gz", "the id"))) as file:
                    for hypothesis in nbest.hypotheses:
                        acoustic, language = self._written(hypothesis, lost)
                        words = line(hypothesis.text)
                        cells = f"{acoustic / LN10!r} {language / LN10!r} {len(words.split())} {words}"
                        file.write(cells.rstrip() + "\n")
        if lost:
            log.warning(
                "%s: not written: %s; SRILM's files only hold am, and the first-pass score minus am / 8",
                path,
                ", ".join(lost),
            )

    def _written(self, hypothesis: Hypothesis, lost: dict[str, None]) -> tuple[float, float]:
        """The acoustic and the LM score for the file; scores that cannot be read back from it are put into `lost`."""
        total, scores = hypothesis.scores[FIRST_PASS], hypothesis.scores
        acoustic = scores.get(ACOUSTIC, 0.0)
        language = _without(total, acoustic, self.SCALE)
        if not _close(language + self.SCALE * acoustic, total):
            lost["first-pass scores"] = None
        if LANGUAGE in scores and not (acoustic and _close(scores[LANGUAGE], language)):
            lost["column lm"] = None
        if ACOUSTIC in scores and not acoustic:
            lost["column am where it is 0"] = None
        return acoustic, language


def _hypothesis(cells: list[str], kind: str, scale: float, place: str) -> Hypothesis:
    if not kind:
        if len(cells) < 3:
            raise UserError(f"{place}: expected `acoustic language words w1 w2 ...`")
        acoustic, language = (as_number(cell, place) * LN10 for cell in cells[:2])
        words = cells[3:]
    else:
        total = as_number(cells[0].strip("()"), place) * BYTELOG
        if kind == "NBestList1.0":
            return Hypothesis(_text(cells[1:]), {FIRST_PASS: total})
        words, acoustic, language = _timed(cells[1:], place)
    scores = {FIRST_PASS: language + scale * acoustic, ACOUSTIC: acoustic, LANGUAGE: language}
    return Hypothesis(_text(words), scores if acoustic else {FIRST_PASS: language})


def _timed(cells: list[str], place: str) -> tuple[list[str], float, float]:
    """Words and their acoustic and LM scores; the phones and states within a word's time are no words."""
    if len(cells) % _WORD_FIELDS:
        raise UserError(f"{place}: expected `word ( st: S et: E g: G a: A )` for each word")
    words, acoustic, language, until = [], 0.0, 0.0, -1.0
    for start in range(0, len(cells), _WORD_FIELDS):
        word = cells[start : start + _WORD_FIELDS]
        if as_number(word[3], place) > until and not re.search(r"-\d$", word[0]):
            words.append(word[0])
            language += as_number(word[7], place) * BYTELOG
            acoustic += as_number(word[9], place) * BYTELOG
            until = as_number(word[5], place)
    return words, acoustic, language


def _text(words: list[str]) -> str:
    return strip_markup(" ".join(word for word in words if word not in _SILENT))


KALDI = _Kaldi()
SRILM = _Srilm()
