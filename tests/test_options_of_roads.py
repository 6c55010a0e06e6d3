"""Each option of `run` on each other road: it is refused by name, or it does there what
it does in `run`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

import rescore
from rescore import Rescorer, UserError, border, formats, options
from rescore.asked import ROADS
from rescore.config import RunConfig, with_option
from rescore.formats.writing import as_json
from rescore.lms.lexicon import Lexicon
from rescore.nbest import NbestList
from tests import stand_ins, test_roads
from tests.conftest import Done, Run, fewer_samples, parameters_of
from tests.test_roads import Feature

LMS = ("ngram:one", "ngram:two")
ENTRIES = {entry.name: entry for entry in options.flattened(RunConfig.declared())}
CASES: dict[str, dict[str, Any]] = {
    "lm_norm": {"lm_norm": "mean"},
    "weights": {"weights": (0.3, 0.2)},
    "word_bonus": {"word_bonus": False, "bagging": False},
    "token_bonus": {"token_bonus": True, "count_tokens": True, "bagging": False},
    "boost": {"boost": 0.5, "words": "words"},
    "folds": {"folds": 4},
    "speaker": {"folds": 2, "speaker": "^(.)"},
    "bagging": {"bagging": False},
    "negative": {"negative": ("ngram.two",), "bagging": False},
    "components": {"components": True},
    "recombine": {"recombine": 3, "decide": "mbr"},
    "respell": {
        "respell": 3,
        "channel": "shipped",
        "lexicon": "lexicon.xz",
        "words": "words",
    },
    "channel": {
        "respell": 3,
        "channel": "channel",
        "lexicon": "lexicon.xz",
        "bagging": False,
    },
    "lexicon": {"respell": 3, "channel": "shipped", "lexicon": "lexicon.xz"},
    "decide": {"decide": "mbr"},
    "scale": {"decide": "mbr", "scale": 0.5},
    "votes": {"votes": "equal"},
    "no_word": {"decide": "rover", "scale": 0.5, "no_word": 9.0},
    "metrics": {"metrics": ("cer",)},
    "open_asr": {"open_asr": "en"},
    "numbers": {"numbers": "en"},
    "answer": {"answer": "[a-z]+"},
    "language": {"language": "tr"},
    "replace": {"replace": "rules"},
    "steps": {"steps": ("awake",)},
    "words": {"metrics": ("bwer",), "words": "words"},
    "tokenise": {"metrics": ("bleu",), "tokenise": "char"},
    "model": {"metrics": ("bleu", "comet"), "model": "folder"},
    "align": {"align": "jiwer"},
    "by": {"by": "^(.)"},
    "by_speaker": {"by_speaker": True, "speaker": "([0-9])$"},
}
"""For each option a value that changes something, and other options that it needs."""
CASES |= {
    name: {name: True}
    for name, entry in ENTRIES.items()
    if entry.hint is bool and name not in CASES
}
RUN_ALONE = ("weights", "folds", "speaker", "votes")
"""No stage can have them: with `--weight` and `--folds` no weights are tuned on dev
lists; `--votes` is for lists of several systems (tests/asr/test_agreement.py).
"""
HEARD, SAID = (
    " lantarn well-known It's, <unk> 四五 \uff46\uff55\uff4c\uff4c \u05d0\u05b8 Um",
    " lantern well known its 四 五 full \u05d0 um",
)


NAMES = [*"abcdxy", "lantern", "well", "known", "its", "gold", "man", "sacks", "um"]
"""The words of the lexicon."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A folder with models and lists on which each option changes something: with
    parts of the first-pass score, or with source texts, where an option needs them.
    """

    @cache
    def folder(parts: bool, source: str | None) -> Path:
        made = tmp_path_factory.mktemp("inputs")
        test_roads._models(made)
        (made / "words").write_text("b\nd\nGoldman Sachs\n")
        (made / "rules").write_text("lantarn\tlantern\n")
        Lexicon(dict.fromkeys(NAMES, 100), 10_000).save(made / "lexicon.xz")
        for name, number, seed in (("dev", 40, 1), ("test", 24, 2)):
            lists = test_roads.lists(Feature("", parts=parts, terms=True), number, seed)
            marked = [_with_marks(nbest, source) for nbest in lists]
            formats.write(marked, str(made / f"{name}.jsonl"))
        return made

    return folder


@pytest.fixture(autouse=True)
def experiment(
    inputs: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Work in a copy of the folder that suits the option of a test."""
    stand_ins.install(monkeypatch)
    fewer_samples(monkeypatch)
    monkeypatch.chdir(tmp_path)
    parts = "components]" in request.node.name
    source = "a source" if "model]" in request.node.name else None
    shutil.copytree(inputs(parts, source), tmp_path, dirs_exist_ok=True)


def _with_marks(nbest: NbestList, source: str | None) -> NbestList:
    heard = (
        HEARD.removesuffix(" Um" * (rank % 2)) for rank in range(len(nbest.hypotheses))
    )
    hypotheses = [
        replace(one, text=one.text + marks)
        for one, marks in zip(nbest.hypotheses, heard, strict=True)
    ]
    return replace(
        nbest,
        hypotheses=hypotheses,
        references=(nbest.references[0] + SAID,),
        source=source,
    )


