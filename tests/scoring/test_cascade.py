"""A model with the option `top=N` scores the N best hypotheses of each list: all others cannot win."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rescore as package
from rescore import formats, pipeline
from rescore.decision.rules import combine, selected
from rescore.errors import UserError
from rescore.lms import Question, TokenScores, capabilities_of, column_name, load, parse
from rescore.lms.base import LanguageModel, marked, origin
from rescore.lms.cache import Cached
from rescore.nbest import Hypothesis, NbestList, Origin, Selection, ranking
from rescore.reports.results import Dev, render
from rescore.rescorer import Rescorer
from rescore.signature import Signature
from rescore.tuning import Weights
from rescore.tuning.weights import FoldWeights
from tests import stages
from tests.conftest import Run, assert_one_line_error
from tests.lms.test_ngram import ARPA


class Hashes:
    """A model whose scores are accidents of the text; it counts what it is asked."""

    precision = "float64"

    def __init__(self, name: str, strength: float = 0.0) -> None:
        self.name = self.model = name
        self.fingerprint = name.encode().hex() * 4
        self.asked: list[str] = []
        self._strength = strength

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        self.asked += [question.text for question in questions]
        return [self._score(question.text) for question in questions]

    def _score(self, text: str) -> TokenScores:
        noise = zlib.crc32(f"{self.name} {text}".encode()) % 1000 / 250
        known = self._strength * sum(word.startswith("x") for word in text.split())
        values = np.full(len(text.split()), (-noise - known) / len(text.split()))
        return TokenScores(text.split(), values)


def some_lists(number: int, seed: int = 1, size: int = 8) -> list[NbestList]:
    random = np.random.default_rng(seed)
    lists = []
    for index in range(number):
        texts: dict[str, float] = {}  # each once
        while len(texts) < size:
            words = [f"x{random.integers(9)}" if random.random() < 0.3 else one for one in "abcd"]
            texts.setdefault(" ".join(words), float(random.normal()))
        hyps = [Hypothesis(text, {"s2s": score}) for text, score in texts.items()]
        lists.append(NbestList(f"u{seed}-{index:03d}", hyps, ("a b c d",)))
    return lists


CASCADE = Weights({"s2s": 0.6, "cheap": 0.4}, "given")


def score(lists: Sequence[NbestList], top: int) -> tuple[list[NbestList], Hashes, str]:
    cheap, dear = Hashes("cheap", 1.0), Hashes("dear", 2.0)
    models: list[LanguageModel] = [cheap, marked(dear, top) if top else dear]
    config = pipeline.RunConfig(cascade=CASCADE)
    models = stages.models_for(config, models, lists)
    return list(stages.scored(lists, models, config)), dear, column_name(models[1], "sum")


@pytest.mark.parametrize("top", [1, 2, 3, 5, 10])
def test_it_is_what_scoring_all_and_leaving_out_gives(top: int) -> None:
    lists, dev = some_lists(40, 1), some_lists(120, 2)
    cascaded, model, column = score(lists, top)
    slow = []
    for found in score(lists, 0)[0]:
        total = [0.6 * one.scores["s2s"] + 0.4 * one.scores["cheap"] for one in found.hypotheses]
        best = sorted(range(len(total)), key=lambda place: -total[place])[:top]
        hyps = [
            replace(one, scores={**one.scores, "dear": one.scores["dear"] if place in best else -math.inf})
            for place, one in enumerate(found.hypotheses)
        ]
        slow.append(replace(found, hypotheses=hyps))
    assert [nbest.column(column) for nbest in cascaded] == [nbest.column("dear") for nbest in slow]
    asked = {one.text for nbest in slow for one in nbest.hypotheses if one.scores["dear"] > -math.inf}
    assert set(model.asked) == asked and len(model.asked) == len(asked)
    weights, _ = stages.tuned(score(dev, top)[0])
    if top > 1:  # whose model decides nothing
        assert weights.weights[column] > 0
    else:
        weights = Weights({"s2s": 0.3, "cheap": 0.3, column: 0.4}, "given")
    results, texts = stages.evaluated(cascaded, weights)
    for nbest, text in zip(slow, texts, strict=True):
        left = [one for one in nbest.hypotheses if one.scores["dear"] > -math.inf]
        named = {name: weights.weights[column if name == "dear" else name] for name in ("s2s", "cheap", "dear")}
        named["words"] = weights.weights.get("words", 0.0)
        expected = replace(nbest, hypotheses=left)
        assert expected.hypotheses[ranking(expected, combine(expected, named).tolist())[0]].text == text
    record = results.cascades[0]
    assert record.hypotheses == pytest.approx(min(top, 8) / 8) and record.selection.top == top
    assert record.oracle is not None and results.oracle is not None and record.oracle >= results.oracle
    assert top < 10 or record.oracle == results.oracle


def test_what_was_not_scored_stands_last_in_its_order() -> None:
    lists = some_lists(20)
    cascaded, _, column = score(lists, 3)
    weights = Weights({"s2s": 0.3, "cheap": 0.3, column: 0.4}, "given")
    for nbest, (ranked, _) in zip(cascaded, pipeline.rerank(cascaded, weights, pipeline.RunConfig()), strict=True):
        scores = ranked.column(column)
        assert not any(map(math.isinf, scores[:3])) and all(map(math.isinf, scores[3:]))
        last = [one.text for one in nbest.hypotheses if math.isinf(one.scores[column])]
        assert [one.text for one in ranked.hypotheses[3:]] == last
    none = Weights({"s2s": 0.3, "cheap": 0.7, column: 0.0}, "given")
    plain = Weights({"s2s": 0.3, "cheap": 0.7}, "given")
    chosen = [[text for _, text in pipeline.rerank(cascaded, one, pipeline.RunConfig())] for one in (none, plain)]
    assert chosen[0] == chosen[1]  # a model without a weight leaves nothing out


def test_weight_of_a_condition_or_fold_counts_as_used() -> None:
    cascaded, _, column = score(some_lists(10), 3)
    none = {"s2s": 0.5, "cheap": 0.5, column: 0.0}
    some = {"s2s": 0.5, "cheap": 0.2, column: 0.3}
    plain, _ = stages.evaluated(cascaded, Weights(none, "given"))
    dev = Dev("folds", 10, 50.0, 40.0)
    for unused, results in (
        (True, plain),
        (False, replace(plain, weights=some)),
        (False, replace(plain, conditions={"1": none, "2": some})),
        (True, replace(plain, weights=some, conditions={"1": none})),
        (False, replace(plain, dev=replace(dev, fold_weights=(FoldWeights(none), FoldWeights(some))))),
        (False, replace(plain, dev=replace(dev, fold_weights=(FoldWeights(none, {"1": some}),)))),
        (True, replace(plain, weights=some, dev=replace(dev, fold_weights=(FoldWeights(none),)))),
    ):
        assert ("its weight is 0, so all hypotheses may win" in render(results)) == unused


def test_mbr_hears_the_scored_hypotheses_only() -> None:
    cascaded, _, column = score(some_lists(20), 2)
    weights = Weights({"s2s": 0.3, "cheap": 0.3, column: 0.4}, "given")
    config = pipeline.RunConfig(decide="mbr", scale=0.5)
    left = [
        replace(nbest, hypotheses=[one for one in nbest.hypotheses if not math.isinf(one.scores[column])])
        for nbest in cascaded
    ]
    texts = [[text for _, text in pipeline.rerank(some, weights, config)] for some in (cascaded, left)]
    assert texts[0] == texts[1]


def test_origins_that_may_be_excluded_are_selected_apart() -> None:
    hyps = [
        Hypothesis(text, {"s2s": score}, origin)
        for text, score, origin in [
            ("a", -3.0, Origin.FIRST_PASS),
            ("b", 0.0, Origin.RESPELLED),
            ("c", -1.0, Origin.RESPELLED),
            ("d", -2.0, Origin.MERGED),
        ]
    ]
    assert selected(NbestList("u", hyps), Selection(1, {"s2s": 1.0})) == [1, 3]


def test_copies_of_a_text_count_once() -> None:
    texts = ["a b", "a b", "a c", "a b", "a d", "a c"]
    nbest = NbestList("u", [Hypothesis(text, {"s2s": -float(rank)}) for rank, text in enumerate(texts)])
    assert [selected(nbest, Selection(top, {"s2s": 1.0})) for top in (1, 2, 3)] == [
        [0, 1, 3],
        [0, 1, 2, 3, 5],
        [0, 1, 2, 3, 4, 5],
    ]


def test_a_model_before_may_be_selective_itself() -> None:
    lists = some_lists(10)
    config = pipeline.RunConfig(cascade=Weights({"s2s": 1.0}, "given"))
    models: list[LanguageModel] = [marked(Hashes("one"), 5), marked(Hashes("two"), 2)]
    models = stages.models_for(config, models, lists)
    for nbest in stages.scored(lists, models, config):
        five, two = ([math.isinf(score) for score in nbest.column(column)] for column in ("one:top=5", "two:top=2"))
        assert five.count(False) == 5 and two.count(False) == 2
        assert all(second or not first for first, second in zip(five, two, strict=True))


def test_it_survives_native_json_and_is_not_a_missing_score(tmp_path: Path) -> None:
    cascaded, _, column = score(some_lists(5), 3)
    for name in ("l.json", "l.jsonl.gz"):
        formats.write(cascaded, str(tmp_path / name))
        again = formats.read([tmp_path / name])
        assert [nbest.column(column) for nbest in again] == [nbest.column(column) for nbest in cascaded]
        assert again[0].provenance[column] == cascaded[0].provenance[column]
        assert again[0].provenance[column].selection == Selection(3, CASCADE.weights)
    del again[0].hypotheses[1].scores[column]
    with pytest.raises(UserError, match="no score 'dear:top=3'"):
        list(pipeline.rerank(again, Weights({"s2s": 0.5, column: 0.5}, "given"), pipeline.RunConfig()))


def test_weights_of_another_cascade_are_refused() -> None:
    dev = some_lists(60, 2)
    weights, _ = stages.tuned(score(dev, 3)[0])
    cheap, dear = Hashes("cheap", 1.0), marked(Hashes("dear", 2.0), 3)
    config = pipeline.RunConfig(cascade=Weights({"s2s": 0.9, "cheap": 0.1}, "given"))
    models = stages.models_for(config, [cheap, dear], dev)
    other = list(stages.scored(dev, models, config))
    with pytest.raises(UserError, match=r"top 3 by s2s 0\.9, cheap 0\.1"):
        stages.evaluated(other, weights, config)
    signature = Signature.parse(stages.evaluated(score(dev, 3)[0], weights, config)[0].signature)
    assert signature.columns["dear:top=3"].selection == Selection(3, CASCADE.weights)
    assert Signature.parse(str(signature)) == signature


def test_selecting_weights_of_another_model_are_refused() -> None:
    lists = some_lists(3)
    models: list[LanguageModel] = [Hashes("cheap"), marked(Hashes("dear"), 3)]
    cheap = origin(models[0], "sum")
    config = pipeline.RunConfig(cascade=replace(CASCADE, columns={"cheap": cheap}))
    assert stages.models_for(config, models, lists)
    for other in (replace(cheap, fingerprint="0" * 64), replace(cheap, norm="mean")):
        config = replace(config, cascade=replace(CASCADE, columns={"cheap": other}))
        with pytest.raises(UserError, match="--cascade: column cheap comes from cheap@"):
            stages.models_for(config, models, lists)
        forced = stages.models_for(replace(config, force_weights=True), models, lists)
        assert capabilities_of(forced[1]).selection == Selection(3, CASCADE.weights)
    config = replace(config, cascade=Weights({"s2s": 0.6, "old": 0.4}, "given", columns={"old": cheap}))
    scored = [replace(nbest, provenance={"old": replace(cheap, fingerprint="1" * 64)}) for nbest in lists]
    with pytest.raises(UserError, match="--cascade: column old comes from"):
        stages.models_for(config, models[1:], scored)


def test_a_loaded_rescorer_selects_as_the_weights_were_tuned() -> None:
    dev = some_lists(60, 2)
    cascaded, _, column = score(dev, 2)
    weights, _ = stages.tuned(cascaded)
    rescorer = Rescorer([Hashes("cheap", 1.0), marked(Hashes("dear", 2.0), 2)], weights)
    expected = [text for _, text in pipeline.rerank(cascaded, weights, pipeline.RunConfig())]
    assert [choice.text for choice in rescorer.choose_all(dev)] == expected
    assert rescorer.choose(dev[0]).nbest.provenance[column].selection == Selection(2, CASCADE.weights)


def test_the_cache_is_that_of_the_model(tmp_path: Path) -> None:
    lists, dear = some_lists(10), Hashes("dear")
    list(stages.scored(lists, [Cached(dear, tmp_path)], pipeline.RunConfig()))
    dear.asked.clear()
    config = pipeline.RunConfig()
    models = stages.models_for(config, [Cached(marked(dear, 2), tmp_path)], lists)
    for nbest in stages.scored(lists, models, config):
        assert sum(not math.isinf(score) for score in nbest.column("dear:top=2")) == 2
    assert not dear.asked


def test_names(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA)
    for spec in (
        f"ngram:top=3:{tmp_path}/lm.arpa",
        f"ngram:{tmp_path}/lm.arpa:top=3",
        f"ngram:upper:top=3:{tmp_path}/lm.arpa",
    ):
        model = load(spec)
        assert model.name.startswith("ngram:") and model.name.endswith("top=3")
        assert capabilities_of(model).selection == Selection(3)
    assert parse("server:http://h:1#a/b:8b:top=2").address == "http://h:1#a/b:8b"
    with pytest.raises(UserError, match="top=0; expected a number from 1"):
        load(f"ngram:top=0:{tmp_path}/lm.arpa")


@pytest.fixture
def files(tmp_path: Path) -> None:
    for name, seed in (("test", 1), ("dev", 2)):
        formats.write(some_lists(40, seed), str(tmp_path / f"{name}.json"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lm.arpa").write_text(ARPA)
        (tmp_path / name / "README.md").write_text("---\nrecommended_weight: 0.2\n---\n")


LMS = ("--lm", "ngram:one", "--lm", "ngram:top=3:two")


@pytest.mark.usefixtures("files")
def test_run_and_stages_agree(rescore: Run, tmp_path: Path) -> None:
    done = rescore("test.json", "--dev", "dev.json", *LMS, "--no-bagging", "--report", "r.json", "-o", "r.jsonl")
    assert done.returncode == 0, done.stderr
    assert "scored 37.5 % of the hypotheses" in done.stdout and "by s2s 0.8, ngram 0.2" in done.stdout
    for name in ("test", "dev"):
        assert rescore("score", f"{name}.json", *LMS, "-o", f"{name}.jsonl").returncode == 0
    assert rescore("tune", "dev.jsonl", "--no-bagging", "-o", "w.json").returncode == 0
    done = rescore("rerank", "test.jsonl", "--weights", "w.json", "--report", "s.json", "-o", "s.jsonl")
    assert done.returncode == 0, done.stderr
    one, other = (json.loads((tmp_path / name).read_text()) for name in ("r.json", "s.json"))
    for record in (one, other):
        del record["seconds"], record["stages"], record["origin"], record["dev"], record["plan"]
    assert one == other and one["cascades"][0]["selection"]["weights"] == {"s2s": 0.8, "ngram": 0.2}
    assert (tmp_path / "r.jsonl").read_text() == (tmp_path / "s.jsonl").read_text()


@pytest.mark.usefixtures("files")
def test_weights_from_a_first_stage(rescore: Run, tmp_path: Path) -> None:
    first = rescore("test.json", "--dev", "dev.json", "--lm", "ngram:one", "--no-bagging", "--save-weights", "w.json")
    assert first.returncode == 0, first.stderr
    compare = ("compare", "test.json", "--dev", "dev.json", *LMS, "--cascade", "w.json", "--json")
    done = rescore(*compare, "--no-leave-out")
    assert done.returncode == 0, done.stderr
    tuned = json.loads((tmp_path / "w.json").read_text())["weights"]
    rows = json.loads(done.stdout)["rows"]
    assert [row["name"] for row in rows] == ["ngram", "ngram:top=3", "ngram + ngram:top=3"]
    assert rows[1]["cascades"][0]["selection"]["weights"] == pytest.approx(tuned)
    (tmp_path / "one" / "lm.arpa").write_text(ARPA.replace("-0.", "-1.", 1))
    score = ("score", "test.json", *LMS, "--cascade", "w.json", "-o", "t.jsonl")
    assert_one_line_error(rescore(*score), "--cascade: column ngram comes from ngram@", "--force-weights")
    done = rescore(*score, "--force-weights")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("files")
def test_errors_are_one_line(rescore: Run, tmp_path: Path) -> None:
    assert_one_line_error(
        rescore("run", "test.json", "--lm", "ngram:one", "--weight", "0.2", "--cascade", "w.json"),
        "--cascade needs --lm",
    )
    (tmp_path / "t.txt").write_text("the old clock\n")
    done = rescore("score", "--text", "t.txt", "--lm", "ngram:top=2:one")
    assert_one_line_error(done, "--lm ngram:top=2: top=N is about lists")
    assert rescore("score", "test.json", "--lm", "ngram:one", "-o", "t.jsonl").returncode == 0
    done = rescore("score", "t.jsonl", "--lm", "ngram:lower:top=3:two")
    assert_one_line_error(done, "already have scores of ngram", "--cascade FILE")
    (tmp_path / "one" / "README.md").unlink()
    done = rescore("score", "test.json", *LMS)
    assert_one_line_error(done, "no recommended_weight", "--cascade FILE")


def test_python(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA)
    spec = f"ngram:top=2:{tmp_path}/lm.arpa"
    scored = package.score([["a b", "b a", "a"]], spec)
    assert [math.isinf(score) for score in scored[0].column("ngram:top=2")] == [False, False, True]
    scored = package.score([["a b", "b a", "a"]], spec, cascade={"s2s": 1.0, "words": -9.0})
    assert [math.isinf(score) for score in scored[0].column("ngram:top=2")] == [False, True, False]
