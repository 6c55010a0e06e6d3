"""One table for each kind of part: what is registered at run time is in the help, in
errors, and does its work.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rescore import evaluate, formats, parts
from rescore.asr.features import RECOMBINED
from rescore.columns import FIRST_PASS, Column, Role
from rescore.dataset import Dataset
from rescore.decision import Decision, DecisionRule
from rescore.decision.risk import LeastExpectedLoss
from rescore.errors import UserError
from rescore.expansion import Expansion
from rescore.files import sha256
from rescore.formats import ReadOptions
from rescore.formats.source import Source
from rescore.lms import ComputeOptions, Kind, Question, TokenScores
from rescore.lms.base import Spec
from rescore.metrics import Metric, MetricOptions, Normaliser
from rescore.metrics.listed import WordList
from rescore.metrics.significance import PairedTest, ScoredText
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.options import Declared, Field, Option, as_json, option, read_file
from rescore.parts import Registry
from rescore.signature import parse
from rescore.tuning import Weights
from rescore.tuning.record import Tuning
from rescore.version import VERSION
from tests.conftest import Run, assert_one_line_error, write_json

# its room hands out the function of that name
tuning = importlib.import_module("rescore.tuning.tune")


@pytest.fixture
def register() -> Iterator[object]:
    """Registers parts for one test."""
    added: list[tuple[Registry[object], str]] = []

    def add(table: Registry[object], name: str, part: object, about: str = "") -> None:
        table.register(name, part, about)
        added.append((table, name))

    yield add
    for table, name in added:
        table.remove(name)


class Echoing(Expansion):
    """An expansion: each text twice over, with a count of its own."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        echo: bool = option(False, "Add each text, said twice.")

    adds = ("echoes",)

    @property
    def records(self) -> dict[str, Column]:
        return {"echoes": Column("echo", "", "", "", Role.COUNT)}

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        for nbest in lists:
            old = [
                replace(one, scores={"echoes": 0.0} | one.scores)
                for one in nbest.hypotheses
            ]
            new = [
                Hypothesis(
                    f"{one.text} {one.text}",
                    one.scores | {"echoes": 1.0},
                    RECOMBINED,
                )
                for one in old
            ]
            yield replace(
                nbest,
                hypotheses=[*old, *new],
                header=Header(records={**nbest.header.records, **self.records}),
            )


def test_an_expansion_of_ones_own(rescore: Run, register: Any, tmp_path: Path) -> None:
    """One class and one line: its options, its column with a tuned weight, and its
    hypotheses in every command.
    """
    register(parts.EXPANSIONS, "echo", Echoing)
    lists = [
        NbestList(
            f"u{n}",
            [Hypothesis("bye", {"s2s": -1.0}), Hypothesis("go", {"s2s": -2.0})],
            ("bye bye",),
        )
        for n in range(30)
    ]
    formats.write(lists, str(tmp_path / "l.jsonl"))
    assert "--echo" in rescore("run", "--help-all").stdout
    assert_one_line_error(
        rescore("l.jsonl", "--echo"), "--echo needs --dev lists (or --folds)"
    )
    done = rescore("l.jsonl", "--folds", "3", "--echo", "--best", "best.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "best.txt").read_text(encoding="utf-8").splitlines()[
        0
    ] == "bye bye"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    hypotheses = {
        "hyp_1": {"score": -1, "text": "a longer one"},
        "hyp_2": {"score": -2, "text": "short"},
    }
    return write_json(
        tmp_path / "l.json",
        {f"u{index}": {"ref": "short", **hypotheses} for index in range(4)},
    )


