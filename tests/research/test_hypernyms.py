"""Hypernym classes are those of the thesis' Code 1."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.research.hypernyms import PACINGS, Pacing, WordNet, token_classes


@dataclass
class Nouns:
    """A small WordNet: synsets are numbers, and the first noun names a synset."""

    first: list[str]
    above: dict[int, list[int]] = field(default_factory=dict)
    instance_of: dict[int, list[int]] = field(default_factory=dict)
    senses: dict[str, list[int]] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write WordNet's files: a licence, and lines as wndb(5WN) describes them."""
        data = ["  1 This software and database is being provided"]
        for synset, noun in enumerate(self.first):
            pointers = [f"@ {each:08} n 0000" for each in self.above.get(synset, ())]
            for each in self.instance_of.get(synset, ()):
                pointers.insert(0, f"@i {each:08} n 0000")
            pointers.append("~ 99999999 n 0000")
            data.append(
                f"{synset:08} 06 n 02 {noun.title()} 0 the_{noun} 0"
                f" {len(pointers):03} {' '.join(pointers)} | a gloss @ with | signs"
            )
        index = ["  1 licence"]
        for noun, senses in self.senses.items():
            offsets = " ".join(f"{sense:08}" for sense in senses)
            index.append(f"{noun} n {len(senses)} 2 @ ~ {len(senses)} 1 {offsets}  ")
        (folder / "data.noun").write_text("\n".join(data) + "\n", encoding="utf-8")
        (folder / "index.noun").write_text("\n".join(index) + "\n", encoding="utf-8")
        (folder / "noun.exc").write_text("geese goose\n", encoding="utf-8")
        return folder

    def name(self, synset: int) -> str:
        """Return the name that NLTK gives a synset: its first noun, and which of the
        noun's senses it is.
        """
        noun = self.first[synset]
        return f"{noun}.n.{self.senses[noun].index(synset) + 1:02}"

    def hypernym_paths(self, synset: int) -> list[list[int]]:
        """Return the paths as NLTK, which the thesis uses, has them: hypernyms in the
        order of their names.
        """
        every = self.above.get(synset, []) + self.instance_of.get(synset, [])
        paths = []
        for hypernym in sorted(every, key=self.name):
            for path in self.hypernym_paths(hypernym):
                paths.append([*path, synset])
        return paths or [[synset]]


def code_1(
    nouns: Nouns, token2freq: Mapping[str, int], d: int, f: int
) -> dict[str, str]:
    """The thesis' Code 1, line by line."""
    rtn: dict[str, str] = {}
    for token, freq in token2freq.items():
        if freq > f:
            continue
        for synset in nouns.senses.get(token, []):
            for path in nouns.hypernym_paths(synset):
                if len(path) >= d:
                    rtn[token] = nouns.name(path[d - 1])
                    break
            if token in rtn:
                break
    return rtn


CHAIN = ["entity", "object", "artifact", "thing", "device", "tool"]


def tools() -> Nouns:
    """Return a path from the root to tools: a hammer and a saw, whose first sense is
    shallow. A clock is a device.
    """
    nouns = Nouns([*CHAIN, "hammer", "saw", "clock", "saying"])
    nouns.above = {each: [each - 1] for each in range(1, 6)}
    nouns.above |= {6: [5], 8: [4], 9: [0]}
    nouns.instance_of = {7: [5]}
    nouns.senses = {noun: [synset] for synset, noun in enumerate(nouns.first)}
    nouns.senses["saw"] = [9, 7]
    nouns.senses["goose"] = [1]
    return nouns


def test_the_hypernym_at_a_depth(tmp_path: Path) -> None:
    wordnet = WordNet.read(tools().write(tmp_path))
    hammers = [wordnet.hypernym("hammer", depth) for depth in (1, 2, 6, 7, 8)]
    assert hammers == ["entity.n.01", "object.n.01", "tool.n.01", "hammer.n.01", None]
    assert wordnet.hypernym("saw", 2) == "saying.n.01"  # of the first sense
    assert wordnet.hypernym("saw", 6) == "tool.n.01"  # the first is not as deep
    assert wordnet.hypernym("saw", 7) == "saw.n.02"
    assert wordnet.hypernym("Clock", 6) == "clock.n.01"
    assert wordnet.hypernym("run", 1) is None


def test_plural_nouns(tmp_path: Path) -> None:
    nouns = tools()
    singulars = ("glass", "wolf", "box", "waltz", "watch", "dish", "postman", "city")
    for noun in singulars:
        nouns.senses[noun] = [8]
    wordnet = WordNet.read(nouns.write(tmp_path))
    plurals = "glasses wolves boxes waltzes watches dishes postmen cities clocks"
    for plural in plurals.split():
        assert wordnet.hypernym(plural, 5) == "device.n.01", plural
    assert wordnet.hypernym("geese", 2) == "object.n.01"
    assert wordnet.hypernym("gooses", 2) == "object.n.01"


