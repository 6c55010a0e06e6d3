"""Global mapping files against csrfilt.sh and sclite themselves, and alternatives against all readings."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.asr.calibration import correct
from rescore.asr.confidence import ConfusionNetwork
from rescore.decision.rules import losses
from rescore.errors import UserError
from rescore.metrics import Normaliser
from rescore.metrics.alignment import error_counts
from rescore.metrics.glm import Glm, Readings, nearest
from rescore.metrics.significance import matched_pairs
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.outlook import WrongWords, outlook
from rescore.reports.words import ClassErrors, Confusion, by_class, by_position, pairs_of
from rescore.tuning.weights import Weights
from tests.conftest import Run, write_json
from tests.metrics.test_alignment import sclite, sclite_counts

HEAD = ";; the first line is a comment\n* format = 'NIST1'\n* case_sensitive = 'F'\n* max_nrules = '2000'\n"
CONTRACTIONS = HEAD + (
    "[AIN'T] => [{ARE NOT / HAVE NOT}] / [ ] __ [ ]\n"
    "UH => %HESITATION / [ ] __ [ ] ;; for both sides\n"
    '\n;; INPUT_DEPENDENT_APPLICATION = "hyp"\n'
    "[IT'S] => [{IT'S / IT IS / IT HAS}] / [ ] __ [ ]\n[WON'T] => [WILL NOT] / [ ] __ [ ]\n"
    "[WHAT'D] => [{WHAT HAD /WHAT WOULD / WHAT DID }] / [ ] __ [ ]\n"
)


def glm(folder: Path, rules: str) -> Glm:
    path = folder / "en.glm"
    path.write_text(rules, encoding="utf-8")
    return Glm.load(path)


def words(folder: Path, rules: str, text: str) -> str:
    return " ".join(Normaliser(glm=glm(folder, rules))(text))


def test_a_file_without_rules_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no rule in it"):
        glm(tmp_path, ";; nothing\n* name\n")


def test_rules(tmp_path: Path) -> None:
    rules = (
        ';; a comment\n* name "test"\n[CAN\'T] => [CAN NOT] / [ ] __ [ ] ;; why\n'
        '"colour" => "color" / [ ] __ [ ]\nqu => kw\nadviser => advisor / [ ] __\nFalkner => Faulkner / [William ] __\n'
        "T. => TEE / __ [ SHIRT]\n'n' => and\n"
    )
    assert words(tmp_path, rules, "You can't COLOUR colours quickly") == "you can not color colours kwickly"
    assert words(tmp_path, rules, "advisers of readviser") == "advisors of readviser"
    assert words(tmp_path, rules, "William Falkner and Ann Falkner") == "william faulkner and ann falkner"
    assert words(tmp_path, rules, "a t. shirt of t. s. 'n' İ") == "a tee shirt of t. s. and i̇"
    found = glm(tmp_path, rules)
    assert Normaliser(glm=found).settings["glm"] == found.digest
    # Once, from left to right, and the first rule of the file.
    assert words(tmp_path, "a => b / [ ] __ [ ]\nb => a / [ ] __ [ ]\nbx => c\nbxy => d\n", "a a b bxy") == "b b a cy"


def test_the_digest_names_the_version(tmp_path: Path) -> None:
    """Before, the second rule would have read what the first one wrote: other figures have another signature."""
    found = glm(tmp_path, "A => B\nB => C\n")
    assert Normaliser(glm=found)("a") == ["b"]
    assert found.digest == "36d257e9178a:v2"


def test_what_is_no_rule(tmp_path: Path) -> None:
    for rules, message in {
        "\nwhat\n": r"en\.glm: line 2: expected `A => B",
        "[] => b\n": "line 1: no word before =>",
        "a => {b / c\n": r"line 1: \{ and \} do not match",
        f"a => {'{b / c} ' * 11}\n": "more than 1,024 readings",
        f"a => {'b' * 1000}\n": "more than 1,000 characters",
    }.items():
        with pytest.raises(UserError, match=message):
            glm(tmp_path, rules)


TOOLS = "/usr/lib/sctk/bin"


@pytest.mark.tools
def test_random_rules_are_csrfilts(tmp_path: Path) -> None:
    sclite()
    draw = np.random.default_rng(4)

    def piece(size: int) -> str:
        return "".join(draw.choice(list("ab "), draw.integers(1, size))).strip() or "b"

    contexts = ["", " / [ ] __ [ ]", " / [ ] __", " / __ [ ]", " / [a ] __ [b]"]
    for _ in range(10):
        rules = [f"[{piece(4)}] => [{piece(3)}]{draw.choice(contexts)}" for _ in range(8)]
        texts = [" ".join(piece(6).split()) for _ in range(40)]
        found = glm(tmp_path, HEAD + "\n".join(rules) + "\n")
        done = subprocess.run(
            ["csrfilt.sh", "-i", "txt", "en.glm"], cwd=tmp_path, input="\n".join(texts) + "\n", capture_output=True,
            check=True, text=True, env={"PATH": f"{os.environ['PATH']}:{TOOLS}"},
        )  # fmt: skip
        expected = [line.lower().split() for line in done.stdout.splitlines()]
        assert [Normaliser(glm=found)(text) for text in texts] == expected


def filtered(folder: Path, side: str, texts: list[str]) -> list[str]:
    """Texts after csrfilt.sh, as sclite reads them."""
    done = subprocess.run(
        ["csrfilt.sh", "-i", "trn", "-t", side, "en.glm"], cwd=folder, capture_output=True, check=True, text=True,
        input="".join(f"{text} (u)\n" for text in texts), env={"PATH": f"{os.environ['PATH']}:{TOOLS}"},
    )  # fmt: skip
    return [line.removesuffix("(u)").strip() for line in done.stdout.splitlines()]


@pytest.mark.tools
def test_counts_with_alternatives_are_sclites(tmp_path: Path) -> None:
    sclite()
    draw = np.random.default_rng(5)
    known = ["it's", "ain't", "uh", "won't", "what'd", "it", "is", "has", "what", "would", "are", "not", "have", "will"]
    texts = [" ".join(draw.choice(known, draw.integers(1, 15))) for _ in range(600)]
    measure = ErrorRate(normaliser=Normaliser(glm=glm(tmp_path, CONTRACTIONS)))
    found = measure.statistics(texts[300:], [(text,) for text in texts[:300]])
    expected = np.array(
        sclite_counts(tmp_path, filtered(tmp_path, "ref", texts[:300]), filtered(tmp_path, "hyp", texts[300:]))
    )
    # Of equally cheap alignments the programs may take another: here for one text in a hundred.
    assert (found[:, :3] @ [4, 3, 3]).tolist() == (expected @ [4, 3, 3]).tolist()
    assert (found[:, :3] != expected).any(axis=1).sum() <= 3


PART = st.lists(st.lists(st.sampled_from("abc"), max_size=3), min_size=1, max_size=3)
TEXT = st.lists(PART, max_size=4)


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT)
def test_nearest_of_all_readings(reference: Readings, hypothesis: Readings) -> None:
    def all_readings(text: Readings) -> list[list[str]]:
        return [[word for one in chosen for word in one] for chosen in product(*text)]

    pairs = list(product(all_readings(reference), all_readings(hypothesis)))
    costs = error_counts([one for one, _ in pairs], [other for _, other in pairs]) @ [4, 3, 3]
    found = nearest(reference, hypothesis)
    assert found in pairs
    assert (error_counts([found[0]], [found[1]]) @ [4, 3, 3]).item() == costs.min()


def test_rules_for_one_side(tmp_path: Path) -> None:
    normaliser = Normaliser(glm=glm(tmp_path, CONTRACTIONS))
    assert normaliser.nearest("it's uh", "uh it's") == (["it's", "%hesitation"], ["%hesitation", "it's"])
    assert normaliser.nearest("it is so", "it's so") == (["it", "is", "so"], ["it", "is", "so"])
    assert normaliser.nearest("it's so", "it is so")[0] == ["it's", "so"]
    web = Normaliser(
        glm=glm(tmp_path, "[web's] => [{web's /web is / @}\n")
    )  # as a line of NIST's own file, without an end
    assert [web.nearest(text, "a web's b")[1] for text in ("a web is b", "a b")] == [
        ["a", "web", "is", "b"],
        ["a", "b"],
    ]
    assert normaliser.nearest("we have not gone", "we ain't gone")[1] == ["we", "have", "not", "gone"]
    rules = '[a] => [b] / [ ] __ [ ]\n;; INPUT_DEPENDENT_APPLICATION = "(stm|ref)"\n[b] => [c] / [ ] __ [ ]\n'
    rules += ';; INPUT_DEPENDENT_APPLICATION = ".*"\n[d] => [e] / [ ] __ [ ]\n'
    assert Normaliser(glm=glm(tmp_path, rules)).nearest("a b d", "a b d") == (["b", "c", "e"], ["b", "b", "e"])


def test_hypotheses_are_compared_by_their_own_rules(tmp_path: Path) -> None:
    """Under minimum Bayes risk no text differs from itself."""
    measure = ErrorRate(normaliser=Normaliser(glm=glm(tmp_path, CONTRACTIONS)))
    texts = ["we won't", "we will not", "it's so", "we won't"]
    lists = [NbestList("u", [Hypothesis(text, {"s2s": 0.0}) for text in texts])]
    assert losses(measure, lists)[0].tolist() == [[0, 0, 3, 0], [0, 0, 3, 0], [3, 3, 0, 3], [0, 0, 3, 0]]


def test_reports_take_the_nearest_reading(tmp_path: Path) -> None:
    normaliser = Normaliser(glm=glm(tmp_path, CONTRACTIONS))
    references, first, second = ["he said it has gone"], ["he said it gone"], ["he said it's gone"]
    assert matched_pairs(references, first, second, normaliser).mean == 1
    assert pairs_of(normaliser, [references], wrong=first, right=second) == [Confusion("has", "", 1)]
    assert by_class(normaliser, [references], first, second)[0] == ClassErrors("rare", 5, 20.0, 0.0)
    lists = [NbestList("u", [Hypothesis(text, {"s2s": 0.0}) for text in (*first, *second)], (references[0],))]
    assert outlook(ErrorRate(normaliser=normaliser), lists, Weights({"s2s": 1.0}, "given")).words == WrongWords(5, 1, 0)


def test_a_reference_in_its_second_reading(tmp_path: Path) -> None:
    """The output that WER counts as better is the better one in every report."""
    normaliser = Normaliser(glm=glm(tmp_path, "[IT'S] => [{IT'S / IT IS}] / [ ] __ [ ]\n"))
    references = ["it's fine and it's so"] * 4
    right, wrong = ["it is fine and it is so"] * 4, ["it's fine and it's no"] * 4
    found = matched_pairs(references, right, wrong, normaliser)
    assert (found.segments, found.mean) == (4, -1)
    assert matched_pairs(references, right, right, normaliser).segments == 0
    several = [(one,) for one in references]
    places = by_position(normaliser, several, right, wrong)
    assert [(one.words, one.first_pass, one.reranked) for one in places] == [(4, 0, 0)] * 4 + [(4, 0, 4)] + [
        (4, 0, 0)
    ] * 2
    assert pairs_of(normaliser, several, wrong=wrong, right=right) == [Confusion("so", "no", 4)]
    assert pairs_of(normaliser, several, wrong=right, right=wrong) == []
    once = several[:1]
    assert by_class(normaliser, once, right[:1], right[:1]) == [ClassErrors("rare", 3, 0.0, 0.0)]
    lists = [NbestList("u", [Hypothesis(text, {"s2s": 0.0}) for text in (right[0], wrong[0])], (references[0],))]
    assert outlook(ErrorRate(normaliser=normaliser), lists, Weights({"s2s": 1.0}, "given")).words == WrongWords(7, 0, 0)
    lists = [NbestList("u", [Hypothesis(text, {"s2s": 0.0}) for text in ("its so", "it is so")], ("it's so",))]
    assert outlook(ErrorRate(normaliser=normaliser), lists, Weights({"s2s": 1.0}, "given")).words == WrongWords(2, 1, 0)
    network = ConfusionNetwork(right[0], right[:1], np.zeros(1))
    assert correct(network, [references[0]], normaliser).all()


def test_a_command(rescore: Run, tmp_path: Path) -> None:
    glm(tmp_path, CONTRACTIONS)
    entry = {"hyps": [{"text": "uh it's done", "score": -1.0}], "ref": "uh it is done"}
    write_json(tmp_path / "l.json", {"u": entry})
    done = rescore("eval", "l.json", "--glm", "en.glm")
    assert done.stdout.splitlines()[1].split()[:6] == ["l.json", "0.00", "0.00-0.00", "0", "0", "0"], done.stderr
