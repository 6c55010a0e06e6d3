"""What has two engines gives the same figure on the same question, whichever answers,
and the empty question too. The tests of KenLM and Ray compare them on more texts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from rescore.cli import bridge
from rescore.errors import UserError
from rescore.files import parsed
from rescore.lms import load, without_context
from rescore.lms.arpa import ArpaModel
from rescore.lms.training.optimizers import optimizers, usual_optimizer
from rescore.scoring.cluster import Cluster, _user_error
from tests.conftest import Run
from tests.lms.test_ngram import ARPA

TEXTS = ["", "the old clock", "the owl", "clock clock the", ""]
QUESTIONS: list[list[str]] = [[], [""], TEXTS]


@pytest.fixture(params=["as installed", "NumPy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """KenLM where it is installed, and NumPy."""
    if request.param == "NumPy":
        monkeypatch.setitem(sys.modules, "kenlm", None)
    return str(request.param)


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return path


@pytest.mark.parametrize("texts", QUESTIONS, ids=["none", "an empty one", "several"])
def test_ngrams(texts: list[str], engine: str, arpa: Path) -> None:
    definition = [scores.sum for scores in map(one_by_one(arpa), texts)]
    found = load(f"ngram:{arpa}").score(without_context(texts))
    assert [scores.sum for scores in found] == pytest.approx(definition, abs=1e-4)


def one_by_one(arpa: Path) -> Any:
    """The scores of one text, by NumPy."""
    model = ArpaModel(arpa)
    return lambda text: model.score([text])[0]


@pytest.mark.parametrize("name", ["tta", "ngram"])
def test_no_question_has_no_scores(name: str, engine: str, arpa: Path) -> None:
    lm = load(f"ngram:{arpa}" if name == "ngram" else name)
    assert lm.score([]) == []


def test_the_second_run_of_a_cache(engine: str, arpa: Path, rescore: Run) -> None:
    """All scores are in the cache: the model is asked nothing."""
    arpa.with_name("l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "the clock"}, {"text": "the owl"}]}\n'
    )
    command = ("score", "l.jsonl", "--lm", f"ngram:{arpa}", "--cache", "scores.db")
    done = [rescore(*command) for _ in range(2)]
    plain = rescore(*command[:-2])
    assert [one.returncode for one in done] == [0, 0], done[1].stderr
    assert done[0].stdout == done[1].stdout == plain.stdout


def test_workers_are_not_asked_about_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster.__new__(Cluster)
    cluster._size = 1
    sent: list[Any] = []
    monkeypatch.setattr(cluster, "_sent", lambda *given: sent.append(given))
    assert list(cluster.stream(0, [[]])) == [[]]


def test_what_was_given_is_asked_of_the_parser() -> None:
    """Releases of click differ in what an argument without a value is."""
    import click

    order = [click.Argument([name]) for name in ("text", "path", "none", "many")]
    unset = object()  # as in click 8.3
    values = {"text": "", "path": "a", "none": unset, "many": ()}
    assert bridge._given(values, order) == {"text", "path"}
    option = click.Option(["--flag"], is_flag=True)
    assert bridge._given({"flag": True, "many": ("a",)}, [option, order[3]]) == {
        "flag",
        "many",
    }


def test_a_workers_last_line_is_told() -> None:
    """Ray's messages hold the whole traceback of a worker."""
    said = (
        "Traceback (most recent call last):\n  File x, line 1\nAssertionError: odd\n\n"
    )
    assert str(_user_error(RuntimeError(said))) == "--engine ray: AssertionError: odd"
    assert str(_user_error(RuntimeError(""))) == "--engine ray: RuntimeError"


def test_pytorch_without_muon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A training that names no optimizer takes one that is there, and says so."""
    caplog.set_level("INFO", "rescore")
    assert usual_optimizer() == ("muon" if hasattr(torch.optim, "Muon") else "adamw")
    caplog.clear()
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    assert usual_optimizer() == "adamw"
    assert "has no Muon" in caplog.text
    network = torch.nn.Linear(2, 2)
    with pytest.raises(UserError, match="give --optimizer adamw"):
        optimizers(cast(Any, network), "muon", 0.0)


def test_a_number_that_is_too_large() -> None:
    """Releases of msgspec raise three kinds of errors for it."""
    with pytest.raises(UserError, match=r"^l\.jsonl: .*(range|too large)"):
        parsed(10**400, float, "l.jsonl")
