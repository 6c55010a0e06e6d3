"""What says nothing about which hypothesis is right changes no choice: under every
decision, on every road.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from rescore import pipeline
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS, Column
from rescore.lms.function import FunctionModel
from rescore.metrics import Normaliser
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.options import OptionValues
from rescore.pipeline import RunConfig
from tests.conftest import LEXICON, WORDS, fewer_samples

LENGTH = 6
PARTS = ("decoder", "ctc")
DEV, TEST = 48, 12

Lists = list[NbestList]


def noise(text: str, seed: int) -> float:
    """A number between -1 and 1 that depends on the text alone."""
    return zlib.crc32(f"{seed} {text.lower()}".encode()) / 2**31 - 1


def errors(text: str, reference: str) -> int:
    pairs = zip(text.lower().split(), reference.split(), strict=False)
    return sum(one != other for one, other in pairs) + abs(len(text.split()) - LENGTH)


def hypothesis(text: str, reference: str, seed: int) -> Hypothesis:
    """First-pass scores that know something about errors, and the two parts that they
    are the sum of.
    """
    parts = [
        -errors(text, reference) / 2 + noise(f"{text} {reference}", seed + part)
        for part in range(2)
    ]
    return Hypothesis(
        text, {FIRST_PASS: sum(parts), **dict(zip(PARTS, parts, strict=True))}
    )


def system(number: int, seed: int, systems: int = 0) -> Lists:
    """Lists of one system; `systems` tells those of the same utterances apart."""
    utterances, draw = random.Random(seed), random.Random(f"{seed} {systems}")
    provenance = {name: Column.component("espnet") for name in PARTS}
    lists = []
    for index in range(number):
        words = [utterances.choice(WORDS) for _ in range(LENGTH)]
        texts: dict[str, None] = {}
        while len(texts) < 5:
            heard = list(words)
            for place in draw.sample(range(LENGTH), draw.choice((0, 1, 1, 2, 3))):
                heard[place] = draw.choice(
                    (
                        draw.choice(WORDS),
                        words[place].replace("d", "t").replace("tt", "t"),
                    )
                )
            texts[" ".join(heard[: draw.choice((LENGTH, LENGTH, LENGTH - 1))])] = None
        reference = " ".join(words)
        hypotheses = [hypothesis(text, reference, 10 * systems) for text in texts]
        lists.append(
            NbestList(
                f"talk-{index:03d}",
                hypotheses,
                (reference,),
                header=Header(records=provenance),
            )
        )
    return lists


@dataclass(frozen=True)
class Known:
    """A language model: words that it does not know cost, and so do words that are
    missing.
    """

    scale: float
    cost: float
    seed: int

    def __call__(self, sentences: Sequence[str]) -> list[float]:
        return [
            self.scale
            * (
                noise(text, self.seed)
                - self.cost
                * (sum(word not in LEXICON for word in words) + LENGTH - len(words))
            )
            for text in sentences
            for words in [text.lower().split()]
        ]


def models(
    scale: float = 1.0, backwards: bool = False, names: tuple[str, str] = ("one", "two")
) -> list[FunctionModel]:
    found = []
    for name, function in zip(
        names, (Known(scale, 3.0, 1), Known(scale, 1.0, 2)), strict=True
    ):
        model = FunctionModel(function)
        model.name = model.model = name
        found.append(model)
    return found[::-1] if backwards else found


def changed(change: Callable[[NbestList], NbestList]) -> Callable[[Lists], Lists]:
    return lambda lists: [change(nbest) for nbest in lists]


def scored(change: Callable[[float, NbestList], float]) -> Callable[[Lists], Lists]:
    """Each score of each list changed."""
    return changed(
        lambda nbest: replace(
            nbest,
            hypotheses=[
                replace(
                    one,
                    scores={
                        name: change(score, nbest) for name, score in one.scores.items()
                    },
                )
                for one in nbest.hypotheses
            ],
        )
    )


def shuffled(nbest: NbestList) -> NbestList:
    hypotheses = list(nbest.hypotheses)
    random.Random(nbest.id).shuffle(hypotheses)
    return replace(nbest, hypotheses=hypotheses)


def worst_twice(nbest: NbestList) -> NbestList:
    worst = min(nbest.hypotheses, key=lambda one: one.scores[FIRST_PASS])
    return replace(
        nbest, hypotheses=[*nbest.hypotheses, replace(worst, scores=dict(worst.scores))]
    )


def impossible(nbest: NbestList) -> NbestList:
    scores = dict.fromkeys(nbest.hypotheses[0].scores, float("-inf"))
    return replace(
        nbest,
        hypotheses=[Hypothesis(nbest.references[0] + " so", scores), *nbest.hypotheses],
    )


def upper(nbest: NbestList) -> NbestList:
    return replace(
        nbest,
        hypotheses=[replace(one, text=one.text.upper()) for one in nbest.hypotheses],
    )


@dataclass(frozen=True)
class Change:
    """What is done to the lists of each system, and to the models."""

    lists: Callable[[Lists], Lists] = list
    scale: float = 1.0
    """Of the models' scores."""
    backwards: bool = False
    """Whether the models come in another order."""
    names: tuple[str, str] = ("one", "two")
    """Of the models."""
    other: str = "other"
    """The name of the system that is merged."""