def read(name: str) -> list[NbestList]:
    return rescore.read(f"{name}.jsonl")


KNOWN: dict[tuple[object, ...], Any] = {}


def once(make: Callable[[], Any], *key: object) -> Any:
    """What is equal for many options, such as a run without any, is made once for equal
    lists.
    """
    whole = (*key, *(Path(f"{name}.jsonl").read_bytes() for name in ("dev", "test")))
    if whole not in KNOWN:
        KNOWN[whole] = make()
    return KNOWN[whole]


def taken(road: str, case: dict[str, Any]) -> dict[str, Any]:
    """What a road takes of the options of a case."""
    return {name: value for name, value in case.items() if takes(road, name)}


def takes(road: str, name: str) -> bool:
    title = ENTRIES[name].title if name in ENTRIES else ""
    return ROADS[road].takes(name, title)


def without(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """The options of a case but one, and what has no meaning without it."""
    needing = {
        "respell": {*case},
        "words": {"metrics"},
        "model": {"metrics"},
        "decide": {"scale"},
        "by_speaker": {"speaker"},
    }.get(name, set())
    return {
        other: value
        for other, value in case.items()
        if other != name and other not in needing
    }


def typed(command: str, case: dict[str, Any]) -> list[str]:
    """Options as they are typed for a command; those of other commands are left out."""
    parameters = {parameter.name: parameter for parameter in parameters_of(command)}
    words = []
    for name, value in case.items():
        parameter = parameters.get(name)
        if not isinstance(parameter, click.Option):
            continue
        if parameter.is_flag:
            words.append(
                (
                    parameter.opts
                    if value or not parameter.secondary_opts
                    else parameter.secondary_opts
                )[0]
            )
            continue
        for one in value if isinstance(value, tuple) else (value,):
            typed = (
                {True: "tune", False: "off"}.get(one, one)
                if isinstance(one, bool)
                else one
            )
            words.append(f"{parameter.opts[0]}={typed}")
    return words


def test_each_option_has_a_case() -> None:
    assert CASES.keys() | {"collar"} == ENTRIES.keys()  # of recordings with speakers


def test_commands_have_the_options_of_their_roads() -> None:
    flags = {entry.about.flag(name): name for name, entry in ENTRIES.items()}
    for road in ROADS.keys() - {"curve", "evaluate"}:
        offered = {
            flags[flag]
            for parameter in parameters_of(road)
            for flag in parameter.opts
            if flag in flags
        }
        # of their tests
        if road in ("eval", "compare"):
            offered -= {"speaker", "by_speaker"}
        expected = {name for name in ENTRIES if takes(road, name)}
        assert offered <= expected and expected - offered <= {*ROADS[road].in_python}


def done(run: Run, *arguments: str) -> Done:
    found = run(*arguments)
    assert found.returncode == 0, found.stderr
    return found


def outcome(results: str) -> tuple[Any, list[str]]:
    """All figures, with their signature, and the texts."""
    report = json.loads(Path(f"{results}.json").read_text())
    figures = [
        [one["metric"], one["signature"], one["first_pass"], one["reranked"]]
        for one in report["metrics"]
    ]
    return (report["signature"], figures), Path(
        f"{results}.text"
    ).read_text().splitlines()


def by_run(run: Run, case: dict[str, Any]) -> tuple[Any, list[str]]:
    weighed = [f"--lm={lm}" for lm in LMS] + (
        ["--dev", "dev.jsonl"] if not {"weights", "folds"} & {*case} else []
    )
    done(
        run,
        "run",
        "test.jsonl",
        *weighed,
        *typed("run", case),
        "--report",
        "run.json",
        "--best",
        "run.text",
    )
    return outcome("run")


def by_stages(run: Run, case: dict[str, Any]) -> tuple[Any, list[str]]:
    for name in ("dev", "test"):
        scoring = taken("score", case)
        done(
            run,
            "score",
            f"{name}.jsonl",
            *[f"--lm={lm}" for lm in LMS],
            *typed("score", scoring),
            "-o",
            f"{name}.s.jsonl",
        )
    later = {
        name: value
        for name, value in case.items()
        if name not in ("recombine", "respell", "channel", "lexicon")
    }
    done(run, "tune", "dev.s.jsonl", *typed("tune", later), "-o", "w.json")
    measured = typed("rerank", later)
    done(
        run,
        "rerank",
        "test.s.jsonl",
        "--weights",
        "w.json",
        *measured,
        "--report",
        "s.json",
        "--best",
        "s.text",
    )
    return outcome("s")


def by_python(case: dict[str, Any]) -> str:
    scored = [
        rescore.score(read(name), *LMS, **taken("score", case))
        for name in ("dev", "test")
    ]
    later = {name: value for name, value in case.items() if name != "recombine"}
    weights = rescore.tune(scored[0], **taken("tune", later))
    metrics = {"metric": case["metrics"][0]} if "metrics" in case else {}
    words = {"words": case["words"]} if "words" in case else {}
    names = ("by", "by_speaker", "speaker")
    tests = {name: case[name] for name in names if name in case}
    results = rescore.evaluate(scored[1], weights, **metrics, **words, **tests)
    return results.signature


def by_rescorer(case: dict[str, Any]) -> list[str]:
    rescorer = Rescorer(
        list(LMS), "w.json", border.config_of("serve", **taken("serve", case))
    )
    return [
        f"{choice.nbest.id} {choice.text}"
        for choice in rescorer.choose_all(read("test"))
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CASES if name not in RUN_ALONE])
def test_roads_that_take_it_agree(rescore: Run, name: str) -> None:
    case = CASES[name]
    if name == "channel":
        learn_channel(rescore)
    expected = by_run(rescore, case)
    other = without(name, case)
    plain = once(lambda: by_run(rescore, other), "run", repr(other))
    assert (expected == plain) is ENTRIES[name].about.harmless
    assert by_stages(rescore, case) == expected
    assert by_rescorer(case) == expected[1]
    if name != "model":
        assert by_python(case) == expected[0][0]


