"""One table for each kind of part: what is registered at run time is in the help, in errors, and does its work."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from rescore import parts
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.formats import ReadOptions
from rescore.formats.source import Source
from rescore.lms import ComputeOptions, Kind, Question, TokenScores
from rescore.lms.base import Spec
from rescore.metrics import Metric, MetricOptions
from rescore.metrics.significance import PairedTest, ScoredText
from rescore.metrics.wer import ErrorRate
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList
from rescore.parts import Registry
from rescore.signature import Signature
from rescore.tuning.joint import JointWeights
from rescore.version import VERSION
from tests.conftest import Run, assert_one_line_error, write_json

tuning = importlib.import_module("rescore.tuning.tune")  # its room hands out the function of that name


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


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    hypotheses = {"hyp_1": {"score": -1, "text": "a longer one"}, "hyp_2": {"score": -2, "text": "short"}}
    return write_json(tmp_path / "l.json", {f"u{index}": {"ref": "short", **hypotheses} for index in range(4)})


class Semicolons:
    """A format: `id;score;text` a line."""

    def sniff(self, source: Source) -> bool:
        return source.head.startswith("u0;")

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        for line in source.lines():
            name, score, text = line.split(";")
            yield NbestList(name, [Hypothesis(text, {FIRST_PASS: float(score)})])


def test_a_format(rescore: Run, register: object, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("u0;-1;hello\n", encoding="utf-8")
    register(parts.FORMATS, "semicolons", Semicolons(), "lines with semicolons")
    assert json.loads(rescore("convert", "x").stdout)["hyps"][0]["text"] == "hello"
    assert rescore("convert", "x", "--format", "semicolons").returncode == 0
    assert ",semicolons." in rescore("run", "--help").stdout.replace("\n", "").replace(" ", "")
    (tmp_path / "y").write_text("?", encoding="utf-8")
    assert_one_line_error(rescore("convert", "y"), "json, semicolons")


class Shortest:
    """A language model that likes short texts."""

    name = model = "shortest"
    precision = "float32"
    fingerprint = "0" * 64

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        return [TokenScores(one.text.split(), -np.ones(len(one.text.split()))) for one in questions]


class ShortestKind(Kind):
    def load(self, spec: Spec, computing: ComputeOptions) -> Shortest:
        return Shortest()


def test_a_kind_of_language_model(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    register(parts.KINDS, "shortest", ShortestKind, "few words")
    done = rescore(lists, "--lm", f"shortest:{tmp_path}", "--weight", "0.9")
    assert "reranked      0.00" in done.stdout and "lm:shortest=shortest@000000000000,sum,float32" in done.stdout
    assert "shortest: few words" in " ".join(rescore("run", "--help").stdout.split())
    assert_one_line_error(rescore(lists, "--lm", "elmo"), "server, shortest")


class Sentences(ErrorRate):
    """Share of wrong sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "SER"

    @property
    def versions(self) -> dict[str, str]:
        return {"counter": "1.2", "comet": "3"}

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        counts = super().statistics(hypotheses, references)
        wrong = (counts[:, :3].sum(axis=1) > 0).astype(np.int64)
        return np.stack([wrong, 0 * wrong, 0 * wrong, 0 * wrong + 1], axis=1)