CHANGES = {
    "hypotheses shuffled": Change(changed(shuffled)),
    "constants added": Change(
        scored(lambda score, nbest: score + 10 * noise(nbest.id, 3))
    ),
    "times 1000": Change(scored(lambda score, _: 1000 * score), scale=1000.0),
    "times 2": Change(scored(lambda score, _: 2 * score), scale=2.0),
    "times 3.7": Change(scored(lambda score, _: 3.7 * score), scale=3.7),
    "first pass times 0.3": Change(scored(lambda score, _: 0.3 * score)),
    "models times 0.7": Change(scale=0.7),
    "worst twice": Change(changed(worst_twice)),
    "-inf added": Change(changed(impossible)),
    "ids renamed": Change(changed(lambda nbest: replace(nbest, id=f"z{nbest.id}"))),
    "models renamed": Change(names=("zz", "a")),
    "system renamed": Change(other="b"),
    "upper case": Change(changed(upper)),
    "lists in another order": Change(lambda lists: lists[::-1]),
    "--lm in another order": Change(backwards=True),
}
ROADS = ("plain", "combine", "--respell", "--components")
DECISIONS = ("best", "mbr", "rover")


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lexicon") / "lexicon.txt.xz"
    LEXICON.save(path)
    return path


@cache
def chosen(road: str, decide: str, name: str | None, lexicon: Path) -> dict[str, str]:
    """The text chosen for each reference; in lower case."""
    change = CHANGES[name] if name else Change()
    config = RunConfig(decide=decide, components=road == "--components")
    if road == "--respell":
        config = replace(
            config,
            expanding=OptionValues(respell=4, channel="shipped", lexicon=str(lexicon)),
        )
    sets = []
    for number, seed in ((DEV, 1), (TEST, 2)):
        lists = change.lists(system(number, seed))
        if road == "combine":
            plain = [_plain(lists), _plain(change.lists(system(number, seed, 1)))]
            lists = list(
                combined(
                    dict(zip(("first", change.other), plain, strict=True)), Normaliser()
                )
            )
        if road not in ("--components", "combine"):
            lists = [
                replace(
                    nbest,
                    header=Header(records={}),
                    hypotheses=[_alone(one) for one in nbest.hypotheses],
                )
                for nbest in lists
            ]
        sets.append(lists)
    dev, test = sets
    with pytest.MonkeyPatch.context() as patch:
        fewer_samples(patch)
        outcome = pipeline.run(
            test,
            config,
            dev,
            lambda: models(change.scale, change.backwards, change.names),
        )
    return {
        nbest.references[0]: text.lower()
        for nbest, text in zip(outcome.lists, outcome.texts, strict=True)
    }


def _plain(lists: Lists) -> Lists:
    return [
        replace(
            nbest,
            header=Header(records={}),
            hypotheses=[_alone(one) for one in nbest.hypotheses],
        )
        for nbest in lists
    ]


def _alone(one: Hypothesis) -> Hypothesis:
    return Hypothesis(one.text, {FIRST_PASS: one.scores[FIRST_PASS]})


CASES = [
    # three roads take minutes
    pytest.param(*case, marks=[] if case[0] == ROADS[0] else [pytest.mark.slow])
    for case in product(ROADS, DECISIONS, CHANGES)
]


@pytest.mark.parametrize(("road", "decide", "name"), CASES)
def test_choices_are_equal(road: str, decide: str, name: str, lexicon: Path) -> None:
    assert chosen(road, decide, name, lexicon) == chosen(road, decide, None, lexicon)


@pytest.mark.parametrize("decide", DECISIONS)
@pytest.mark.parametrize("road", ROADS)
def test_choices_are_not_those_of_the_first_pass(
    road: str, decide: str, lexicon: Path
) -> None:
    """Without which they would be equal for another reason."""
    first = {
        nbest.references[0]: (
            max(nbest.hypotheses, key=lambda one: one.scores[FIRST_PASS]).text
        )
        for nbest in system(TEST, 2)
    }
    assert chosen(road, decide, None, lexicon) != first
