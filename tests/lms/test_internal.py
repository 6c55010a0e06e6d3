"""An internal LM (`--ilm`): a model of the recogniser's own training text, which is subtracted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.lms import capabilities_of, load, origin, without_context
from rescore.lms.ngram import internal_lm
from rescore.nbest import Column, Hypothesis, NbestList, Role
from tests import stages
from tests.conftest import Run, assert_one_line_error, some_lists
from tests.lms.test_ngram import ARPA

TEXT = "".join(f"{one}\n" for one in ["a b", "a b b", "b b", "a a b", "the clock ticked", "b the clock"] * 9)

OWN = """\\data\\
ngram 1=6
ngram 2=1

\\1-grams:
-99\t<s>\t0
-1\t</s>
-3\t<unk>
-2\ta\t0
-0.3\tb\t0
-2\tclock\t0

\\2-grams:
-0.2\tb b

\\end\\
"""
"""A model with a taste for `b b`."""


def domain_lists(number: int, seed: int) -> list[NbestList]:
    """The first pass is what was heard and a taste for `b b`, which the internal LM shares."""
    random = np.random.default_rng(seed)
    lists = []
    for index in range(number):
        heard = random.normal(size=2)
        right = int(np.argmax(heard))
        texts = ["a clock", "b b"]
        hyps = [
            Hypothesis(text, {"s2s": float(heard[rank]) + 3.0 * rank, "ilm": 3.0 * rank})
            for rank, text in enumerate(texts)
        ]
        columns = {"ilm": Column("ngram", "ab" * 32, "sum", "float32", Role.INTERNAL_LM)}
        lists.append(NbestList(f"u{seed}-{index}", hyps, (texts[right],), provenance=columns))
    return lists


def test_its_weight_is_tuned_without_bounds() -> None:
    lists = domain_lists(200, 1)
    weights, tuned = stages.tuned(lists)
    assert weights.weights["ilm"] / weights.weights["s2s"] == pytest.approx(-1, abs=0.3) and tuned.value < 5
    assert weights.options is not None and weights.options.negative == ("ilm",)
    results, _ = stages.evaluated(domain_lists(200, 2), weights)
    assert results.system == "- ilm" and results.reranked is not None and results.reranked < 10


def test_noise_gets_no_weight() -> None:
    random = np.random.default_rng(3)
    lists = domain_lists(60, 1)
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores |= {"s2s": float(hypothesis.text in nbest.references), "ilm": float(random.normal())}
    assert not stages.tuned(lists)[0].weights["ilm"]


def test_its_role_and_sign_are_written(rescore: Run, tmp_path: Path) -> None:
    formats.write(domain_lists(200, 1), str(tmp_path / "dev.jsonl"))
    formats.write(domain_lists(200, 2), str(tmp_path / "test.jsonl"))
    assert rescore("tune", "dev.jsonl", "-o", "w.json").returncode == 0
    done = rescore("rerank", "test.jsonl", "--weights", "w.json", "--report", "r.json", "-o", "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["weights"]["ilm"] < 0
    assert formats.read([tmp_path / "out.jsonl"])[0].provenance["ilm"].role is Role.INTERNAL_LM


def test_a_model_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA)
    spec = internal_lm(f"ngram:{tmp_path}/lm.arpa", tmp_path / "nowhere")
    assert spec == f"ngram:internal:{tmp_path}/lm.arpa" and not (tmp_path / "nowhere").exists()
    model, plain = load(spec), load(f"ngram:{tmp_path}/lm.arpa")
    assert model.name == "ilm" and capabilities_of(model).internal and model.fingerprint == plain.fingerprint
    assert origin(model, "sum").role is Role.INTERNAL_LM and origin(model, "sum").model == "ngram"
    with pytest.raises(UserError, match="no such file"):
        internal_lm(str(tmp_path / "absent.txt"), tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "own.arpa").write_text(OWN)
    for name, seed in (("test", 1), ("dev", 2)):
        lists = domain_lists(60, seed)
        for nbest in lists:
            nbest.provenance = {}
            for hypothesis in nbest.hypotheses:
                del hypothesis.scores["ilm"]
        formats.write(lists, str(tmp_path / f"{name}.json"))


@pytest.mark.usefixtures("files")
def test_run_stages_and_compare(rescore: Run, tmp_path: Path) -> None:
    options = ("--ilm", "ngram:own.arpa", "--lm", "ngram:own.arpa")
    done = rescore("test.json", "--dev", "dev.json", *options, "--no-bagging", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    weights = json.loads((tmp_path / "r.json").read_text())["weights"]
    assert weights["ilm"] < 0 and f"ilm {weights['ilm']:.4g}" in done.stdout
    for name in ("test", "dev"):
        assert rescore("score", f"{name}.json", *options, "-o", f"{name}.jsonl").returncode == 0
    assert rescore("tune", "dev.jsonl", "--no-bagging", "-o", "w.json").returncode == 0
    assert json.loads((tmp_path / "w.json").read_text())["weights"] == pytest.approx(weights)
    done = rescore("compare", "test.json", "--dev", "dev.json", *options, "--json")
    names = ["ngram", "ilm", "ngram + ilm", "without ngram", "without ilm"]
    assert [row["name"] for row in json.loads(done.stdout)["rows"]] == names
    assert_one_line_error(rescore("run", "test.json", *options, "--weight", "0.1", "--weight", "0.1"), "give --dev")


@pytest.mark.usefixtures("files")
def test_a_bigram_model_of_a_text(rescore: Run, tmp_path: Path) -> None:
    done = rescore("score", "test.json", "--lm", "ngram:lm.arpa", "--ilm", "text", "--cache", "c", "-o", "s.jsonl")
    assert done.returncode == 0, done.stderr
    folder = next((tmp_path / "c").glob("ilm-*"))
    estimated = load(f"ngram:{folder}")
    for nbest in formats.read([tmp_path / "s.jsonl"])[:5]:
        asked = [hypothesis.text for hypothesis in nbest.hypotheses]
        expected = [one.sum for one in estimated.score(without_context(asked))]
        assert nbest.column("ilm") == pytest.approx(expected) and all(map(math.isfinite, expected))
    before = (folder / "README.md").stat().st_mtime_ns
    again = rescore("score", "dev.json", "--lm", "ngram:lm.arpa", "--ilm", "text", "--cache", "c", "-o", "d.jsonl")
    assert again.returncode == 0 and (folder / "README.md").stat().st_mtime_ns == before
    rescore("score", "test.json", "--lm", "ngram:lm.arpa", "--ilm", "text", "-o", "t.jsonl")
    assert (tmp_path / "s.jsonl").read_text() == (tmp_path / "t.jsonl").read_text()  # the same fingerprint


@pytest.mark.usefixtures("files")
def test_alone_it_keeps_the_columns_of_the_lists(rescore: Run, tmp_path: Path) -> None:
    for name in ("test", "dev"):
        assert rescore("score", f"{name}.json", "--lm", "ngram:lm.arpa", "-o", f"{name}.lm.jsonl").returncode == 0
        done = rescore("score", f"{name}.lm.jsonl", "--ilm", "ngram:own.arpa", "-o", f"{name}.both.jsonl")
        assert done.returncode == 0, done.stderr
    assert rescore("tune", "dev.both.jsonl", "--no-bagging", "-o", "w.json").returncode == 0
    expected = json.loads((tmp_path / "w.json").read_text())["weights"]
    options = ("--ilm", "ngram:own.arpa", "--no-bagging", "--report", "r.json")
    done = rescore("test.lm.jsonl", "--dev", "dev.lm.jsonl", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["weights"] == expected and {"ngram", "ilm"} <= set(expected)
    assert_one_line_error(rescore("score", "test.json", "-o", "x.jsonl"), "give --lm")


def test_messages_name_the_text(rescore: Run, tmp_path: Path) -> None:
    dev = some_lists(tmp_path, "dev", 20)
    (tmp_path / "talks.txt").write_text("".join(f"{nbest.references[0]}\n" for nbest in formats.read([dev])))
    done = rescore("dev.json", "--folds", "2", "--ilm", "talks.txt")
    assert "--ilm talks.txt: the training text of this model contains 100 % of the references" in done.stderr
    assert str(tmp_path) not in done.stderr and "rescore-ilm" not in done.stderr
    assert_one_line_error(rescore("dev.json", "--ilm", "ngram:no.arpa"), "--ilm: the weight of an internal LM")
