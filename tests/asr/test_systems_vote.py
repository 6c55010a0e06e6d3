"""Lists of several systems as one: their columns, their mixture, and votes that are
tuned.
"""

from __future__ import annotations

import json
import logging
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rescore as package
from rescore import formats, pipeline
from rescore.asr.features import MERGED, RESPELLED
from rescore.asr.mixture import Mixture, applied, mixed, named
from rescore.asr.recombine import recombine
from rescore.asr.rover import NO_WORD
from rescore.asr.systems import combined, system_names
from rescore.asr.vote_tuning import Vote, _mixed_in_lists, _VoteTuner
from rescore.columns import FIRST_PASS_ORIGIN, Role
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error


def lists(
    *rows: tuple[str, dict[str, float]], references: tuple[str, ...] = ("right",)
) -> list[NbestList]:
    """One list per pair of id and scores by text."""
    return [
        NbestList(
            name,
            [Hypothesis(text, {"s2s": score}) for text, score in scores.items()],
            references,
        )
        for name, scores in rows
    ]


def texts(name: str, *every: str) -> list[NbestList]:
    """1-best texts of one system."""
    return lists(*((f"u{rank}", {text: 0.0}) for rank, text in enumerate(every)))


def test_a_text_of_several_systems_stands_once_with_the_score_of_each() -> None:
    a, b = lists(("u", {"x": -1.0, "y": -3.0})), lists(("u", {"Y": -2.0, "z": -5.0}))
    (found,) = combined({"a": a, "b": b}, Normaliser())
    assert [one.text for one in found.hypotheses] == ["x", "y", "z"]
    assert [
        {name: one.scores.get(name) for name in "ab"} for one in found.hypotheses
    ] == [
        {"a": -1.0, "b": None},
        {"a": -3.0, "b": -2.0},
        {"a": None, "b": -5.0},
    ]
    assert [one.origin for one in found.hypotheses] == [
        FIRST_PASS_ORIGIN,
        FIRST_PASS_ORIGIN,
        MERGED,
    ]
    assert [found.role(name) for name in "ab"] == [Role.SYSTEM, Role.SYSTEM]
    p, q = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-3))
    expected = [p / 2, (1 - p + q) / 2, (1 - q) / 2]
    assert [math.exp(score) for score in found.column("s2s")] == pytest.approx(expected)


def test_the_mixture_is_the_sum_of_votes_times_posteriors() -> None:
    (found,) = combined(
        {name: texts(name, text) for name, text in zip("abc", "xxy", strict=True)}
    )
    assert [math.exp(score) for score in found.column("s2s")] == pytest.approx(
        [2 / 3, 1 / 3]
    )
    weighed = applied(Mixture({"a": 1.0, "b": 0.0, "c": 3.0}), found)
    assert [math.exp(score) for score in weighed.column("s2s")] == pytest.approx(
        [1 / 4, 3 / 4]
    )
    assert applied(Mixture({"c": 1.0, "d": 0.0}), found).column("s2s") == [
        -math.inf,
        0.0,
    ]
    # nobody with votes has a text
    assert applied(Mixture({"d": 1.0, "a": 0.0}), found).column("s2s")[0] == 0.0
    respelled = NbestList(
        "u",
        [
            *found.hypotheses,
            Hypothesis("z", found.hypotheses[1].scores, RESPELLED),
        ],
    )
    assert [
        math.exp(score)
        for score in applied(Mixture(dict.fromkeys("abc", 1.0)), respelled).column(
            "s2s"
        )
    ] == (pytest.approx([0.5, 0.25, 0.25]))
    for votes in ({"a": -1.0}, {"a": 0.0}, {"a": math.inf}):
        with pytest.raises(UserError, match="give numbers from 0 on"):
            Mixture(votes)