@st.composite
def worlds(draw: st.DrawFn) -> Nouns:
    """Nouns with several senses, and synsets with several hypernyms."""
    size = draw(st.integers(2, 14))
    names = [f"n{draw(st.integers(0, 9))}x{number}" for number in range(size)]
    nouns = Nouns(names)
    for synset in range(1, size):
        many = st.lists(st.integers(0, synset - 1), max_size=2, unique=True)
        nouns.above[synset] = draw(many)
        others = set(range(synset)) - set(nouns.above[synset])
        if others and draw(st.booleans()):
            nouns.instance_of[synset] = [draw(st.sampled_from(sorted(others)))]
    for synset, noun in enumerate(names):
        nouns.senses[noun] = [synset]
    for noun in names:
        more = draw(st.lists(st.integers(0, size - 1), max_size=2, unique=True))
        senses = [*nouns.senses[noun], *(set(more) - set(nouns.senses[noun]))]
        nouns.senses[noun] = draw(st.permutations(senses))
    return nouns


@given(worlds(), st.integers(1, 6), st.integers(0, 3), st.randoms())
def test_classes_are_those_of_code_1(
    tmp_path_factory: pytest.TempPathFactory,
    nouns: Nouns,
    depth: int,
    most: int,
    chance: random.Random,
) -> None:
    wordnet = WordNet.read(nouns.write(tmp_path_factory.mktemp("wordnet")))
    counts = {token: chance.randrange(5) for token in [*nouns.senses, "run", "##n0x0"]}
    numbers = np.array(list(counts.values()))
    classes = token_classes(wordnet, list(counts), numbers, depth, most)
    ours = {}
    for token, number in zip(counts, classes.of, strict=True):
        if number >= 0:
            ours[token] = classes.names[number]
    assert ours == code_1(nouns, counts, depth, most)


def test_frequent_tokens_have_no_class(tmp_path: Path) -> None:
    wordnet = WordNet.read(tools().write(tmp_path))
    tokens = ["hammer", "saw", "run", "clock"]
    # 58 of a million tokens: the share of 6,000 in the 103 million of WikiText-103.
    counts = np.array([58, 59, 1_000_000 - 58 - 59 - 1, 1])
    classes = token_classes(wordnet, tokens, counts)
    assert classes.of.tolist() == [0, -1, -1, 1]
    assert classes.names == ("tool.n.01", "clock.n.01")
    assert (classes.tokens, classes.shared) == (2, 0)
    classes = token_classes(wordnet, tokens, counts, most=59)
    assert classes.of.tolist() == [0, 0, -1, 1] and classes.shared == 1


def test_pacing_functions_of_the_thesis() -> None:
    """Equations 3.4 and 3.5, at each of 1,000 steps."""
    a, b, n = 0.3, 0.8, 1000
    constant, linear = Pacing(False, a, b), Pacing(True, a, b)
    for t in range(n + 1):
        before = t < a * n
        assert constant(t / n) == (b if before else 0)
        falling = b - b * t / (a * n) if before else 0
        assert linear(t / n) == pytest.approx(falling, abs=1e-12)
    assert constant(1.0) == linear(1.0) == Pacing(True, 1.0, 1.0)(1.0) == 0
    assert Pacing(False, 0.0, 1.0)(0.0) == Pacing(True, 0.0, 1.0)(0.0) == 0


@pytest.mark.parametrize(("pacing", "steps"), [("constant", 9_600), ("linear", 20_480)])
def test_steps_of_class_prediction(pacing: str, steps: int) -> None:
    """Of 100,000 steps, as in the headings of Table 3.5: a b N, or half of it."""
    expected = sum(PACINGS[pacing](t / 100_000) for t in range(100_000))
    assert expected == pytest.approx(steps, rel=1e-3)


def broken(folder: Path, name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the message for a file with these lines."""
    tools().write(folder)
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        WordNet.read(folder)
    yield str(caught.value)


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("data.noun", ["  licence", "what is this"], "data.noun: line 2: expected"),
        ("index.noun", ["clock n many"], "index.noun: line 1: expected"),
        ("index.noun", ["clock n 1 0 1 1 00000077"], "no synset 00000077"),
    ],
)
def test_files_of_another_format(
    tmp_path: Path, name: str, lines: Sequence[str], expected: str
) -> None:
    (message,) = broken(tmp_path, name, lines)
    assert expected in message and "\n" not in message


def test_wordnet_of_debian() -> None:
    """Figure 3.2: iron and magnesium are metallic elements, a desk is none."""
    folder = Path("/usr/share/wordnet")
    if not (folder / "data.noun").exists():
        pytest.skip("needs WordNet: apt-get install wordnet-base")
    wordnet = WordNet.read(folder)
    metal = "metallic_element.n.01"
    assert wordnet.hypernym("iron", 6) == wordnet.hypernym("magnesium", 6) == metal
    assert wordnet.hypernym("desk", 6) == "instrumentality.n.03"
    names = {wordnet.hypernym(word, 2) for word in ("iron", "magnesium", "desk")}
    assert names == {"physical_entity.n.01"}
