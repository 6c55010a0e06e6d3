"""Law 7: what is stored and used again has a key of everything that could change it,
and a key that differs is told by name.

Every stored thing is here. Each option that is not harmless, and each field of what is
read and written, is changed: the stored thing is refused or made again, or what is
allowed to change is told. A new option or field is in the law by its declaration.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import msgspec
import pytest

from rescore import formats, keys, pipeline
from rescore.asr.mixture import Mixture
from rescore.cli.train import trained_kinds
from rescore.columns import Column, Role
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.lms.base import ComputeOptions, Question, WithNeighbours
from rescore.lms.cache import _key as cache_key
from rescore.lms.function import FunctionModel
from rescore.nbest import Audio, Header, Hypothesis, NbestList
from rescore.options import Declared, Field, OptionValues, flattened, option
from rescore.reports.check import compare, compare_reports, render
from rescore.reports.outputs import MeasuredOutputs, Output
from rescore.reports.records import MetricResult, Record
from rescore.scoring.shards import Shards
from rescore.signature import Conditions
from rescore.tuning import TunedBy, Tuning, Weights, suited
from tests.conftest import Run, assert_one_line_error

# --- other values --------------------------------------------------------------------


def another(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, Role):
        return Role.COMPONENT
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, tuple):
        return (*value, *(value[:1] or ("x",)))
    if isinstance(value, list):
        return value[:1]
    if isinstance(value, Mapping):
        return {"other": next(iter(value.values()), "x")}
    raise AssertionError(f"no other value of {value!r}")


def changed(whole: Any, without: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the name of each field that counts in comparisons, and a copy of the object
    in which it has another value; of fields in fields, too.
    """
    for entry in fields(whole):
        value = getattr(whole, entry.name)
        if not entry.compare or entry.name in without:
            continue
        if is_dataclass(value):
            for name, inner in changed(value):
                yield f"{entry.name}.{name}", replace(whole, **{entry.name: inner})
        else:
            yield entry.name, replace(whole, **{entry.name: another(value)})


COLUMN = Column("tta", "ab", "sum", "float32")
HYPOTHESIS = Hypothesis(
    "a b", {"s2s": -1.0}, "first_pass", ((0.0, 1.0),), 0, "0-0", -2.0
)
LIST = NbestList(
    "u1",
    [HYPOTHESIS, Hypothesis("a", {"s2s": -2.0})],
    ("a b",),
    "source",
    Header(records={"tta": COLUMN}),
    "recording",
    Audio("no-such.wav", 0.0, 1.0, b"content"),
    fields={"accent": "x"},
)
"""A list in which every field has a value."""


def other_lists() -> Iterator[tuple[str, NbestList]]:
    """Yield lists that differ from `LIST` in one field that is read or written."""
    yield from changed(LIST)
    for name, record in changed(COLUMN):
        header = Header(records={"tta": record})
        yield f"records.{name}", replace(LIST, header=header)
    for name, hypothesis in changed(HYPOTHESIS):
        hypotheses = [hypothesis, *LIST.hypotheses[1:]]
        yield f"hypotheses.{name}", replace(LIST, hypotheses=hypotheses)


OTHER_LISTS = dict(other_lists())


def test_every_field_of_lists_has_a_value() -> None:
    empty = (None, "", (), {}, [])
    for whole in (LIST, HYPOTHESIS, LIST.audio, LIST.header, COLUMN):
        for entry in fields(cast(Any, whole)):
            if entry.compare:
                assert getattr(whole, entry.name) not in empty, entry.name


# --- finished parts of a scored file -------------------------------------------------


def with_a_part(folder: Path, made_by: dict[str, Any]) -> str:
    """Return an output with one finished part, of `LIST` between neighbours."""
    output = str(folder / "out.jsonl")
    shards = Shards(output, made_by)
    window = [WithNeighbours(LIST, ("before",), ("after",))]
    for again in shards.missing([window], lambda done: None):
        path, key = shards._to_write.popleft()
        formats.write([placed.nbest for placed in again], str(path))
        shards._note(path, key)
    return output