def test_an_utterance_that_a_system_lacks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _, alone = combined({"a": texts("a", "x", "x"), "b": texts("b", "y")})
    assert (
        alone.column("s2s") == [0.0]
        and "b: 1 of 2 utterances are missing" in caplog.text
    )
    with pytest.raises(
        UserError, match="has scores a already; combine lists before they are scored"
    ):
        list(
            combined(
                {
                    "c": texts("c", "x"),
                    "d": list(combined({"a": texts("a", "x"), "b": texts("b", "y")})),
                }
            )
        )


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (
            ("x/gemini-2.5-pro.jsonl", "x/gemini-2.5-flash.jsonl"),
            ("gemini-2.5-pro", "gemini-2.5-flash"),
        ),
        (("a/dev", "b/dev"), ("a", "b")),
        (("a/dev.trn", "b/dev.trn"), ("a", "b")),
        (("whisper.v3.ctm.gz", "kaldi.stm"), ("whisper.v3", "kaldi")),
    ],
)
def test_a_system_is_called_after_its_path(
    paths: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert system_names(paths, ()) == names


def test_names_that_do_not_do() -> None:
    for paths, given, message in (
        (("a",), (), "two systems or more"),
        (("a", "a"), (), "would be called a"),
        (("a", "b"), ("x",), "2 systems, but 1 --name"),
        (("a", "b"), ("x", "x"), "would be called x"),
    ):
        with pytest.raises(UserError, match=message):
            system_names(paths, given)


def write(folder: Path, name: str, some: list[NbestList]) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    formats.write(some, str(folder / name))


def systems(part: str, number: int, *right: float) -> dict[str, list[NbestList]]:
    """Systems that are right in so many of ten utterances, each wrong in its own way,
    but the fourth and the fifth in the same way.
    """
    found = {}
    for rank, share in enumerate(right):
        rows = [
            (
                f"{part}{u}",
                {
                    (
                        "it is right"
                        if (u * 7 + rank * 3) % 10 < 10 * share
                        else f"it wrong{min(rank, 3)} not"
                    ): 0.0
                },
            )
            for u in range(number)
        ]
        found["abcde"[rank]] = lists(*rows, references=("it is right",))
    return found


@pytest.mark.parametrize("decide", ["rover", "mbr", "best"])
def test_votes_are_tuned_and_a_poor_system_gets_few(decide: str) -> None:
    dev, test = (
        list(combined(systems(part, 300, 0.7, 0.5, 0.5, 0.1, 0.1)))
        for part in ("d", "t")
    )
    outcome = pipeline.run(test, RunConfig(decide=decide), dev)
    mixture = outcome.weights.mixture
    assert (
        mixture and mixture.votes["d"] < mixture.votes["c"] <= mixture.votes["a"] == 1.0
    )
    assert (
        outcome.results.reranked is not None and outcome.results.reranked < 100 * 2 / 3
    )
    assert "|w:vote.a=1|" in outcome.results.signature
    if decide != "best":
        assert outcome.decision.scale == 1.0


def test_the_value_of_tuning_is_that_of_the_chosen_texts() -> None:
    """Two of four systems drop a word: no word wins unless it counts for less."""
    dropped = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "d": (3, 0)}
    systems = {
        name: lists(
            *(
                (f"u{n}", {"it right" if n % 4 in drops else "it is right": 0.0})
                for n in range(40)
            ),
            references=("it is right",),
        )
        for name, drops in dropped.items()
    }
    found = list(combined(systems))
    weights = package.tune(found, decision="rover")
    assert weights.decision.settings["no_word"] < 1 and weights.value == 0.0
    assert set(weights.texts(ErrorRate(), Dataset.of(found))) == {"it is right"}


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({"votes": {"a": "x"}}, "mixture.votes[...]: expected a number, found a text"),
        ({"votes": 3}, "mixture.votes: expected an object, found a whole number"),
        ({"scales": {}}, "mixture: object missing required field votes"),
        ([], "mixture: expected an object, found an array"),
        ({"votes": {"a": -1.0}}, "votes are {'a': -1.0}; give numbers from 0 on"),
    ],
)
def test_votes_of_a_file_are_checked(
    mixture: object, message: str, tmp_path: Path
) -> None:
    """In a weights file, and in the weights of a fold; the message names the place."""
    path = tmp_path / "w.json"
    for place, values in (
        ("", {"mixture": mixture}),
        (
            "tuning.of_folds[0].",
            {"tuning": {"of_folds": [{"weights": {}, "mixture": mixture}]}},
        ),
    ):
        path.write_text(json.dumps({"weights": {"s2s": 1.0}, **values}))
        with pytest.raises(UserError) as error:
            Weights.load(path)
        where = place if message.startswith("mixture") else ""
        assert str(error.value).startswith(f"{path}: {where}{message}")