def learn_channel(run: Run) -> None:
    done(run, "train", "--lm", "channel", "--text", "dev.jsonl", "--out", "channel")


def scored(**case: Any) -> Any:
    return [as_json(nbest) for nbest in rescore.score(read("test"), *LMS, **case)]


def tuned(**case: Any) -> Any:
    lists = (
        read("dev")
        if case.get("decide")
        else rescore.score(read("dev"), *LMS, count_tokens=True)
    )
    return json.loads(rescore.tune(lists, **case).to_json())


def compared(**case: Any) -> Any:
    found = rescore.compare(read("test")[:8], read("dev")[:16], *LMS, **case)
    return [[asdict(row) for row in found.rows], found.first_pass]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "score": scored,
    "tune": tuned,
    "compare": compared,
}


def functions() -> Iterator[tuple[str, str]]:
    for road in FUNCTIONS:
        yield from ((road, name) for name in CASES if takes(road, name))


@pytest.mark.parametrize(("road", "name"), [*functions()])
def test_functions_use_an_option(rescore: Run, road: str, name: str) -> None:
    case = CASES[name]
    if name == "channel":
        learn_channel(rescore)
    used = taken(road, case)
    if takes(road, "bagging"):  # samples take time, and no option is about them
        used.setdefault("bagging", False)
    other = without(name, used)
    same = FUNCTIONS[road](**used) == once(
        lambda: FUNCTIONS[road](**other), road, repr(other)
    )
    # COMET is measured, and not tuned for
    assert same == ((road, name) == ("tune", "model"))


@pytest.mark.parametrize("road", FUNCTIONS)
def test_functions_refuse_what_their_road_does_not_take(road: str) -> None:
    """What a road takes, tests/test_asked.py has."""
    name = next(name for name in CASES if not takes(road, name))
    with pytest.raises(UserError, match=f"^{road} takes no {name}; give it to .*run"):
        FUNCTIONS[road](**{name: CASES[name][name]})


def test_the_rescorer_refuses_what_it_does_not_use() -> None:
    for name, case in CASES.items():
        if not takes("serve", name):
            with pytest.raises(
                UserError, match=f"^serve takes no {name}; give it to .*run"
            ):
                Rescorer(
                    list(LMS), {"s2s": 1.0}, with_option(RunConfig(), name, case[name])
                )


def test_evaluate_takes_options_of_its_road_alone() -> None:
    result = rescore.evaluate(read("test"), split_hyphens=True)
    assert "|split-hyphens:yes|" in result.signature
    with pytest.raises(UserError, match="evaluate takes no boost; give it to"):
        rescore.evaluate(read("test"), boost=1.0)


def test_an_option_of_an_expansion_needs_it() -> None:
    for wrong in ({"channel": "shipped"}, {"lexicon": "lexicon.xz"}):
        with pytest.raises(UserError, match=f"^{min(wrong)} needs respell$"):
            scored(**wrong)


def test_an_option_without_what_it_needs_is_refused_or_measured(rescore: Run) -> None:
    run = ("run", "test.jsonl", "--dev", "dev.jsonl")
    assert "--speaker needs --folds K" in rescore(*run, "--speaker", "^(.)").stderr
    assert "BWER" in rescore(*run, "--words", "words").stdout
    text = rescore("score", "--text", "words", "--lm", LMS[0], "--words", "words")
    assert text.returncode == 2 and "score --text takes no --words" in text.stderr


@pytest.mark.long
@pytest.mark.parametrize("boost", [None, False, True, 0.5])
def test_roads_agree_on_the_boost_of_respelled_lists(
    rescore: Run, boost: float | None
) -> None:
    case = {**CASES["respell"], "metrics": ("bwer",)}
    if boost is not None:
        case["boost"] = boost
    assert by_stages(rescore, case) == by_run(rescore, case)