def is_reused(output: str, made_by: dict[str, Any], placed: WithNeighbours) -> bool:
    """Return whether a part is not scored again."""
    return not list(Shards(output, made_by).missing([[placed]], lambda done: None))


@pytest.fixture
def sounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings here hold no sound."""
    monkeypatch.setattr(formats.audio, "digest", keys.digest_of)


@pytest.mark.usefixtures("sounds")
@pytest.mark.parametrize("name", OTHER_LISTS)
def test_parts_of_other_lists(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = with_a_part(tmp_path, {"lm": ["a"]})
    same = WithNeighbours(LIST, ("before",), ("after",))
    assert is_reused(output, {"lm": ["a"]}, same)
    other = replace(same, nbest=OTHER_LISTS[name])
    caplog.clear()
    assert not is_reused(output, {"lm": ["a"]}, other)
    parts = name.replace("_", "-").split(".")
    assert [part for part in parts if part in caplog.text], caplog.text


@pytest.mark.usefixtures("sounds")
def test_parts_of_other_neighbours(tmp_path: Path) -> None:
    output = with_a_part(tmp_path, {})
    for before, after in ((("x",), ("after",)), (("before",), ("x",)), ((), ())):
        assert not is_reused(output, {}, WithNeighbours(LIST, before, after))


def model(**changes: str) -> FunctionModel:
    """Return a model with other facts."""
    lm = FunctionModel(lambda texts: [-1.0] * len(texts), "f")
    lm.name = "m"
    for name, value in changes.items():
        setattr(lm, name, value)
    return lm


SETTINGS: dict[str, dict[str, Any]] = {
    "lm (its weights, tokenizer, prompt and options)": {
        "models": [model(fingerprint="g")]
    },
    "lm (name of the column)": {"models": [model(name="n", model="m")]},
    "lm (back-end)": {"models": [model(model="n")]},
    "precision": {"models": [model(precision="bf16")]},
    "lm (one more)": {"models": [model(), model(name="n")]},
    "lm_norm": {"norm": "mean"},
    "count_tokens": {"counted": [model()]},
}
"""The settings of a plan that decide the columns of `rescore score`."""


@pytest.mark.parametrize("name", SETTINGS)
def test_parts_of_other_settings(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    usual: dict[str, Any] = {"models": [model()], "norm": "sum", "counted": []}
    made_by = pipeline.made_by(cast(Any, SimpleNamespace(**usual)))
    now = pipeline.made_by(cast(Any, SimpleNamespace(**{**usual, **SETTINGS[name]})))
    placed = WithNeighbours(replace(LIST, audio=None))
    output = str(tmp_path / "o.jsonl")
    shards = Shards(output, made_by)
    for window in shards.missing([[placed]], lambda done: None):
        path, key = shards._to_write.popleft()
        formats.write([one.nbest for one in window], str(path))
        shards._note(path, key)
    del shards  # which has the folder for itself
    assert is_reused(output, made_by, placed)
    assert not is_reused(output, now, placed)
    [different] = keys.differences(made_by, now)
    assert str(different) in caplog.text and ", now " in caplog.text


# --- scores in a cache ---------------------------------------------------------------

SOUND = Audio("a.wav", 0.0, 1.0, b"x")
QUESTION = Question("a b", "source", ("before",), ("after",), SOUND)


def test_scores_of_other_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescore.lms.cache.digest", keys.digest_of)
    questions = dict(changed(QUESTION, without=("optional", "name")))
    assert len(questions) == len(fields(Question)) - 1 + 4
    hashes = {name: cache_key(question) for name, question in questions.items()}
    assert len({cache_key(QUESTION), *hashes.values()}) == len(hashes) + 1


def test_scores_of_other_models(models: dict[str, Path]) -> None:
    """The fingerprint of a model names the file of its scores: each option that is not
    harmless changes it, or is not of this model.
    """
    from rescore.lms import load

    spec = f"tta:{models['tta']}"
    usual = load(spec, ComputeOptions()).fingerprint
    acts = {"precision": "int8"}
    for entry in ComputeOptions.declared():
        if entry.about.harmless or entry.name == "prompt":  # tests/large/test_prompt.py
            continue
        computing = ComputeOptions(**{entry.name: acts[entry.name]})
        assert load(spec, computing).fingerprint != usual, entry.name
    assert load(f"tta:lower:{models['tta']}", ComputeOptions()).fingerprint != usual


# --- the state of a training ---------------------------------------------------------

TRAINED = {
    name: kind for name, kind in trained_kinds().loaded() if hasattr(kind, "network")
}
FOUND = {
    "text": "the digest of the encoded text",
    "pairs": "the digest of the encoded pairs",
    "config": "the sizes of the network",
    "tokenizer": "the fingerprint of the tokenizer",
    "held_out": "the number of sentences that were held out",
    "init": "the digest of the weights",
    "generator": "the digest of the weights",
    "confusions": "the digest of the lists",
}
"""Options whose effect is in the key: `test_a_state_of_other_inputs` changes them."""


def other_option(entry: Field) -> Any:
    """Return another value of an option than its default."""
    about = entry.about
    choices = about.choices if isinstance(about.choices, tuple) else ()
    if isinstance(entry.default, tuple):
        return choices[:1]
    if choices:
        return next(value for value in choices[1:] if value != entry.default)
    if isinstance(entry.default, bool):
        return not entry.default
    if entry.default is None:
        kinds = get_args(entry.hint) or (entry.hint,)
        return {int: 7, float: 0.05}.get(kinds[0], "x")
    value = entry.default + (1 if isinstance(entry.default, int) else 0.01)
    return value if about.high is None or value <= about.high else entry.default / 2


def options_of_states() -> list[tuple[str, Field]]:
    """Return each option of a training of a network that is not harmless."""
    every = []
    for name, kind in TRAINED.items():
        for entry in flattened(kind.training_options().declared()):
            if not entry.about.harmless and entry.name not in FOUND:
                every.append((name, entry))
    return every


OPTIONS = options_of_states()


@pytest.mark.parametrize(
    ("kind", "entry"), OPTIONS, ids=[f"{kind}-{entry.name}" for kind, entry in OPTIONS]
)
def test_a_state_of_other_options(
    kind: str, entry: Field, caplog: pytest.LogCaptureFixture
) -> None:
    from rescore.lms.training.state import ADJUSTABLE, check_same

    group = cast(Any, TRAINED[kind].training_options())
    given: dict[str, Any] = {"out": Path("lm")}
    if kind == "electra":
        given["confusions"] = "no-such.jsonl"
    own = {option_field.name for option_field in group.declared()}
    other: dict[str, Any] = {entry.name: other_option(entry)}
    if entry.name not in own:
        other = {"lessons": OptionValues(**other)}
    if entry.name == "minutes":
        given["steps"] = None
    without = ("pairs", "config")
    before, now = (
        keys.key_of(options, options.contents, without)
        for options in (group(**given), group(**given, **other))
    )
    names = {different.name for different in keys.differences(before, now)}
    assert entry.name.replace("_", "-") in names
    if names <= {name.replace("_", "-") for name in ADJUSTABLE}:
        with caplog.at_level(logging.INFO):
            check_same(Path("state"), before, now)
        assert f"--{entry.name.replace('_', '-')} was " in caplog.text
    else:
        with pytest.raises(UserError, match="state: was made with "):
            check_same(Path("state"), before, now)


def test_a_state_of_other_inputs(tmp_path: Path, models: dict[str, Path]) -> None:
    """What options that name files and models came to."""
    from rescore.lms.training.options import NeuralOptions
    from rescore.research.electra_kind import ElectraOptions

    def contents(group: type[Any], **given: Any) -> dict[str, Any]:
        found: dict[str, Any] = group(out=tmp_path, **given).contents
        return found

    tta = str(models["tta"])
    plain = contents(NeuralOptions)
    adapted = contents(NeuralOptions, init=tta)
    assert adapted["init"] != plain["init"]
    file = models["tta"] / "tokenizer.json"
    given = contents(NeuralOptions, tokenizer=file)
    assert given["tokenizer"] == adapted["tokenizer"]
    lists = tmp_path / "l.jsonl"
    digests = []
    for text in ("a", "b"):
        lists.write_text(text)
        digests.append(contents(ElectraOptions, confusions=str(lists))["confusions"])
    assert digests[0] != digests[1]
    sampled = contents(ElectraOptions, confusions=str(lists), generator=tta)
    assert sampled["generator"] is not None


def test_an_option_of_another_package_is_in_keys() -> None:
    """By its declaration alone."""

    @dataclass(frozen=True, kw_only=True)
    class Own(Declared):
        share: float = option(0.5, "Share.")
        place: str = option("a", "Place.", harmless=True)

    assert keys.key_of(Own()) == {"share": 0.5}
    [different] = keys.differences(keys.key_of(Own()), keys.key_of(Own(share=0.25)))
    assert str(different) == "share 0.5, now 0.25"


# --- weights that are applied to lists -----------------------------------------------

TOLD = {"precision": "column tta is in float32x"}
"""Fields of columns that may be others, which a line says."""
NAMES = {
    "model": "the fingerprint names the model, wherever it lies",
    "role": "weights of a column do not depend on what messages call it",
}
"""Fields of columns that cannot change a score."""


@pytest.mark.parametrize("name", [entry.name for entry in fields(Column)])
def test_weights_for_other_columns(name: str, caplog: pytest.LogCaptureFixture) -> None:
    weights = Weights({"s2s": 0.5, "tta": 0.5}, tuning=Tuning(columns={"tta": COLUMN}))
    lists = [OTHER_LISTS[f"records.{name}"]]
    with caplog.at_level(logging.INFO):
        if name in TOLD:
            suited(weights, lists)
            assert TOLD[name] in caplog.text
        elif name in NAMES:
            suited(weights, lists)
        else:
            with pytest.raises(UserError, match=r"column tta comes from .*tuned on"):
                suited(weights, lists)


def test_votes_of_other_systems() -> None:
    system = replace(COLUMN, role=Role.SYSTEM)
    weights = Weights({"s2s": 1.0}, mixture=Mixture({"a": 0.4, "b": 0.6}))
    for names in (("a",), ("a", "b", "c"), ("a", "x"), ()):
        header = Header(records=dict.fromkeys(names, system))
        with pytest.raises(UserError, match="votes of a, b, but the systems of these"):
            suited(weights, [replace(LIST, header=header)])


# --- results that are compared -------------------------------------------------------

CONDITIONS = Conditions({"case": "lc"}, "BLEU", "2@2-0b1f6d70", "bootstrap")
CHOICE = Weights(
    {"s2s": 1.0, "tta": 0.5},
    frozenset({"respelled"}),
    Decision("rover", 1.0, {"no_word": 0.5}),
    Mixture({"a": 0.4, "b": 0.6}),
    Tuning(TunedBy.FOLDS, "", 2, "2-0b1f6d70", 5, "speaker", how={"cut": "0:3"}),
)
MEASURED = MetricResult(
    "WER", False, 2.0, 0.0, 1.0, None, {}, {}, {}, "", conditions=CONDITIONS
)
RESULTS = Record(2, 4, CHOICE, "", columns={"tta": COLUMN}, metrics=[MEASURED])


def report(*names: str, conditions: Conditions = CONDITIONS) -> list[MeasuredOutputs]:
    """Return a report of `rescore eval`."""
    systems = [Output(name, float(len(name)), {"ref_words": 2}, 1) for name in names]
    return [MeasuredOutputs("WER", "", False, systems, conditions)]


def choices() -> Iterator[tuple[str, Weights]]:
    """Yield what a comparison has to name, and a choice that differs in it."""
    decision = CHOICE.decision
    tuning = CHOICE.tuning
    yield "weights", replace(CHOICE, weights={"s2s": 1.0, "tta": 0.6})
    yield "weights", replace(CHOICE, mixture=Mixture({"a": 0.5, "b": 0.6}))
    yield "votes", replace(CHOICE, mixture=replace(CHOICE.mixture, estimated=True))
    yield "excluded", replace(CHOICE, excluded=frozenset())
    yield "decision", replace(CHOICE, decision=Decision("mbr", 1.0))
    yield "scale", replace(CHOICE, decision=replace(decision, scale=2.0))
    yield "deciding", replace(CHOICE, decision=replace(decision, settings={}))
    yield "tuned", replace(CHOICE, tuning=Tuning(TunedBy.CARD))
    others = {"folds": 4, "unit": "utterance", "how": {}, "lists": 3, "forced": True}
    for name, value in {**others, "digest": "2-0b1f6d71"}.items():
        yield "tuned", replace(CHOICE, tuning=replace(tuning, **{name: value}))


def other_results() -> Iterator[tuple[str, Record]]:
    """Yield what a comparison has to name, and results that differ in it."""
    for name, choice in choices():
        yield name, replace(RESULTS, choice=choice)
    for _, column in changed(COLUMN, without=("role",)):
        yield "columns", replace(RESULTS, columns={"tta": column})
    for name, conditions in changed(CONDITIONS, without=("form",)):
        measured = replace(MEASURED, conditions=conditions)
        yield name, replace(RESULTS, metrics=[measured])


@pytest.mark.parametrize(("name", "now"), list(other_results()))
def test_results_of_other_choices_and_conditions(name: str, now: Record) -> None:
    """Another form means another version, and the check names it. Weights that choose
    the same texts are the same, so other texts are chosen here.
    """
    findings = compare(RESULTS, replace(now, changed=1), 0.0)
    verdicts = {finding.name: finding.verdict for finding in findings}
    assert verdicts[name] in ("changed", "differs")


@pytest.mark.parametrize(
    ("name", "conditions"), list(changed(CONDITIONS, without=("form",)))
)
def test_reports_of_other_conditions(name: str, conditions: Conditions) -> None:
    findings = compare_reports(report("a"), report("a", conditions=conditions), 0.0)
    verdicts = {finding.name: finding.verdict for finding in findings}
    assert verdicts[f"{name} of WER"] in ("changed", "differs")


@pytest.mark.parametrize(
    ("now", "verdicts"),
    [
        (("bb", "a"), {}),
        (("a",), {"bb (WER)": "differs"}),
        (("a", "ccc"), {"bb (WER)": "differs", "ccc (WER)": "changed"}),
        (("ccc", "bb", "a"), {"ccc (WER)": "changed"}),
    ],
)
def test_outputs_are_matched_by_name(
    now: tuple[str, ...], verdicts: dict[str, str]
) -> None:
    findings = compare_reports(report("a", "bb"), report(*now), 0.0)
    told = {one.name: one.verdict for one in findings if one.verdict != "same"}
    assert told == verdicts


OUTPUTS = (
    ("alpha.trn", "beta.trn", "gamma.trn"),
    ("alpha/hyp.trn", "beta/hyp.trn"),
    ("base.trn", "new/base.trn"),
    ("a/x.trn", "a/y.trn", "b/x.trn"),
    ("toolkit/1", "toolkit/2"),
    ("one.trn",),
)
FOLDERS = ("", "./", "today/", "../today/", "/home/me/today/")


@pytest.mark.parametrize("names", OUTPUTS, ids=" ".join)
def test_outputs_are_matched_wherever_their_folder_is(names: tuple[str, ...]) -> None:
    for golden, now in itertools.product(FOLDERS, FOLDERS):
        reports = []
        for folder in (golden, now):
            outputs = [
                Output(folder + name, float(place), {"ref_words": 2}, 1)
                for place, name in enumerate(names)
            ]
            reports.append([MeasuredOutputs("WER", "", False, outputs, CONDITIONS)])
        findings = compare_reports(*reports, 0.0)
        assert {finding.verdict for finding in findings} == {"same"}, (golden, now)
        assert len(findings) == 2 + 3 * len(names)


@pytest.mark.parametrize(
    ("now", "advised"),
    [
        (("a", "cc"), "bb=cc"),
        (("new/a", "new/cc"), "bb=cc"),
        (("a", "ccc"), None),  # other figures
        (("a", "cc", "dd"), None),  # either may be it
        (("a",), None),
        (("new/a",), None),
    ],
)
def test_a_renamed_output_is_named(now: tuple[str, ...], advised: str | None) -> None:
    golden = report("a", "bb")
    today = report(*now)
    for output in today[0].systems:
        output.value = float(len(Path(output.name).name))
    findings = compare_reports(golden, today, 0.0)
    printed = render(findings)
    assert "FAILED: bb (WER)" in printed
    assert ("--renamed" in printed) == (advised is not None)
    if advised is not None:
        assert f"give --renamed {advised}," in printed
        old, new = advised.split("=")
        findings = compare_reports(golden, today, 0.0, {old: new})
        assert not any(finding.failed for finding in findings)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("b=c", "no output in the golden file is called b"),
        ("a=b", "no output in the results is called b"),
        ("a", "expected OLD=NEW"),
        ("=a", "expected OLD=NEW"),
        ("a=", "expected OLD=NEW"),
    ],
)
def test_new_names_are_those_of_outputs(typed: str, told: str, rescore: Run) -> None:
    Path("r.json").write_bytes(msgspec.json.encode(report("a", "c")[0]))
    done = rescore("check", "r.json", "--golden", "r.json", "--renamed", typed)
    assert_one_line_error(done, "--renamed", told)


# --- files of released versions ------------------------------------------------------

RELEASED = Path(__file__).parents[1] / "data" / "released"
VERSIONS = sorted(path.name for path in RELEASED.iterdir() if path.is_dir())


@pytest.fixture
def released(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of the files of a version, in which commands run."""
    import shutil

    folder = tmp_path / "files"
    shutil.copytree(RELEASED / request.param, folder)
    monkeypatch.chdir(folder)
    return folder