class Semicolons:
    """A format: `id;score;text` a line."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        base: float = option(
            math.e, "semicolons: base of the logarithms.", "--log-base", low=1.1
        )

    def sniff(self, source: Source) -> bool:
        return source.head.startswith("u0;")

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        factor = math.log(options.of(Semicolons.Options).base)
        for line in source.lines():
            name, score, text = line.split(";")
            yield NbestList(
                name, [Hypothesis(text, {FIRST_PASS: factor * float(score)})]
            )


def test_a_format(rescore: Run, register: object, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("u0;-1;hello\n", encoding="utf-8")
    register(parts.FORMATS, "semicolons", Semicolons(), "lines with semicolons")
    assert json.loads(rescore("convert", "x").stdout)["hyps"][0]["text"] == "hello"
    done = rescore("convert", "x", "--format", "semicolons", "--log-base", "100")
    assert json.loads(done.stdout)["hyps"][0]["score"] == pytest.approx(-math.log(100))
    assert_one_line_error(rescore("convert", "x", "--log-base", "1"), "--log-base")
    (list_of_x,) = formats.read(["x"], options=ReadOptions(base=10))
    assert list_of_x.hypotheses[0].scores[FIRST_PASS] == pytest.approx(-math.log(10))
    assert "--log-base NUMBER semicolons: base of the logarithms." in " ".join(
        rescore("run", "--help-all").stdout.split()
    )
    assert ",semicolons." in rescore("run", "--help-all").stdout.replace(
        "\n", ""
    ).replace(" ", "")
    (tmp_path / "y").write_text("?", encoding="utf-8")
    assert_one_line_error(rescore("convert", "y"), "json, semicolons")


class Ranked:
    """A format of lines `utterance/rank text`, which may be texts, too."""

    def sniff(self, source: Source) -> bool:
        return False

    def may_be_lists(self, source: Source) -> bool:
        return "/1 " in source.head

    def are_lists_of(self, source: Source, ids: Collection[str]) -> bool | None:
        return source.head.partition("/")[0] in ids or None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        hypotheses = []
        for line in source.lines():
            name, _, text = line.partition("/")
            hypotheses.append(Hypothesis(text.split()[1], {}))
        yield NbestList(name, hypotheses)


def test_a_format_of_lines_that_references_tell(
    rescore: Run, register: object, tmp_path: Path
) -> None:
    """Kaldi's texts pass the same door."""
    register(parts.FORMATS, "ranked", Ranked(), "lines with ranks")
    (tmp_path / "x").write_text("u/1 yes\nu/2 no\n")
    (tmp_path / "ref").write_text("u no\nv no\n")
    done = rescore("convert", "x", "--ref", "ref", "--allow-missing")
    assert len(json.loads(done.stdout)["hyps"]) == 2, done.stderr
    assert_one_line_error(rescore("convert", "x"), "N-best lists: --format ranked")


class Shortest:
    """A language model that likes short texts."""

    name = model = "shortest"
    precision = "float32"
    fingerprint = "0" * 64

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        return [
            TokenScores(one.text.split(), -np.ones(len(one.text.split())))
            for one in questions
        ]


class ShortestKind(Kind):
    def load(self, spec: Spec, computing: ComputeOptions) -> Shortest:
        return Shortest()


def test_a_kind_of_language_model(
    rescore: Run, register: object, lists: Path, tmp_path: Path
) -> None:
    register(parts.KINDS, "shortest", ShortestKind, "few words")
    done = rescore(lists, "--lm", f"shortest:{tmp_path}", "--weight", "0.9")
    assert (
        "reranked      0.00" in done.stdout
        and "lm:shortest=shortest@000000000000,sum,float32" in done.stdout
    )
    assert "shortest: few words" in " ".join(
        rescore("run", "--help-all").stdout.split()
    )
    assert_one_line_error(rescore(lists, "--lm", "elmo"), "server, shortest")


class Sentences(ErrorRate):
    """Share of sentences with more errors than are tolerated."""

    name = "SER"

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        tolerated: int = option(
            0,
            "SER: number of errors that a right sentence may have.",
            metavar="N",
            low=0,
        )

    @property
    def versions(self) -> dict[str, str]:
        return {"counter": "1.2", "comet": "3"}

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> np.ndarray:
        counts = super().statistics(hypotheses, references)
        wrong = (counts[:, :3].sum(axis=1) > self.options.tolerated).astype(np.int64)
        return np.stack([wrong, 0 * wrong, 0 * wrong, 0 * wrong + 1], axis=1)


def test_a_metric(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    register(parts.METRICS, "ser", Sentences, "sentence error rate")
    found = rescore("eval", lists, "--metric", "ser").stdout
    (line,) = (line for line in found.splitlines() if line.startswith("SER|"))
    assert parse(line).versions == {"rescore": VERSION, "counter": "1.2", "comet": "3"}
    assert str(parse(line)) == line
    assert "100.00" in rescore("eval", lists, "--metric", "SER").stdout
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t<unk>\n\n\\end\\\n"
    )
    assert_one_line_error(
        rescore("eval", lists, "--metric", "serr"), "did you mean ser?"
    )