def test_the_best_system_decides_where_votes_gain_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = list(combined(systems("d", 40, 0.9, 0.0, 0.0)))
        weights = package.tune(found, decision="rover")
    assert weights.mixture and weights.mixture.votes == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert (
        named(weights.mixture) == "a alone"
        and "a alone" in caplog.text
        and "a decides" in caplog.text
    )
    chosen = weights.texts(None, Dataset.of(found))
    assert chosen == [nbest.hypotheses[0].text for nbest in found]


def test_systems_with_scores_have_a_scale() -> None:
    rows = [(f"u{n}", {"right": -10.0 - n % 2 * 30, "wrong": -20.0}) for n in range(40)]
    other = [(f"u{n}", {"right": -1.0, "odd": -1.5}) for n in range(40)]
    weights = package.tune(
        list(combined({"a": lists(*rows), "b": lists(*other)})), decision="mbr"
    )
    assert weights.mixture and weights.mixture.scales.keys() == {"a", "b"}
    assert weights.mixture.scales["a"] < weights.mixture.scales["b"]


def test_commands_agree(rescore: Run, tmp_path: Path) -> None:
    """`combine` and `run`, the stages, and a table of all systems: the same figures."""
    for part in ("dev", "test"):
        every = systems(part, 60, 0.8, 0.7, 0.7)
        for name, some in every.items():
            write(tmp_path, f"{name}/{part}.jsonl", some)
        rows = zip(*every.values(), strict=True)
        table = [
            {"id": row[0].id, "ref": "it is right"}
            | {
                f"system {n}": nbest.hypotheses[0].text
                for n, nbest in zip("abc", row, strict=True)
            }
            for row in rows
        ]
        (tmp_path / f"{part}.table").write_text(
            "\n".join(map(json.dumps, table)) + "\n", encoding="utf-8"
        )
        paths = [f"{name}/{part}.jsonl" for name in "abc"]
        assert rescore("combine", *paths, "-o", f"{part}.jsonl").returncode == 0
        fields = [part for n in "abc" for part in ("--field", f"system=system {n}")]
        done = rescore(
            "combine",
            f"{part}.table",
            *fields,
            "--field",
            "ref=ref",
            "-o",
            f"{part}.of-table.jsonl",
        )
        assert done.returncode == 0, done.stderr
    one = rescore(
        "test.jsonl",
        "--dev",
        "dev.jsonl",
        "--decide",
        "rover",
        "--save-weights",
        "w.json",
        "--best",
        "1",
    )
    assert one.returncode == 0, one.stderr
    table = rescore(
        "test.of-table.jsonl",
        "--dev",
        "dev.of-table.jsonl",
        "--decide",
        "rover",
        "--best",
        "3",
    )
    assert table.returncode == 0, table.stderr
    assert (tmp_path / "test.jsonl").read_bytes() == (
        tmp_path / "test.of-table.jsonl"
    ).read_bytes().replace(b"system ", b"")
    assert (
        rescore("tune", "dev.jsonl", "--decide", "rover", "-o", "w2.json").returncode
        == 0
    )
    loaded = [Weights.load(tmp_path / name).mixture for name in ("w.json", "w2.json")]
    assert loaded[0] == loaded[1] is not None
    assert (
        rescore(
            "rerank", "test.jsonl", "--weights", "w2.json", "--best", "4"
        ).returncode
        == 0
    )
    assert len({(tmp_path / str(number)).read_text() for number in (1, 3, 4)}) == 1
    assert_one_line_error(
        rescore("rerank", "a/test.jsonl", "--weights", "w.json"),
        "test0: the weights are votes of",
    )
    served = rescore("serve", "--lm", "tta", "--weights", "w.json")
    assert served.returncode == 2
    assert "the weights are votes of a, b, c" in served.stderr.splitlines()[-1]
    told = rescore(
        "tune", "dev.jsonl", "--decide", "rover", "-o", "w2.json"
    ).stderr.splitlines()
    assert sum("tune on 200 lists or more" in line for line in told) == 1
    assert told[0].endswith("the systems, on the 60 lists that votes are tuned on:")
    assert (
        told[1].split() == ["WER", "without", "it", "votes"]
        and told[2].split()[0] == "a"
    )
    assert [line.rpartition(" votes ")[0] for line in told[5:7]] == ["equal", "tuned"]
    assert sum("without it" in line for line in one.stderr.splitlines()) == 1
    equal = rescore("rerank", "test.jsonl", "--decide", "rover")
    assert equal.returncode == 0 and len(equal.stdout.splitlines()) == 60