each_version = pytest.mark.parametrize("released", VERSIONS, indirect=True)
CACHED = ("--weight", "0.3", "--cache", "cache")
TRAINING = (
    *("train", "--lm", "tta", "--config", "tiny.json", "--held-out", "2"),
    *("--batch-tokens", "100", "--device", "cpu", "--text", "text.txt"),
    *("--out", "tta", "--resume"),
)


@each_version
def test_released_models_and_lists(rescore: Run, released: Path) -> None:
    for lm in ("tta:tta", "ngram:ngram"):
        done = rescore("score", "test.jsonl", "--lm", lm, "-o", "new.jsonl")
        assert done.returncode == 0, done.stderr
    pairs = ("--lm", "lexical:lexical", "--src", "source.txt", "--ref-format", "plain")
    lines = (released / "test.jsonl").read_text().splitlines()
    (released / "source.txt").write_text("the house is red\n" * len(lines))
    done = rescore("score", "test.jsonl", *pairs, "-o", "new.jsonl")
    assert done.returncode == 0, done.stderr
    done = rescore("rerank", "scored.jsonl", "--weights", "weights.json")
    assert done.returncode == 0, done.stderr
    done = rescore("run", "test.jsonl", "--lm", "tta:tta", *CACHED)
    assert done.returncode == 0, done.stderr


@each_version
def test_released_results(rescore: Run, released: Path) -> None:
    done = rescore("report", "results.json", "--dev")
    assert done.returncode == 0 and "demo, first pass" in done.stdout, done.stderr
    done = rescore("check", "results.json", "--golden", "results.json")
    assert done.returncode == 0, done.stderr
    assert rescore("eval", "test.jsonl", "--report", "new.json").returncode == 0
    done = rescore("check", "new.json", "--golden", "eval.json")
    assert done.returncode == 0, done.stdout + done.stderr


@each_version
@pytest.mark.long
def test_released_states(rescore: Run, released: Path) -> None:
    done = rescore(*TRAINING, "--steps", "3", "--mask-keep", "0.1")
    assert done.returncode == 2 and "--mask-keep" in done.stderr
    done = rescore(*TRAINING, "--steps", "3", "--seed", "1")
    assert done.returncode == 2 and "was made with " in done.stderr
    done = rescore(*TRAINING, "--steps", "3")
    assert done.returncode == 0 and "step 3 " in done.stderr, done.stderr