def test_an_option_of_a_metric(rescore: Run, register: object, tmp_path: Path) -> None:
    """One class outside the package: measured, tuned for, in the help, in signatures
    and in weights files.
    """
    register(parts.METRICS, "ser", Sentences, "sentence error rate")
    help_text = " ".join(rescore("run", "--help-all").stdout.split())
    assert (
        "ter, ser." in help_text
        and "--tolerated N SER: number of errors that a right sentence may have."
        in help_text
    )
    hyps = [
        {"text": "a b c d", "score": -1, "scores": {"lm": -3}},
        {"text": "a b x y", "score": -2, "scores": {"lm": -1}},
        {"text": "a b c y", "score": -3, "scores": {"lm": -1}},
    ]
    lines = [
        json.dumps({"id": f"u{n}", "ref": "a b c z", "hyps": hyps}) for n in range(4)
    ]
    lines += [
        json.dumps({"id": f"v{n}", "ref": "a b x z", "hyps": hyps}) for n in range(4)
    ]
    (tmp_path / "l.jsonl").write_text("\n".join(lines), encoding="utf-8")
    strict = rescore("eval", "l.jsonl", "--metric", "ser").stdout
    loose = rescore("eval", "l.jsonl", "--metric", "ser", "--tolerated", "1").stdout
    assert "|tolerated:0|" in strict and "|tolerated:1|" in loose
    assert " 100.00" in strict and " 50.00" in loose
    tuned = rescore(
        "tune",
        "l.jsonl",
        "--metric",
        "ser",
        "--tolerated",
        "2",
        "--split-hyphens",
        "--no-bagging",
        "-o",
        "w.json",
    )
    assert tuned.returncode == 0, tuned.stderr
    about = json.loads((tmp_path / "w.json").read_text())["tuning"]
    assert (about["metric"], about["settings"]) == (
        "ser",
        {"split_hyphens": True, "tolerated": 2},
    )
    assert (
        rescore(
            "rerank", "l.jsonl", "--weights", "w.json", "--report", "r.json"
        ).returncode
        == 0
    )
    results = json.loads((tmp_path / "r.json").read_text())
    assert (
        "|tolerated:2|" in results["signature"]
        and results["metrics"][0]["metric"] == "SER"
    )
    again = rescore(
        "rerank",
        "l.jsonl",
        "--weights",
        "w.json",
        "--metric",
        "ser",
        "--tolerated",
        "1",
        "--report",
        "s.json",
    )
    assert (
        again.returncode == 0
        and "|tolerated:1|"
        in json.loads((tmp_path / "s.json").read_text())["signature"]
    )
    wrong = json.loads((tmp_path / "w.json").read_text())
    wrong["tuning"]["settings"]["tolerance"] = 1
    write_json(tmp_path / "wrong.json", wrong)
    assert_one_line_error(
        rescore("rerank", "l.jsonl", "--weights", "wrong.json", "--report", "x.json"),
        "tolerance",
    )