def test_a_metric(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    def make(options: MetricOptions, references: Sequence[str]) -> Metric:
        return Sentences()

    register(parts.METRICS, "ser", make, "sentence error rate")
    found = rescore("eval", lists, "--metric", "ser").stdout
    (line,) = (line for line in found.splitlines() if line.startswith("SER|"))
    assert Signature.parse(line).versions == {"rescore": VERSION, "counter": "1.2", "comet": "3"}
    assert str(Signature.parse(line)) == line
    assert "100.00" in rescore("eval", lists, "--metric", "SER").stdout
    (tmp_path / "lm.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t<unk>\n\n\\end\\\n")
    assert_one_line_error(rescore("eval", lists, "--metric", "serr"), "did you mean ser?")


class Last:
    """A decision rule: the last hypothesis."""

    needs_scale = False

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[None]:
        return [None] * len(lists)

    def choose(self, nbest: NbestList, preference: np.ndarray, prepared: None) -> str:
        return nbest.hypotheses[-1].text


def test_a_decision(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    register(parts.DECISIONS, "last", Last, "the last")
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    done = rescore("rerank", lists, "--weights", "w.json", "--decide", "last", "--report", "r.json", "--best", "-")
    assert done.stdout.splitlines() == [f"u{index} short" for index in range(4)], done.stderr
    assert "|decide:last|" in json.loads((tmp_path / "r.json").read_text())["signature"]


class LeastLoss:
    """A decision rule with a loss of its own: by how many letters two texts differ in length."""

    needs_scale = True

    @staticmethod
    def losses(metric: Metric, lists: Sequence[NbestList]) -> list[np.ndarray]:
        sizes = [np.array([float(len(one.text)) for one in nbest.hypotheses]) for nbest in lists]
        return [np.abs(some[:, None] - some) for some in sizes]

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[np.ndarray]:
        assert metric is not None
        return self.losses(metric, lists)

    def choose(self, nbest: NbestList, preference: np.ndarray, prepared: np.ndarray) -> str:
        return nbest.hypotheses[int((prepared @ preference).argmin())].text


def test_a_decision_by_expected_loss(register: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights and scale are tuned together, under its own losses."""
    register(parts.DECISIONS, "middle", LeastLoss, "of about the expected length")
    asked: list[object] = []

    def tune_jointly(*given: object) -> JointWeights:
        asked.append(given[-1])
        return JointWeights({"s2s": 1.0}, 2.0, 0.0)

    monkeypatch.setattr(tuning, "tune_jointly", tune_jointly)
    hypotheses = [Hypothesis("a b", {"s2s": -1.0, "lm": -2.0}), Hypothesis("a", {"s2s": -2.0, "lm": -1.0})]
    options = tuning.TuningOptions(decide=Decision("middle"))
    weights, _ = tuning.tune(ErrorRate(), [NbestList("u", hypotheses, ("a",))], ["lm"], options=options)
    assert asked == [LeastLoss.losses] and weights.decision == Decision("middle", 2.0)


def test_rules_are_in_the_help(rescore: Run, register: object) -> None:
    register(parts.DECISIONS, "last", Last, "the last of the list")
    assert "last: the last of the list." in " ".join(rescore("run", "--help").stdout.split())


class Never:
    """A significance test that says no."""

    signature = "strict"
    by_units = False

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[ScoredText], second: Sequence[ScoredText]
    ) -> float:
        return 1.0


def test_a_significance_test(rescore: Run, register: object, lists: Path) -> None:
    register(parts.TESTS, "never", Never, "no")
    done = rescore("eval", lists, lists, "--test", "never")
    assert "1.0000" in done.stdout and "|p:never,strict|" in done.stdout
    assert_one_line_error(
        rescore("eval", lists, lists, "--test", "never", "--by-speaker"), "--test never is by segment"
    )


def test_a_style(rescore: Run, register: object, lists: Path, tmp_path: Path) -> None:
    register(parts.STYLES, "bars", lambda rows: "\n".join("!".join(row) for row in rows), ".bars")
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    assert rescore("rerank", lists, "--weights", "w.json", "--report", "r.json").returncode == 0
    assert rescore("report", "r.json", "-o", "t.bars").returncode == 0
    assert (tmp_path / "t.bars").read_text().startswith("dataset!Snt!")
    assert rescore("report", "r.json", "--style", "bars").stdout.startswith("dataset!Snt!")


def test_unknown_names_raise() -> None:
    with pytest.raises(UserError, match=r"'rovr' is not one of best, mbr, mbr-aggregate, rover; did you mean rover\?"):
        Decision("rovr", 1.0)
    with pytest.raises(UserError, match="test 'typo' is not one of randomisation"):
        PairedTest("typo")
    assert Decision("MBR", 1.0).name == "mbr"
    with pytest.raises(UserError, match="must be a number above 0"):
        Decision("mbr", -1.0)
