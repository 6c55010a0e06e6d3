"""Phrases of a lexical model: arrays give what the definitions give in loops."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rescore.lms import Question, load
from rescore.mt.lexical import phrases
from rescore.mt.lexical.estimation import train
from rescore.mt.lexical.model import LexicalModel, Texts
from rescore.mt.lexical.phrases import Aligned, PhraseTable, alignment, consistent, hashed, symmetrised
from tests.conftest import Run, assert_one_line_error
from tests.mt import lexical_definition
from tests.mt.test_lexical_training import pairs

LONGEST = 3
Points = set[tuple[int, int]]
Phrase = tuple[int, ...]


def grow_diag_final_and(rows: int, columns: int, forth: Points, back: Points) -> Points:
    """The pseudocode of Koehn, Och and Marcu; points are (target place, source place)."""
    found, union = forth & back, forth | back

    def covered(row: int, column: int) -> tuple[bool, bool]:
        return any(point[0] == row for point in found), any(point[1] == column for point in found)

    grown = True
    while grown:
        grown = False
        for row, column in product(range(rows), range(columns)):
            if (row, column) not in found:
                continue
            for down, right in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                new = (row + down, column + right)
                if new in union - found and not all(covered(*new)):
                    found.add(new)
                    grown = True
    for last in (forth, back):
        for new in product(range(rows), range(columns)):
            if new in last and not any(covered(*new)):
                found.add(new)
    return found


def phrase_pairs(source: Phrase, target: Phrase, points: Points, longest: int) -> Iterator[tuple[int, int, int, int]]:
    """Every pair of spans, and then whether it is consistent."""
    for i, j in product(range(len(source)), range(len(target))):
        for size, other in product(range(1, longest + 1), repeat=2):
            if i + size > len(source) or j + other > len(target):
                continue
            inside = [(j <= row < j + other, i <= column < i + size) for row, column in points]
            if any(row and column for row, column in inside) and all(row == column for row, column in inside):
                yield i, size, j, other


def points_of(source: Texts, target: Texts, links: Aligned) -> list[Points]:
    """Of each pair, its links as (target place, source place)."""
    every: list[Points] = [set() for _ in source.lengths]
    for column, row in zip(links.sources.tolist(), links.targets.tolist(), strict=True):
        text = int(np.searchsorted(target.starts, row, side="right")) - 1
        every[text].add((row - int(target.starts[text]), column - int(source.starts[text])))
    return every


def texts_of(texts: Texts) -> list[Phrase]:
    return [tuple(texts.ids[a:b].tolist()) for a, b in zip(texts.starts[:-1], texts.starts[1:], strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_symmetrisation_and_phrases_are_those_of_the_definitions(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [(draw.randint(1, 7), draw.randint(1, 7)) for _ in range(60)]
    source, target = (
        Texts.of([[draw.randint(1, 5) for _ in range(both[side])] for both in lengths]) for side in (0, 1)
    )
    forth, back = np.full(len(target.ids), -1), np.full(len(source.ids), -1)
    expected = []
    for number, (columns, rows) in enumerate(lengths):
        some: tuple[Points, Points] = (set(), set())
        begins = int(source.starts[number]), int(target.starts[number])
        for row in range(rows):
            if draw.random() < 0.8:
                some[0].add((row, draw.randrange(columns)))
        for column in range(columns):
            if draw.random() < 0.8:
                some[1].add((draw.randrange(rows), column))
        for row, column in some[0]:
            forth[begins[1] + row] = begins[0] + column
        for row, column in some[1]:
            back[begins[0] + column] = begins[1] + row
        expected.append(grow_diag_final_and(rows, columns, *some))
    links = symmetrised(source, target, forth, back)
    assert points_of(source, target, links) == expected

    found = consistent(source, target, links, LONGEST)
    counted = Counter(zip(*(part.tolist() for part in found), strict=True))
    wanted = Counter(
        (i + int(source.starts[number]), size, j + int(target.starts[number]), other)
        for number, sides in enumerate(zip(texts_of(source), texts_of(target), strict=True))
        for i, size, j, other in phrase_pairs(*sides, expected[number], LONGEST)
    )
    assert counted == wanted


def test_hashes_tell_phrases_apart() -> None:
    """Also phrases of one word repeated, of the same words in another order, and of different lengths."""
    draw = np.random.default_rng(1)
    texts = Texts.of([draw.integers(1, 4, 30).tolist() for _ in range(500)])
    of_phrase: dict[Phrase, int] = {}
    for length, hashes in enumerate(hashed(texts, 6), 1):
        for begin, end in zip(texts.starts[:-1].tolist(), texts.starts[1:].tolist(), strict=True):
            for place in range(begin, end - length + 1):
                phrase = tuple(texts.ids[place : place + length].tolist())
                assert of_phrase.setdefault(phrase, int(hashes[place])) == int(hashes[place])
    assert len(set(of_phrase.values())) == len(of_phrase) == sum(3**length for length in range(1, 7))


@pytest.fixture(scope="module", params=["none", "diagonal"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("phrases")
    for side, name in enumerate(("a.txt", "b.txt")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phrases, "TRAINED", 300)  # several parts
        train((folder / "a.txt", folder / "b.txt"), folder / "lm", pieces=0, alignment=request.param, phrases=LONGEST)
    return folder / "lm"


def known_pairs(model: LexicalModel) -> tuple[Texts, Texts]:
    source, target = (model.numbered(model.cut(list(side)), {}) for side in zip(*pairs(), strict=True))
    return source, target


def t_of(model: LexicalModel, given: int, predicted: int, direction: str = "channel") -> float:
    table = model.tables[direction]
    return float(table.probabilities(np.array([given]), np.array([predicted]), model.config.smoothing)[0])


def test_links_are_the_likeliest(folder: Path) -> None:
    model = LexicalModel.load(folder)
    source, target = (Texts.of(texts_of(side)[:10]) for side in known_pairs(model))
    places = alignment(model, source, target, "direct")
    tension = model.config.alignment["direct"].tension
    for number, (given, predicted) in enumerate(zip(texts_of(source), texts_of(target), strict=True)):
        for j, word in enumerate(predicted):
            joint = [
                lexical_definition.prior(i, j + 1, len(given), len(predicted), tension)
                * t_of(model, other, word, "direct")
                for i, other in enumerate([0, *given])
            ]
            place = int(places[int(target.starts[number]) + j])
            chosen = 0 if place < 0 else place - int(source.starts[number]) + 1
            assert joint[chosen] == pytest.approx(max(joint), rel=1e-9)


def defined(
    model: LexicalModel, counts: Counter[tuple[Phrase, Phrase]], source: Phrase, target: Phrase, words: list[float]
) -> float:
    """ln of the sum over all segmentations of the source; `words` are ln d."""
    alignment = model.config.alignment["channel"]
    tension = alignment.tension or 0.0

    def translated(f: Phrase, e: Phrase) -> float:
        total = sum(count for pair, count in counts.items() if pair[0] == e)
        types = sum(pair[0] == e for pair in counts)
        lexical = math.prod(
            max([alignment.null * t_of(model, 0, word), *(t_of(model, other, word) for other in e)]) for word in f
        )
        return max(counts[e, f] - 0.5, 0) / total + min(1, 0.5 * types / total) * lexical

    def span(b: int, m: int) -> float:
        value = 0.0
        centre = (b + m / 2) / len(source)
        for q, size in product(range(len(target)), range(1, LONGEST + 1)):
            e, f = target[q : q + size], source[b : b + m]
            if q + size <= len(target) and (e, f) in counts:
                away = abs((q + size / 2) / len(target) - centre)
                norm = sum(math.exp(-tension * abs((i + 0.5) / len(target) - centre)) for i in range(len(target)))
                value += translated(f, e) * math.exp(-tension * away) / norm
        return value / LONGEST

    def segmentations(begin: int) -> float:
        if begin == len(source):
            return 1.0
        value = math.exp(words[begin]) * segmentations(begin + 1)
        for m in range(1, min(LONGEST, len(source) - begin) + 1):
            if (s := span(begin, m)) > 0:
                value += s * segmentations(begin + m)
        return value

    return math.log(segmentations(0))


@pytest.mark.parametrize("limit", [1 << 19, 40])
def test_scores_are_those_of_the_definition(folder: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "SCORED", limit)
    model = LexicalModel.load(folder)
    source, target = known_pairs(model)
    forth, back = alignment(model, source, target, "direct"), alignment(model, target, source, "channel")
    points = points_of(source, target, symmetrised(source, target, forth, back))
    counts = Counter(
        (t[j : j + other], s[i : i + size])
        for s, t, links in zip(texts_of(source), texts_of(target), points, strict=True)
        for i, size, j, other in phrase_pairs(s, t, links, LONGEST)
    )
    table = PhraseTable.load(folder)
    assert len(table.entries) == len(counts) and table.counts.sum() == counts.total() and table.counts.max() > 1

    asked = [Question(text, one) for one, text in [*pairs(8), *pairs(3, seed=9)]]
    asked += [Question("", "das haus"), Question("sad", ""), Question("sad 🙂 suah", "das 🙂 merkel haus das haus")]
    found = load(f"lexical:phrases:{folder}").score(asked)
    channel = load(f"lexical:channel:{folder}").score(asked)
    gains = 0
    for question, score, plain in zip(asked, found, channel, strict=True):
        unknown: dict[str, int] = {}
        source_words, target_words = texts_of(
            model.numbered(model.cut([question.source or "", question.text]), unknown)
        )
        expected = defined(model, counts, source_words, target_words, plain.log_probs.tolist())
        assert score.tokens == plain.tokens and score.unknown == plain.unknown
        assert score.sum == pytest.approx(expected, abs=1e-9)
        gains += score.sum > plain.sum + 1e-3
    assert gains >= 8
    assert found[-3].sum == pytest.approx(channel[-3].sum) and found[-2].mean == 0


def test_a_score_does_not_depend_on_its_neighbours(folder: Path) -> None:
    asked = [Question(text, source) for source, _ in pairs(5) for _, text in pairs(5)]
    lm = load(f"lexical:phrases:{folder}")
    for question, score in zip(asked, lm.score(asked), strict=True):
        assert lm.score([question])[0].sum == pytest.approx(score.sum, abs=1e-9)
    assert lm.score([]) == []


def test_frequent_counts_come_back(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PhraseTable.load(folder)
    monkeypatch.setattr(phrases, "FREQUENT", 2)
    table.save(tmp_path)
    again = PhraseTable.load(tmp_path)
    assert load_file(tmp_path / phrases.FILE)["counts"].max() == 2
    for name in ("given", "starts", "predicted", "entries", "counts", "totals"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))


def test_the_commands(rescore: Run, translations: Path, tmp_path: Path) -> None:
    for side, name in enumerate(("a.txt", "b.txt")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs()), encoding="utf-8")
    trained = ("train", "--lm", "lexical", "--pairs", "a.txt", "b.txt", "--pieces", "0", "--out", "lm")
    done = rescore(*trained, "--phrases", "3")
    assert done.returncode == 0 and "pairs of phrases" in done.stderr, done.stderr
    assert "up to 3 words |" in rescore("models", "lexical:phrases:lm").stdout
    prints = {load(f"lexical{option}:{tmp_path / 'lm'}").fingerprint for option in ("", ":channel", ":phrases")}
    assert len(prints) == 3
    lms = ("--lm", "lexical:phrases:lm", "--lm-norm", "mean", "--cache", "c")
    first = rescore(translations, "--dev", translations, *lms)
    assert first.returncode == 0, first.stderr
    again = rescore(translations, "--dev", translations, *lms)
    assert again.stdout == first.stdout and "0 were computed" in again.stderr
    top = rescore("score", translations, "--lm", "lexical:phrases:lm", "-o", "top.jsonl")
    assert top.returncode == 0, top.stderr
    all_readings = rescore("recipe", "--each", "lexical:all:lm").stdout.split()
    assert len(all_readings) == 5 and not any("phrases" in name for name in all_readings)
    for other in ("channel", "coverage", "length"):
        refused = rescore(translations, "--lm", f"lexical:phrases:{other}:lm", "--weight", "0.1")
        assert_one_line_error(refused, "phrases cannot be combined")

    assert rescore(*trained).returncode == 0  # phrases of another dictionary do not stay
    refused = rescore(translations, "--lm", "lexical:phrases:lm", "--weight", "0.1")
    assert_one_line_error(refused, "phrases.safetensors: no such file", "with --phrases 6")


def test_damaged_phrases_are_told(folder: Path, rescore: Run, translations: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / "lm").mkdir(exist_ok=True)
        (tmp_path / "lm" / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "lm" / phrases.FILE
    whole, arrays = path.read_bytes(), load_file(path)

    def told(part: str) -> None:
        assert_one_line_error(rescore(translations, "--lm", "lexical:phrases:lm", "--weight", "0.1"), part)

    path.write_bytes(whole[:-50])
    told("not a whole safetensors file")
    for name, value in (
        ("entries", arrays["entries"] + 10_000),
        ("types", arrays["types"][1:]),
        ("given", arrays["given"][::-1]),
    ):
        save_file(arrays | {name: np.ascontiguousarray(value)}, path)
        told("do not fit together")
    save_file(arrays | {"counts": arrays["counts"].astype(np.int64)}, path)
    told("of another type")