def test_options_of_a_metric_in_weights(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("anna\n", encoding="utf-8")
    options = MetricOptions(
        normaliser=Normaliser(nfkc=True), words=WordList.load(tmp_path / "names")
    )
    settings = as_json(options.of(parts.METRICS["bwer"].Options))
    about = Tuning(metric="bwer", settings=settings)
    Weights({"s2s": 1}, tuning=about).save(tmp_path / "w.json")
    loaded = Weights.load(tmp_path / "w.json").tuning
    assert loaded == about
    assert loaded.metric_options == options
    (tmp_path / "names").write_text("bert\n", encoding="utf-8")
    with pytest.raises(UserError, match="changed after tuning"):
        _ = loaded.metric_options


class Last(DecisionRule):
    """A decision rule: the last hypothesis."""

    def choose(self, nbest: NbestList, preference: np.ndarray) -> str:
        return nbest.hypotheses[-1].text


def test_a_decision(
    rescore: Run, register: object, lists: Path, tmp_path: Path
) -> None:
    register(parts.DECISIONS, "last", Last, "the last")
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    done = rescore(
        "rerank",
        lists,
        "--weights",
        "w.json",
        "--decide",
        "last",
        "--report",
        "r.json",
        "--best",
        "-",
    )
    assert done.stdout.splitlines() == [f"u{index} short" for index in range(4)], (
        done.stderr
    )
    assert "|decide:last|" in json.loads((tmp_path / "r.json").read_text())["signature"]
    write_json(
        tmp_path / "last.json", {"weights": {"s2s": 1}, "decision": {"name": "last"}}
    )
    assert (
        rescore("rerank", lists, "--weights", "last.json", "--best", "-").stdout
        == done.stdout
    )


class LeastLoss(LeastExpectedLoss):
    """A decision rule with a loss of its own: by how many letters two texts differ in
    length.
    """

    def losses(self, metric: Metric, lists: Sequence[NbestList]) -> list[np.ndarray]:
        sizes = [
            np.array([float(len(one.text)) for one in nbest.hypotheses])
            for nbest in lists
        ]
        return [np.abs(some[:, None] - some) for some in sizes]


def test_a_decision_by_expected_loss(
    register: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights and scale are tuned together, under its own losses."""
    register(parts.DECISIONS, "middle", LeastLoss, "of about the expected length")
    computed: list[int] = []
    losses = LeastLoss.losses

    def counted(
        self: LeastLoss, metric: Metric, lists: Sequence[NbestList]
    ) -> list[np.ndarray]:
        computed.append(len(lists))
        return losses(self, metric, lists)

    monkeypatch.setattr(LeastLoss, "losses", counted)
    hypotheses = [
        Hypothesis("a b", {"s2s": -1.0, "lm": -2.0}),
        Hypothesis("a", {"s2s": -2.0, "lm": -1.0}),
    ]
    options = tuning.TuningOptions(decision=Decision("middle"))
    weights = tuning.tune_weights(
        ErrorRate(),
        Dataset.of([NbestList("u", hypotheses, ("a",))]),
        ["lm"],
        options=options,
    )
    assert (
        computed[0] == 1
        and weights.decision.name == "middle"
        and weights.decision.scale
    )


def test_rules_are_in_the_help(rescore: Run, register: object) -> None:
    register(parts.DECISIONS, "last", Last, "the last of the list")
    assert "last: the last of the list." in " ".join(
        rescore("run", "--help-all").stdout.split()
    )


class Never:
    """A significance test that says no."""

    signature = "strict"
    by_units = False

    def p_value(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        first: Sequence[ScoredText],
        second: Sequence[ScoredText],
    ) -> float:
        return 1.0


def test_a_significance_test(rescore: Run, register: object, lists: Path) -> None:
    register(parts.TESTS, "never", Never, "no")
    done = rescore("eval", lists, lists, "--test", "never")
    assert "1.0000" in done.stdout and "|p:never,strict|" in done.stdout
    assert_one_line_error(
        rescore("eval", lists, lists, "--test", "never", "--by-speaker"),
        "--test never is by segment",
    )


def test_a_style(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    register(
        parts.STYLES,
        "bars",
        lambda rows: "\n".join("!".join(row) for row in rows),
        ".bars",
    )
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    assert (
        rescore("rerank", lists, "--weights", "w.json", "--report", "r.json").returncode
        == 0
    )
    assert rescore("report", "r.json", "-o", "t.bars").returncode == 0
    assert (tmp_path / "t.bars").read_text().startswith("dataset!Snt!")
    assert rescore("report", "r.json", "--style", "bars").stdout.startswith(
        "dataset!Snt!"
    )


def test_unknown_names_raise() -> None:
    with pytest.raises(
        UserError, match=r"'rovr' is not one of best, mbr, rover; did you mean rover\?"
    ):
        Decision("rovr", 1.0)
    with pytest.raises(UserError, match="test 'typo' is not one of randomisation"):
        PairedTest("typo")
    assert Decision("MBR", 1.0).name == "mbr"
    with pytest.raises(UserError, match="must be 0 or a number above 0"):
        Decision("mbr", -1.0)


def names_in(path: str) -> frozenset[str]:
    """What an option of a plugin reads: it knows neither its file nor a digest."""
    return frozenset(Path(path).read_text(encoding="utf-8").split())


class Names(ErrorRate):
    """Word error rate without some words. Its options are declared, nothing else."""

    name = "NER"

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        ignored: frozenset[str] | None = read_file(
            None, "NER: file of words that do not count.", read=names_in
        )
        floor: float = option(0.0, "NER: least rate.", "--least-rate")

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> np.ndarray:
        ignored = self.options.ignored or frozenset()
        shown, said = (
            [" ".join(w for w in text.split() if w not in ignored) for text in texts]
            for texts in (hypotheses, [one[0] for one in references])
        )
        return super().statistics(shown, [(text,) for text in said])


def test_a_file_is_an_option_of_a_metric(
    rescore: Run, register: object, tmp_path: Path
) -> None:
    """It is tuned for, stands in signatures by its digest, and in weights with its
    path: the file may not change after tuning.
    """
    register(parts.METRICS, "ner", Names, "names")
    hyps = [
        {"text": "a b", "score": -1, "scores": {"lm": -3}},
        {"text": "a c", "score": -2, "scores": {"lm": -1}},
    ]
    lines = [json.dumps({"id": f"u{n}", "ref": "a c", "hyps": hyps}) for n in range(4)]
    (tmp_path / "l.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "names").write_text("b\n", encoding="utf-8")
    ner = ("--metric", "ner", "--ignored", "names")
    plain = rescore("eval", "l.jsonl", "--metric", "ner").stdout
    named = rescore("eval", "l.jsonl", *ner, "--least-rate", "0.5").stdout
    digest = sha256(tmp_path / "names").hex()[:12]
    assert "|floor:0|" in plain and "ignored" not in plain
    assert f"|ignored:{digest}|floor:0.5|" in named
    assert rescore("tune", "l.jsonl", *ner, "-o", "w.json").returncode == 0
    about = json.loads((tmp_path / "w.json").read_text())["tuning"]
    assert about["settings"] == {"ignored": {"path": "names", "digest": digest}}
    apply = ("rerank", "l.jsonl", "--weights", "w.json", "--report", "r.json")
    assert rescore(*apply).returncode == 0
    assert f"|ignored:{digest}|" in (tmp_path / "r.json").read_text()
    lists = formats.read([tmp_path / "l.jsonl"])
    result = evaluate(lists, metric="ner", ignored=tmp_path / "names")
    assert result.first_pass == named_value(named)
    with pytest.raises(UserError, match="option ignored: give the path of its file"):
        evaluate(lists, metric="ner", ignored=frozenset("b"))
    (tmp_path / "names").write_text("c\n", encoding="utf-8")
    assert_one_line_error(rescore(*apply), "changed after tuning")


def named_value(output: str) -> float:
    """The first figure of a table."""
    return float(output.splitlines()[1].split()[1])


class Nth(DecisionRule):
    """The hypothesis with the N-th best score."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        place: int = option(1, "nth: which hypothesis is chosen.", metavar="N", low=1)

    def choose(self, nbest: NbestList, preference: np.ndarray) -> str:
        order = np.argsort(-preference, kind="stable")
        return nbest.hypotheses[int(order[self.options.place - 1])].text


def test_an_option_of_a_decision(
    rescore: Run, register: object, lists: Path, tmp_path: Path
) -> None:
    """On the command line, in Python, in signatures and in weights files."""
    register(parts.DECISIONS, "nth", Nth, "the N-th")
    first = rescore("run", lists, "--decide", "nth", "--best", "-").stdout
    second = rescore("run", lists, "--decide", "nth", "--place", "2", "--best", "-")
    assert "u0 a longer one" in first and "u0 short" in second.stdout
    assert_one_line_error(
        rescore("run", lists, "--place", "2"), "--place needs --decide nth"
    )
    assert_one_line_error(
        rescore("run", lists, "--decide", "nth", "--place", "0"),
        "--place 0: expected a whole number from 1 on",
    )
    tuned = rescore(*("tune", lists, "--decide", "nth", "--place", "2", "-o", "w.json"))
    assert tuned.returncode == 0, tuned.stderr
    decision = json.loads((tmp_path / "w.json").read_text())["decision"]
    assert decision == {"name": "nth", "scale": None, "settings": {"place": 2}}
    apply = ("rerank", lists, "--weights", "w.json", "--report")
    assert rescore(*apply, "r.json").returncode == 0
    assert rescore(*apply, "s.json", "--place", "1").returncode == 0
    signatures = [
        parse(json.loads((tmp_path / name).read_text())["signature"])
        for name in ("r.json", "s.json")
    ]
    assert [one.deciding for one in signatures] == [{"place": "2"}, {}]
    results = evaluate(formats.read([lists]), decision="nth", place=2)
    assert "|decide:nth,place=2|" in results.signature
    assert results.choice.decision.for_signature == {"place": "2"}


@pytest.mark.parametrize(
    ("bounds", "numbers"),
    [
        ({"low": 1}, "from 1 on"),
        ({"high": 5}, "up to 5"),
        ({"low": 1, "high": 5}, "from 1 to 5"),
    ],
)
def test_a_number_out_of_range_names_the_range(
    bounds: dict[str, float], numbers: str
) -> None:
    entry = Field("size", "", Option("A number.", **bounds), float, None)
    with pytest.raises(UserError, match=f"expected a number {numbers}$"):
        entry.check(math.nan)
