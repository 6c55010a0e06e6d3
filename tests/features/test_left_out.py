"""Columns of the lists count: wherever weights are tuned, the numbers of a table are
tuned beside the language models, and each column of scores has a weight or is named.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

import rescore
from rescore import pipeline
from rescore.columns import FROM_FILE, Column, Role
from rescore.config import RunConfig
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.plan import resolve

WORDS = ["ab", "cd", "ef", "g", "h"]
RECORDS = {
    "own": None,
    "sum": FROM_FILE,
    "part": Column.component("espnet2"),
}
"""Columns of the lists, with their records."""


def brevity(sentences: Sequence[str]) -> list[float]:
    """Return a score of each text: a language model."""
    return [-float(len(sentence)) for sentence in sentences]


def lists(seed: int, *columns: str) -> list[NbestList]:
    """Return lists with columns that know of the errors of their texts."""
    chance = random.Random(seed)
    records = {}
    for name, record in RECORDS.items():
        if record is not None and name in columns:
            records[name] = record
    header = Header(name=f"set{seed}", records=records)
    every = []
    for number in range(40):
        reference = [chance.choice(WORDS) for _ in range(5)]
        hypotheses = []
        for _ in range(4):
            heard = list(reference)
            for place in range(5):
                if chance.random() < 0.3:
                    heard[place] = chance.choice(WORDS)
            wrong = sum(a != b for a, b in zip(heard, reference, strict=True))
            scores = {"s2s": chance.gauss(-wrong, 2)}
            for name in columns:
                scores[name] = chance.gauss(-wrong, 0.7)
            hypotheses.append(Hypothesis(" ".join(heard), scores))
        right = (" ".join(reference),)
        every.append(NbestList(f"u{number}", hypotheses, right, header=header))
    return every


def model() -> rescore.lms.LanguageModel:
    from rescore import border

    (lm,) = border.as_models([brevity])
    return lm


def by_run(dev: Sequence[NbestList], test: Sequence[NbestList]) -> RunOutcome:
    outcome = pipeline.run(test, RunConfig(), dev, lambda: [model()])
    return outcome.weights.weights


def in_folds(dev: Sequence[NbestList], test: Sequence[NbestList]) -> RunOutcome:
    outcome = pipeline.run(test, RunConfig(folds=3), load=lambda: [model()])
    return outcome.weights.weights


def by_stages(dev: Sequence[NbestList], test: Sequence[NbestList]) -> RunOutcome:
    return rescore.tune(rescore.score(dev, brevity)).weights


RunOutcome = dict[str, float]
Road = Callable[[Sequence[NbestList], Sequence[NbestList]], RunOutcome]
ROADS: dict[str, Road] = {"run": by_run, "folds": in_folds, "tune": by_stages}
road_of = pytest.mark.parametrize("road", ROADS)


def lines_of(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    """Return what is told behind the words `start`."""
    lines = []
    for line in caplog.messages:
        if line.startswith(start):
            lines.append(line.removeprefix(start).strip(": "))
    return lines


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rescore")


@road_of
@pytest.mark.parametrize("name", ["own", "sum"])
def test_a_column_of_the_lists_is_tuned_beside_a_model(
    name: str, road: str, caplog: pytest.LogCaptureFixture
) -> None:
    weights = ROADS[road](lists(1, name), lists(2, name))
    assert weights[name] > 0.3 and "brevity" in weights
    assert not lines_of(caplog, "left out of the tuning")
    assert not any("not used" in line for line in caplog.messages)


@road_of
def test_components_are_left_out_and_named(
    road: str, caplog: pytest.LogCaptureFixture
) -> None:
    weights = ROADS[road](lists(1, "own", "part"), lists(2, "own", "part"))
    assert weights["own"] > 0 and "part" not in weights
    told = "part (components of espnet2; --components tunes them)"
    assert lines_of(caplog, "left out of the tuning") == [told]


@road_of
def test_a_column_that_a_hypothesis_lacks_is_left_out_and_named(
    road: str, caplog: pytest.LogCaptureFixture
) -> None:
    dev, test = lists(1, "own"), lists(2, "own")
    for some in (dev, test):
        del some[7].hypotheses[2].scores["own"]
    assert "own" not in ROADS[road](dev, test)
    (told,) = lines_of(caplog, "left out of the tuning")
    assert told.startswith("own (1 of 160 hypotheses lack it, first set")
    assert told.endswith(": utterance u7)")


@road_of
def test_a_constant_column_is_left_out_and_named(
    road: str, caplog: pytest.LogCaptureFixture
) -> None:
    dev, test = lists(1, "own"), lists(2, "own")
    for number, nbest in enumerate([*dev, *test]):
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["own"] = float(number)
    assert "own" not in ROADS[road](dev, test)
    told = "own (the same for all hypotheses of each list)"
    assert lines_of(caplog, "left out of the tuning") == [told]


@pytest.mark.parametrize("lacking", ["dev", "test"])
def test_a_column_of_one_set_alone_is_named(
    lacking: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {"dev": ("own",), "test": ("own",)} | {lacking: ()}
    weights = by_run(lists(1, *columns["dev"]), lists(2, *columns["test"]))
    assert "own" not in weights
    (told,) = lines_of(caplog, "left out of the tuning")
    number = {"dev": 1, "test": 2}[lacking]
    assert (
        told == f"own (160 of 160 hypotheses lack it, first set{number}: utterance u0)"
    )


def test_a_model_alone_keeps_its_weight_beside_columns_that_cannot_count() -> None:
    """A column that is left out changes nothing."""
    plain = by_run(lists(1), lists(2))
    dev, test = lists(1), lists(2)
    for nbest in dev + test:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["duration"] = 3.5
    assert by_run(dev, test) == plain


def test_named_columns_are_the_only_ones(caplog: pytest.LogCaptureFixture) -> None:
    scored = rescore.score(lists(1, "own", "part"), brevity)
    weights = rescore.tune(scored, ["brevity"], word_bonus=False)
    assert [*weights.weights] == ["s2s", "brevity"]
    assert not lines_of(caplog, "left out of the tuning")


def test_a_figure_against_the_reference_is_no_score(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dev, test = lists(1), lists(2)
    for nbest in dev + test:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["wer"] = 1.0
    assert "wer" not in by_run(dev, test)
    assert any("measure texts against the reference" in one for one in caplog.messages)


def test_given_weights_name_what_has_none(caplog: pytest.LogCaptureFixture) -> None:
    config = RunConfig(weights=(0.3,))
    outcome = pipeline.run(lists(2, "own"), config, load=lambda: [model()])
    weights = {"s2s": 0.7, "brevity": 0.3}
    assert {k: v for k, v in outcome.weights.weights.items() if v} == weights
    told = "own (columns of the lists; --dev LISTS or --folds 5 tunes them)"
    assert lines_of(caplog, "without a weight") == [told]
    caplog.clear()
    pipeline.run(lists(2, "own"), config)
    assert not lines_of(caplog, "without a weight"), "the weight is its own"


def test_a_model_of_the_lists_is_weighed_alone_by_one_number() -> None:
    scored = rescore.score(lists(2, "own"), brevity)
    plan = resolve(RunConfig(weights=(0.3,)), scored)
    assert plan.weights.weights["brevity"] == 0.3 and "own" not in plan.weights.weights


def test_compare_weighs_models_alone_and_names_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sets = [lists(1, "own", "part"), lists(2, "own", "part")]
    plain = []
    for every in sets:
        stripped = []
        for nbest in every:
            hypotheses = []
            for one in nbest.hypotheses:
                scores = {"s2s": one.scores["s2s"]}
                hypotheses.append(replace(one, scores=scores))
            stripped.append(replace(nbest, hypotheses=hypotheses, header=Header()))
        plain.append(stripped)
    figures = []
    for dev, test in (sets, plain):
        caplog.clear()
        compared = rescore.compare(test, dev, brevity, decide="mbr")
        figures.append([row.value for row in compared.rows])
        lines = lines_of(caplog, "left out of the")
        assert len(lines) == (2 if dev is sets[0] else 0)
    assert figures[0] == figures[1]


def test_role_of_every_column_is_tried() -> None:
    roles = {Role.LM, Role.COMPONENT}
    header = lists(1, *RECORDS)[0].header
    assert {header.role(name) for name in RECORDS} == roles
