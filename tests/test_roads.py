"""One experiment by every road: `run`, the stages, a recipe, Python, `Rescorer`, the
service and Ray give equal texts and an equal signature, for every pair of features.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import rescore
from rescore import Rescorer, UserError, Weights, formats, pipeline
from rescore.columns import FIRST_PASS, SUM, Column
from rescore.config import RunConfig
from rescore.formats.writing import as_json
from rescore.lms.base import DEFAULT
from rescore.metrics import MetricOptions
from rescore.metrics.listed import WordList
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.options import OptionValues
from tests.cli.test_recipe import make
from tests.conftest import Run, fewer_samples

WORDS = {
    "a": -0.4,
    "b": -0.6,
    "c": -0.8,
    "d": -1.0,
    "x": -1.6,
    "y": -1.9,
    "</s>": -0.7,
    "<unk>": -2.5,
}


def arpa(shift: float) -> str:
    """A model whose word probabilities depend on `shift`; base 10."""
    ones = [f"{value * (1 + shift):.4f}\t{word}\t0" for word, value in WORDS.items()]
    head = [
        "\\data\\",
        f"ngram 1={len(ones) + 1}",
        "ngram 2=1",
        "",
        "\\1-grams:",
        "0\t<s>\t0",
    ]
    return "\n".join([*head, *ones, "", "\\2-grams:", "-0.2\ta b", "", "\\end\\", ""])


@dataclass(frozen=True)
class Feature:
    """What a user may ask for: options of the command line, and the same as fields of
    `RunConfig`.
    """

    name: str
    lms: tuple[str, ...] = ("ngram:one",)
    scoring: tuple[str, ...] = ()
    """Options of `run` and `score`."""
    tuning: tuple[str, ...] = ()
    """Options of `run` and `tune`."""
    measuring: tuple[str, ...] = ()
    """Options of `run`, `tune` and `rerank`."""
    fields: dict[str, Any] = field(default_factory=dict)
    means: bool = False
    """Whether first-pass scores are means over tokens."""
    parts: bool = False
    """Whether lists have parts of the first-pass score."""
    terms: bool = False
    """Whether each utterance has a misheard term."""


FEATURES = [
    Feature("means", means=True),
    Feature("two models", lms=("ngram:one", "ngram:two")),
    Feature("recombination", scoring=("--recombine", "3"), fields={"recombine": 3}),
    Feature("mbr", tuning=("--decide", "mbr"), fields={"decide": "mbr"}),
    Feature("rover", tuning=("--decide", "rover"), fields={"decide": "rover"}),
    Feature(
        "bwer",
        measuring=("--metric", "bwer", "--words", "words"),
        fields={"metrics": ("bwer",)},
    ),
    Feature(
        "boost",
        tuning=("--boost", "0.5"),
        measuring=("--words", "words"),
        fields={"boost": 0.5},
    ),
    Feature(
        "components", tuning=("--components",), fields={"components": True}, parts=True
    ),
    Feature(
        "token bonus",
        scoring=("--count-tokens",),
        tuning=("--token-bonus",),
        fields={"token_bonus": True},
    ),
]
TERMS = Feature(
    "terms",
    scoring=("--respell", "5", "--channel", "shipped", "--words", "terms"),
    measuring=("--words", "terms"),
    fields={"respell": 5, "channel": "shipped"},
    terms=True,
)
BOTH_DECIDE = {"mbr", "rover"}
PAIRS = [
    pair
    for pair in itertools.combinations(FEATURES, 2)
    if {one.name for one in pair} != BOTH_DECIDE
]
PAIRS += [
    (TERMS, one)
    for one in FEATURES
    if one.name in ("means", "two models", "recombination", "mbr")
]
REFUSED = {frozenset({"recombination", "components"})}
"""New hypotheses have no parts of the first-pass score: each road says so."""


def joined(one: Feature, other: Feature) -> Feature:
    return Feature(
        f"{one.name}, {other.name}",
        max(one.lms, other.lms, key=len),
        one.scoring + other.scoring,
        one.tuning + other.tuning,
        tuple(once(one.measuring + other.measuring)),
        one.fields | other.fields,
        one.means or other.means,
        one.parts or other.parts,
        one.terms or other.terms,
    )


def lists(feature: Feature, number: int, seed: int) -> list[NbestList]:
    """Lists of five hypotheses with errors."""
    chance = random.Random(seed)
    said, heard = (" goldman sachs", " gold man sacks") if feature.terms else ("", "")
    components = (
        {"am": Column.component("test"), "graph": Column.component("test")}
        if feature.parts
        else {}
    )
    result = []
    for index in range(number):
        reference = [chance.choice("abcd") for _ in range(chance.randint(3, 6))]
        texts: dict[str, None] = {}
        while len(texts) < 5:
            texts[
                " ".join(
                    chance.choice("xy") if chance.random() < 0.3 else word
                    for word in reference
                )
            ] = None
        hypotheses = []
        for text in texts:
            errors = sum(
                word != right
                for word, right in zip(text.split(), reference, strict=True)
            )
            total = -errors - chance.gauss(0, 1.5)
            scores = (
                {FIRST_PASS: total / len(reference), SUM: total}
                if feature.means
                else {FIRST_PASS: total}
            )
            if feature.parts:
                scores |= {
                    "am": -errors - chance.gauss(0, 1),
                    "graph": chance.gauss(0, 1),
                }
            hypotheses.append(Hypothesis(text + heard, scores))
        meant = " ".join(reference) + said
        result.append(
            NbestList(
                f"{'mn'[index % 2]}{index:03d}",
                hypotheses,
                (meant,),
                None,
                Header(records=components, scores_are_means=feature.means),
            )
        )
    return result


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _models(tmp_path)
    (tmp_path / "words").write_text("b\nd\n")
    (tmp_path / "terms").write_text("Goldman Sachs\nPostgres\n")


def _models(folder: Path) -> None:
    for name, shift in (("one", 0.0), ("two", 0.3)):
        (folder / name).mkdir()
        (folder / name / "lm.arpa").write_text(arpa(shift))
        (folder / name / "README.md").write_text("---\nrecommended_weight: 0.2\n---\n")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The models on workers of a Ray cluster, by name."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'rescore[ray]'")
    from rescore.scoring.cluster import Cluster

    folder = tmp_path_factory.mktemp("models")
    _models(folder)
    specs = {"ngram:one": f"ngram:{folder}/one", "ngram:two": f"ngram:{folder}/two"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster(list(specs.values()), DEFAULT, None, workers=1)
        try:
            yield dict(zip(specs, cluster.models, strict=True))
        finally:
            cluster.close()


def write(feature: Feature) -> tuple[list[NbestList], list[NbestList]]:
    """Dev and test lists, also as files."""
    dev, test = lists(feature, 40, 1), lists(feature, 24, 2)
    formats.write(dev, "dev.jsonl")
    formats.write(test, "test.jsonl")
    return dev, test


def lm_options(feature: Feature) -> list[str]:
    return [option for lm in feature.lms for option in ("--lm", lm)]


def outcome(results: str | Path, texts: str | Path) -> tuple[str, list[str]]:
    """The signature in a results file, and the lines of a file of texts."""
    return (
        json.loads(Path(results).read_text())["signature"],
        Path(texts).read_text().splitlines(),
    )


def once(options: Sequence[str]) -> list[str]:
    """Options without the second `--words FILE`: a file is given once."""
    kept: list[str] = []
    rest = list(options)
    while rest:
        word = rest.pop(0)
        if word == "--words" and word in kept:
            rest.pop(0)
        else:
            kept.append(word)
    return kept


def by_run(rescore: Run, feature: Feature, *more: str) -> tuple[str, list[str]]:
    options = [
        *lm_options(feature),
        *once([*feature.measuring, *_of_run(feature.scoring + feature.tuning)]),
        *more,
    ]
    done = rescore(
        "test.jsonl",
        "--dev",
        "dev.jsonl",
        *options,
        "--report",
        "run.json",
        "--best",
        "run.text",
    )
    assert done.returncode == 0, done.stderr
    return outcome("run.json", "run.text")


def _of_run(options: Sequence[str]) -> list[str]:
    """Options of `score` and `tune` as `run` has them: it counts tokens if a token
    bonus is tuned.
    """
    return [
        "--token-bonus=tune" if option == "--token-bonus" else option
        for option in options
        if option != "--count-tokens"
    ]


def by_stages(rescore: Run, feature: Feature) -> tuple[str, list[str]]:
    for name in ("dev", "test"):
        done = rescore(
            "score",
            f"{name}.jsonl",
            *lm_options(feature),
            *feature.scoring,
            "-o",
            f"{name}.s.jsonl",
        )
        assert done.returncode == 0, done.stderr
    done = rescore(
        "tune", "dev.s.jsonl", *feature.tuning, *feature.measuring, "-o", "w.json"
    )
    assert done.returncode == 0, done.stderr
    reranked = "rerank", "test.s.jsonl", "--weights", "w.json", *feature.measuring
    done = rescore(*reranked, "--report", "stages.json", "--best", "stages.text")
    assert done.returncode == 0, done.stderr
    return outcome("stages.json", "stages.text")


def words_of(feature: Feature) -> str | None:
    return next(
        (
            name
            for option, name in itertools.pairwise(feature.measuring)
            if option == "--words"
        ),
        None,
    )


def config_of(feature: Feature) -> RunConfig:
    words = WordList.load(Path(name)) if (name := words_of(feature)) else None
    others = {
        name: value for name, value in feature.fields.items() if name not in EXPANDING
    }
    measuring = MetricOptions(words=words)
    return RunConfig(
        lms=feature.lms, measuring=measuring, expanding=expanding_of(feature), **others
    )


EXPANDING = ("recombine", "respell", "channel")


def expanding_of(feature: Feature) -> OptionValues:
    return OptionValues(
        **{name: feature.fields[name] for name in EXPANDING if name in feature.fields}
    )


def by_python(
    feature: Feature, dev: list[NbestList], test: list[NbestList]
) -> tuple[str, list[str]]:
    options = dict(feature.fields)
    words = words_of(feature)
    scoring = {name: options.pop(name) for name in EXPANDING if name in options}
    if scoring.get("respell"):
        scoring["words"] = words
    if options.get("token_bonus"):
        scoring["count_tokens"] = True
    scored = [rescore.score(some, *feature.lms, **scoring) for some in (dev, test)]
    metric, decision = (
        next(iter(options.pop("metrics", ())), None),
        options.pop("decide", None),
    )
    weights = rescore.tune(
        scored[0], metric=metric, decision=decision, words=words, **options
    )
    results = rescore.evaluate(scored[1], weights, metric=metric, words=words)
    plan = pipeline.resolve(
        RunConfig(measuring=config_of(feature).measuring), scored[1], weights=weights
    )
    return results.signature, lines_of(pipeline.decide_stream(plan, weights, scored[1]))


def lines_of(decided: Any) -> list[str]:
    return [f"{nbest.id} {text}" for nbest, text in decided]


def of_rescorer(feature: Feature) -> RunConfig:
    return RunConfig(
        measuring=config_of(feature).measuring, expanding=expanding_of(feature)
    )


def by_rescorer(feature: Feature, test: list[NbestList]) -> list[str]:
    choices = Rescorer(
        list(feature.lms), Weights.load(Path("w.json")), of_rescorer(feature)
    ).choose_all(test)
    return [f"{choice.nbest.id} {choice.text}" for choice in choices]


def by_service(feature: Feature, test: list[NbestList]) -> list[str]:
    from rescore.service import app as service

    rescorer = Rescorer(
        list(feature.lms), Weights.load(Path("w.json")), of_rescorer(feature)
    )
    batcher = service.Batcher(rescorer, 1)
    try:
        body = json.dumps([as_json(nbest) for nbest in test]).encode()
        answers = batcher.submit(service.lists_of(body, None)[0]).result(60)
    finally:
        batcher.close()
    return [f"{answer['id']} {answer['text']}" for answer in answers]


def by_ray(
    feature: Feature,
    dev: list[NbestList],
    test: list[NbestList],
    remote: dict[str, Any],
) -> Any:
    run = pipeline.run(
        test,
        replace(config_of(feature), dev="dev"),
        dev,
        lambda: [remote[lm] for lm in feature.lms],
    )
    texts = [
        f"{nbest.id} {text}" for nbest, text in zip(run.lists, run.texts, strict=True)
    ]
    return run.results.signature, texts


@pytest.mark.long
@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair[0].name}+{pair[1].name}"
)
def test_every_road_gives_the_same(
    rescore: Run,
    remote: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    pair: tuple[Feature, Feature],
) -> None:
    fewer_samples(monkeypatch)
    feature = joined(*pair)
    dev, test = write(feature)
    if frozenset(one.name for one in pair) in REFUSED:
        done = rescore(
            "test.jsonl",
            "--dev",
            "dev.jsonl",
            *lm_options(feature),
            *feature.tuning,
            *feature.scoring,
        )
        assert (
            done.returncode == 2
            and "--components" in done.stderr
            and "--recombine" in done.stderr
        )
        with pytest.raises(UserError, match="--components and --recombine"):
            by_ray(feature, dev, test, remote)
        return
    expected = by_run(rescore, feature)
    assert not feature.terms or all(
        line.endswith(" goldman sachs") for line in expected[1]
    )
    assert by_stages(rescore, feature) == expected
    assert by_python(feature, dev, test) == expected
    assert by_rescorer(feature, test) == expected[1]
    assert by_service(feature, test) == expected[1]
    assert by_ray(feature, dev, test, remote) == expected


QUICK = [
    {"recombination", "mbr"},
    {"two models", "components"},
    {"means", "token bonus"},
]
"""Pairs whose recipes run in the quick tests: each recipe starts the tool a dozen
times.
"""


def recipes() -> Iterator[Any]:
    for one, other in PAIRS:
        names = {one.name, other.name}
        if names not in REFUSED:
            marks = [] if names in QUICK else [pytest.mark.slow]
            yield pytest.param(
                joined(one, other), id=f"{one.name}+{other.name}", marks=marks
            )


@pytest.mark.parametrize("feature", [*recipes()])
def test_a_recipe_gives_the_same(
    rescore: Run, tmp_path: Path, feature: Feature
) -> None:
    write(feature)
    expected = by_run(rescore, feature)
    lines = ["DEV := dev.jsonl", "TEST := test.jsonl", f"LM := {' '.join(feature.lms)}"]
    lines += [
        f"SCORE_OPTIONS := {' '.join(feature.scoring)}",
        f"TUNE_OPTIONS := {' '.join(feature.tuning)}",
    ]
    lines += [
        f"MEASURE_OPTIONS := {' '.join(feature.measuring)}",
        "include $(shell rescore recipe)",
    ]
    (tmp_path / "Makefile").write_text("\n".join(lines) + "\n")
    made = make(tmp_path)
    assert made.returncode == 0, made.stderr
    signature, texts = outcome("rescored/test.results.json", "rescored/test.trn")
    assert signature == expected[0]
    assert texts == [
        f"{text} ({name})"
        for name, _, text in (line.partition(" ") for line in expected[1])
    ]