def test_texts_of_any_kind_are_systems(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("u1 we saw\nu2 a dog\n", encoding="utf-8")
    (tmp_path / "b.trn").write_text("a dog (u2)\nwe see (u1)\n", encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(
        '{"id": "u1", "text": "we saw"}\n{"id": "u2", "text": "a dig"}\n',
        encoding="utf-8",
    )
    done = rescore("combine", "a.txt", "b.trn", "c.jsonl", "-o", "l.jsonl")
    assert done.returncode == 0, done.stderr
    assert rescore("rerank", "l.jsonl").stdout == "u1 we saw\nu2 a dog\n"
    (tmp_path / "p.txt").write_text(
        "hello there, this is the first\nand this is the end of it\n", encoding="utf-8"
    )
    (tmp_path / "q.txt").write_text(
        "hello there this is first and this is the end of it\n", encoding="utf-8"
    )
    # one recording, in different segments
    done = rescore("combine", "p.txt", "q.txt", "-o", "whole.jsonl")
    assert done.returncode == 0 and "is taken for the recording p" in done.stderr, (
        done.stderr
    )
    whole = formats.read([tmp_path / "whole.jsonl"])
    assert {nbest.recording for nbest in whole} == {"p"} and set(
        whole[0].header.records
    ) == {"p", "q"}
    assert_one_line_error(rescore("combine", "a.txt"), "two systems or more")


def test_lists_of_systems_are_not_recombined() -> None:
    with pytest.raises(
        UserError, match="has scores a already; recombine lists before they are scored"
    ):
        recombine(next(combined({"a": texts("a", "x"), "b": texts("b", "y")})))


def test_language_models_have_a_weight_beside_the_votes() -> None:
    """Two systems that disagree, each right half of the time; the model knows."""
    a = texts("a", *("right" if n % 2 else "wrong" for n in range(60)))
    b = texts("b", *("wrong" if n % 2 else "right" for n in range(60)))
    found = list(combined({"a": a, "b": b}))
    for nbest in found:
        for one in nbest.hypotheses:
            one.scores["lm"] = -1.0 if one.text == "right" else -9.0
    weights = package.tune(found, decision="best")
    assert (
        weights.mixture
        and min(weights.mixture.votes.values()) > 0
        and weights.weights["lm"] > 0
    )
    assert set(weights.texts(None, Dataset.of(found))) == {"right"}


@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_a_language_model_gains_on_the_best_system_what_it_gains_without_votes(
    decide: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A poor system corrects some texts, but the model corrects all: the other system
    is rescored as if alone.
    """
    scores = [
        {"right": -1.0, "wrong": -4.0 + 3.1 * (n % 3 == 0), "odd": -2.5}
        for n in range(60)
    ]
    good, lm = (
        lists(*((f"u{n}", each) for n, each in enumerate(scores))),
        {"right": -1.0, "wrong": -4.0, "odd": -3.0},
    )
    poor = texts("poor", *("odd" if n % 6 else "right" for n in range(60)))
    voted = list(combined({"good": good, "poor": poor}))
    for nbest in (*good, *voted):
        for one in nbest.hypotheses:
            one.scores["lm"] = lm.get(one.text, -20.0)
    alone, weights = (
        package.tune(some, ["lm"], decision=decide) for some in (good, voted)
    )
    assert (
        weights.mixture
        and weights.mixture.votes == {"good": 1.0, "poor": 0.0}
        and "good decides" in caplog.text
    )
    assert (
        alone.tuning.first_pass
        and weights.tuning.first_pass
        and weights.weights["lm"] > 0
    )
    assert (
        weights.value
        == alone.value
        < alone.tuning.first_pass
        < weights.tuning.first_pass
    )
    chosen = (
        one.texts(ErrorRate(), Dataset.of(some))
        for one, some in ((alone, good), (weights, voted))
    )
    assert next(chosen) == next(chosen)


def test_rows_of_brain_to_text_are_systems(rescore: Run, tmp_path: Path) -> None:
    """Three seeds with two hypotheses per trial, each wrong in every third trial at
    another word.
    """

    def row(seed: int, trial: int) -> str:
        words = ["some", "bread", "now"]
        wrong = [
            "wrong" if trial % 3 == place == seed else word
            for place, word in enumerate(words)
        ]
        best, other = " ".join(wrong), " ".join([*words[:2], "y"])
        return (
            f"{best};-10.5;-7.25;-20;-{trial + 1}.0;{other};-11;-8;-21;-{trial + 2}.5"
        )

    for part, trials in (("dev", range(60)), ("test", range(60, 90))):
        for seed in range(3):
            rows = "\n".join(row(seed, trial) for trial in trials)
            (tmp_path / f"seed{seed}").mkdir(exist_ok=True)
            (tmp_path / f"seed{seed}" / f"{part}.rows").write_text(
                f"{rows}\n", encoding="utf-8"
            )
        sentences = "\n".join("some bread now" for _ in trials)
        (tmp_path / f"{part}.sentences").write_text(f"{sentences}\n", encoding="utf-8")
        seeds = [f"seed{seed}/{part}.rows" for seed in range(3)]
        done = rescore(
            "combine", *seeds, "--ref", f"{part}.sentences", "-o", f"{part}.jsonl"
        )
        assert done.returncode == 0, done.stderr
    found = formats.read([tmp_path / "test.jsonl"])
    assert (
        list(found[0].header.records) == ["seed0", "seed1", "seed2"]
        and len(found) == 30
    )
    for decide in ("mbr", "rover"):
        done = rescore(
            "test.jsonl", "--dev", "dev.jsonl", "--decide", decide, "--report", "r.json"
        )
        report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert done.returncode == 0 and report["metrics"][0]["reranked"] == 0.0, (
            done.stderr
        )
    short = (
        (tmp_path / "seed1" / "dev.rows").read_text(encoding="utf-8").split("\n", 1)[1]
    )
    (tmp_path / "short.rows").write_text(short, encoding="utf-8")
    assert_one_line_error(
        rescore("combine", "seed0/dev.rows", "short.rows"),
        "60 utterances such as 1, 2, and 59 such as 1, 2",
    )


def test_the_mixture_of_many_lists_is_that_of_each() -> None:
    """Lists of different lengths; in one of them only a system without votes has
    texts.
    """
    random = np.random.default_rng(0)
    sizes = [3, 1, 5, 2]
    shares = [random.dirichlet(np.ones(size), 3).T for size in sizes]
    shares[3] *= [0.0, 1.0, 0.0]
    votes, starts = np.array([1.0, 0.0, 0.7]), np.cumsum([0, *sizes[:-1]])
    together = _mixed_in_lists(np.concatenate(shares), votes, starts, sizes)
    np.testing.assert_allclose(
        together, np.concatenate([mixed(one, votes) for one in shares]), rtol=1e-12
    )


def test_the_best_system_stands_beside_the_votes(rescore: Run, tmp_path: Path) -> None:
    """Equal votes of three systems, of which the last is right; the p-value is against
    this system.
    """
    every = {
        name: texts(name, *[text] * 12)
        for name, text in zip("abc", ("wrong", "wrong", "right"), strict=True)
    }
    formats.write(combined(every), str(tmp_path / "l.jsonl"))
    done = rescore(
        "run", "l.jsonl", "--decide", "rover", "--report", "r.json", "--html", "r.html"
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[1].startswith("a  ")
        and "\nweights: the mixture alone\n" in done.stdout
    )
    reports = [
        rescore("report", "r.json", "--layout", layout).stdout
        for layout in ("espnet", "paper")
    ]
    compared = rescore(
        "compare", "l.jsonl", "--dev", "l.jsonl", "--lm", "tta-small"
    ).stdout
    tables = (
        done.stdout,
        *reports,
        (tmp_path / "r.html").read_text("utf-8"),
        compared.partition("weight is 0")[0],
    )
    assert all("mixture" in table and "first pass" not in table for table in tables)
    assert "\nc  " in done.stdout and "toolkit's own" not in done.stdout
    assert "\nWER +100.00, p = 0.000" in done.stdout
    assert "against c alone\nWER unchanged against equal votes\n" in done.stdout
    measured = json.loads((tmp_path / "r.json").read_text())["metrics"][0]
    assert (
        measured["best_system"]["name"] == "c"
        and measured["best_system"]["value"] == 0.0
    )
    assert measured["own_oracle"] is None
    assert "oracle by depth" not in rescore("analyse", "l.jsonl").stdout
    formats.write(
        combined({name.upper(): lists for name, lists in every.items()}),
        str(tmp_path / "other.jsonl"),
    )
    done = rescore("compare", "l.jsonl", "--dev", "other.jsonl", "--lm", "tta-small")
    assert done.returncode == 2, done.stdout
    assert (
        "has lists of the systems A, B, C, but the systems of these lists are a, b, c"
        in done.stderr
    )


@pytest.mark.parametrize("more", [[], ["--split-characters"]])
def test_a_system_keeps_its_blanks_where_the_metric_counts_them(
    more: list[str], rescore: Run, tmp_path: Path
) -> None:
    """Its figure is the figure of its own texts, in every command."""
    heard = {"a": "the owl hoots", "b": "theowl hoots", "c": "an owl ho ots"}
    for name, text in {**heard, "ref": "the owl hoots"}.items():
        (tmp_path / name).write_text(f"u1 {text}\nu2 an owl\n")
    typed = ["--ref", "ref", "--metric", "cer", *more]
    done = rescore("combine", *heard, *typed, "-o", "l.jsonl")
    assert done.returncode == 0, done.stderr
    figures = [row.split()[:2] for row in done.stdout.splitlines()[1:4]]
    measured = rescore("eval", *heard, *typed)
    assert [row.split()[:2] for row in measured.stdout.splitlines()[1:4]] == figures
    run = rescore("l.jsonl", "--decide", "rover", "--metric", "cer", *more)
    assert [row.split()[:2] for row in run.stdout.splitlines()[1:4]] == figures


@pytest.mark.parametrize("number", [1, 2])
def test_own_columns_are_not_kept_and_that_is_told(
    number: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hypotheses = ["a b", "a c"][:number]
    entries = [{"text": text, "score": -1, "conf": 0.5} for text in hypotheses]
    line = json.dumps({"id": "u", "hyps": entries})
    systems = {}
    for name in ("x", "y"):
        (tmp_path / f"{name}.jsonl").write_text(line + "\n")
        systems[name] = formats.read([tmp_path / f"{name}.jsonl"])
    (nbest,) = combined(systems)
    assert len(nbest.hypotheses) == number and nbest.header.systems == ["x", "y"]
    assert "x: not kept: conf" in caplog.text


@pytest.mark.parametrize("votes", ["agreement", "equal"])
@pytest.mark.parametrize("known", [12, 5])
def test_votes_by_agreement_of_a_part_of_the_lists_are_told(
    votes: str, known: int, rescore: Run, tmp_path: Path
) -> None:
    """Lists without references are left out before votes are estimated."""
    every = combined(systems("test", 12, 0.8, 0.7, 0.7), Normaliser())
    lists = [replace(nbest, references=()) for nbest in every]
    write(tmp_path, "all.jsonl", lists)
    expected = "".join(f"it is right ({nbest.id})\n" for nbest in lists[:known])
    (tmp_path / "ref.trn").write_text(expected)
    line = ("all.jsonl", "--ref", "ref.trn", "--allow-missing", "--decide", "rover")
    done = rescore(*line, "--votes", votes, "--best", "best.trn")
    assert done.returncode == 0, done.stderr
    is_told = f"on the {known} lists with references, not on all 12" in done.stderr
    assert is_told == (votes == "agreement" and known < 12)
    assert len((tmp_path / "best.trn").read_text().splitlines()) == known


def test_a_system_is_left_out_where_this_is_significantly_better() -> None:
    """Two of three wrong systems agree; a vote of all follows them."""
    every = systems("dev", 60, 0.9, 0.9, 0.8, 0.1, 0.1)
    equal = Mixture(dict.fromkeys("abcde", 1.0))
    decision = Decision("rover", 1.0, {"no_word": 0.9})
    for names, expected in (
        ("abc", "no system harms the vote significantly"),
        ("ade", "the vote is significantly better without d or e: leave it out"),
    ):
        of_names = {name: every[name] for name in names}
        lists = Dataset(combined(of_names, Normaliser()))
        votes = replace(equal, votes=dict.fromkeys(names, 1.0))
        table = _VoteTuner(ErrorRate(), lists, decision).table(Vote(votes, decision))
        assert table.splitlines()[-1] == expected


@pytest.mark.parametrize("no_word", NO_WORD)
def test_rows_of_the_dev_table_differ_in_votes_alone(no_word: float) -> None:
    """Equal votes have the tuned factor of no word, too: it decides each list, in which
    two of four systems have a word more.
    """
    every = {}
    outputs = {"a": "an old owl", "b": "an old owl", "c": "an owl", "d": "an owl"}
    for name, text in outputs.items():
        every[name] = lists(("u", {text: 0.0}), references=("an old owl",))
    both = Dataset(combined(every, Normaliser()))
    tuner = _VoteTuner(ErrorRate(), both, Decision("rover", 1.0))
    equal = Mixture(dict.fromkeys(every, 1.0))
    table = tuner.table(Vote(equal, Decision("rover", 1.0, {"no_word": no_word})))
    is_usual = no_word == NO_WORD[0]
    name = "equal votes" if is_usual else f"equal votes (no word {no_word:g})"
    rows = dict(re.findall(r"^(\S+ votes.*?)  +(\S+)", table, re.MULTILINE))
    assert rows[name] == rows["tuned votes"]
    assert rows["tuned votes"] == ("0.00" if no_word < 1 else "33.33")


def test_the_first_of_two_systems_decides(rescore: Run) -> None:
    """Also where the scores of the other system are higher."""
    for name, word, score in (("a", "odd", -3.0), ("b", "old", -0.1)):
        rows = [(f"u{number}", {f"an {word} owl": score}) for number in range(3)]
        write(Path(), f"{name}.jsonl", lists(*rows, references=()))
    for order, word in (("ab", "odd"), ("ba", "old")):
        paths = [f"{name}.jsonl" for name in order]
        done = rescore("combine", *paths, "-o", "both.jsonl")
        assert "where they differ, the first system decides" in done.stdout
        voted = rescore("rerank", "both.jsonl", "--decide", "rover")
        assert voted.stdout.count(f"an {word} owl") == 3


def test_combine_says_what_estimates_do_not_see(rescore: Run) -> None:
    every = systems("test", 30, 0.8, 0.7, 0.7)
    for names, is_told in (("abc", True), ("ab", False)):
        for name in names:
            write(Path(), f"{name}.jsonl", every[name])
        paths = [f"{name}.jsonl" for name in names]
        done = rescore("combine", *paths, "-o", "all.jsonl")
        assert ("errors that systems share are not seen" in done.stdout) == is_told
