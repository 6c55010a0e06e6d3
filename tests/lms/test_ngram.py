"""n-gram scores against the definition of back-off, read from the ARPA file, and
against KenLM's own program.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split, Whitespace

from rescore.errors import UserError, installed_by
from rescore.lms import kneser_ney, load, without_context
from rescore.lms import ngram as backend
from rescore.lms import ngram as training
from rescore.lms.arpa import ArpaModel
from rescore.lms.lexicon import Lexicon
from rescore.lms.tokenizer import SPECIAL
from tests.conftest import ROOT, SENTENCES, Run, assert_one_line_error, write_json

ARPA = """\\data\\
ngram 1=6
ngram 2=5
ngram 3=2

\\1-grams:
-2.0\t<unk>\t0
0\t<s>\t-0.5
-1.1\t</s>\t0
-0.7\tthe\t-0.4
-1.3\told\t-0.2
-1.6\tclock\t-0.3

\\2-grams:
-0.2\t<s> the\t-0.1
-0.6\tthe old\t-0.15
-0.9\tthe clock\t0
-0.4\told clock\t-0.25
-0.3\tclock </s>

\\3-grams:
-0.1\t<s> the old
-0.25\tthe old clock

\\end\\
"""


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def definition(words: list[str]) -> list[float]:
    """p(w | h) = p(h w) if it is listed, else back-off(h) * p(w | shorter h) (Katz
    1987); natural log.
    """
    rows = [line.split("\t") for line in ARPA.splitlines() if "\t" in line]
    table = {
        row[1]: (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows
    }
    words = [word if word in table else "<unk>" for word in words]

    def log10(history: list[str], word: str) -> float:
        found = table.get(" ".join([*history, word]))
        if found:
            return found[0]
        return table.get(" ".join(history), (0.0, 0.0))[1] + log10(history[1:], word)

    sentence = ["<s>", *words, "</s>"]
    return [
        math.log(10) * log10(sentence[max(0, at - 2) : at], word)
        for at, word in enumerate(sentence)
        if at
    ]


@pytest.mark.parametrize(
    "text", ["the old clock", "clock the the old", "the owl old", "", "owl owl"]
)
def test_equals_the_definition(arpa: Path, text: str) -> None:
    (found,) = load(f"ngram:{arpa}").score(without_context([text]))
    assert found.tokens == [*text.split(), "</s>"]
    assert found.log_probs == pytest.approx(definition(text.split()), abs=1e-5)
    assert found.unknown == tuple(
        index for index, word in enumerate(text.split()) if word == "owl"
    )


@pytest.mark.tools
@pytest.mark.parametrize("closed", [False, True])
def test_a_batch_equals_single_calls_of_kenlm(arpa: Path, closed: bool) -> None:
    """In both orders: the sums before and after the scores of words."""
    pytest.importorskip("kenlm")
    if closed:
        arpa.write_text(
            ARPA.replace("-2.0\t<unk>\t0\n", "").replace("ngram 1=6", "ngram 1=5"),
            encoding="utf-8",
        )
    lm = load(f"ngram:{arpa}")
    kenlm, raised = lm._model._model, lm._model._raised
    assert bool(raised) == closed
    texts = [
        "the old clock",
        "",
        "the\vowl  old",
        "owl owl",
        "clock the the old",
        "the old clock",
    ]
    for names in (["sum", "log_probs"], ["log_probs", "sum"]):
        scores = lm.score(without_context(texts))
        for found, text in zip(scores, texts, strict=True):
            words = " ".join(text.split())
            wanted = [log10 * math.log(10) for log10, *_ in kenlm.full_scores(words)]
            for place in found.unknown:
                wanted[place] += raised
            values = {name: getattr(found, name) for name in names}
            assert values["sum"] == kenlm.score(words) * math.log(10) + raised * len(
                found.unknown
            )
            assert values["log_probs"].tolist() == wanted


class Counting:
    """KenLM's model, with a list of the sentences that it was asked for."""

    def __init__(self, model: Any) -> None:
        self._model, self.sums, self.words = model, list[str](), list[str]()

    def __contains__(self, word: str) -> bool:
        return word in self._model

    def score(self, text: str) -> float:
        self.sums.append(text)
        return float(self._model.score(text))

    def full_scores(self, text: str) -> Any:
        self.words.append(text)
        return self._model.full_scores(text)


@pytest.mark.tools
def test_one_call_for_each_distinct_sentence(
    arpa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kenlm")
    lm = load(f"ngram:{arpa}")
    kenlm = Counting(lm._model._model)
    monkeypatch.setattr(lm._model, "_model", kenlm)
    questions = without_context(["the old", "the clock", "the old"])
    sums = [score.sum for score in lm.score(questions)]
    assert sums[0] == sums[2] != sums[1]
    assert (kenlm.sums, kenlm.words) == (["the old", "the clock"], [])
    words = lm.score(questions)
    assert [(score.log_probs.sum(), score.sum) for score in words] == [
        (pytest.approx(total), total) for total in sums
    ]
    assert (kenlm.sums, kenlm.words) == (
        ["the old", "the clock"],
        ["the old", "the clock"],
    )


def test_case_and_fingerprint(arpa: Path) -> None:
    plain, lower = load(f"ngram:{arpa}"), load(f"ngram:lower:{arpa}")
    assert len(plain.score(without_context(["THE OLD"]))[0].unknown) == 2
    assert (
        lower.score(without_context(["THE OLD"]))[0].sum
        == plain.score(without_context(["the old"]))[0].sum
    )
    assert plain.fingerprint != lower.fingerprint
    before = plain.fingerprint
    arpa.write_text(ARPA.replace("-0.25", "-0.26"), encoding="utf-8")
    assert load(f"ngram:{arpa}").fingerprint != before


def test_subwords_are_refused(arpa: Path, tmp_path: Path) -> None:
    """A folder of an earlier version, whose n-grams are of a tokenizer's subwords."""
    folder = tmp_path / "lm"
    folder.mkdir()
    (folder / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (folder / "README.md").write_text("---\nunit: subword\n---\n", encoding="utf-8")
    with pytest.raises(
        UserError, match="n-grams of subwords are not supported any more"
    ):
        load(f"ngram:{folder}")


def test_errors(tmp_path: Path, rescore: Run) -> None:
    lists = write_json(
        tmp_path / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    (tmp_path / "bad.arpa").write_text("hello\n", encoding="utf-8")
    done = rescore(lists, "--lm", "ngram:bad.arpa", "--weight", "0.3")
    # KenLM's module, or NumPy
    said = 'line was "hello"' if "line was" in done.stderr else "first line is not"
    assert_one_line_error(done, "bad.arpa: n", "an ARPA file", said)
    assert_one_line_error(
        rescore(lists, "--lm", "ngram:no.arpa", "--weight", "0.3"),
        "no.arpa: no such file",
    )
    assert_one_line_error(
        rescore(lists, "--lm", "ngram:no.arpa"), "no.arpa: no such file"
    )
    assert_one_line_error(
        rescore(lists, "--lm", "ngram", "--weight", "0.3"), "no ngram is shipped"
    )
    assert_one_line_error(
        rescore(lists, "--lm", "ngram:.", "--weight", "0.3"),
        "neither lm.binary nor lm.arpa",
    )


def test_needs_no_torch(arpa: Path, tmp_path: Path) -> None:
    lists = write_json(
        tmp_path / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "rescore",
        lists,
        "--lm",
        f"ngram:{arpa}",
        "--weight",
        "0.3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "rescore.lms.arpa" in imported and "torch" not in imported


def test_without_kenlm_a_binary_is_refused(
    rescore: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)
    (tmp_path / "lm.binary").write_bytes(
        b"mmap lm http://kheafield.com/code format version 5\n\0\0\0"
    )
    done = rescore("score", ROOT / "data" / "test.json", "--lm", "ngram:lm.binary")
    assert_one_line_error(
        done,
        "lm.binary: a binary n-gram model needs kenlm",
        installed_by("ngram"),
    )


def test_unknown_words_are_counted(arpa: Path, rescore: Run, tmp_path: Path) -> None:
    hypotheses = {
        "hyp_1": {"score": -1, "text": "the owl"},
        "hyp_2": {"score": -1, "text": "the old"},
    }
    lists = write_json(tmp_path / "l.json", {"u": {"ref": "the owl", **hypotheses}})
    done = rescore(lists, "--lm", f"ngram:{arpa}", "--weight", "0.3")
    assert "ngram: 1 of 6 tokens are unknown to the model" in done.stderr


@pytest.fixture(scope="module")
def tools() -> dict[str, str]:
    paths = {
        name: training.find_tool(name) for name in ("lmplz", "build_binary", "query")
    }
    found = {name: path for name, path in paths.items() if path}
    if len(found) < len(paths):
        pytest.skip("needs KenLM's programs: make kenlm")
    return found


@pytest.mark.tools
def test_training_and_query_agree(
    tools: dict[str, str], rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    tokenizer = ["--tokenizer", models["tta"] / "tokenizer.json"]
    done = rescore(
        "train",
        "--lm",
        "ngram",
        "-o",
        "3",
        "--prune",
        "0,0,1",
        *tokenizer,
        "--discount-fallback",
        "--text",
        ROOT / "data" / "sentences.txt",
        "--out",
        "lm",
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "lm").iterdir()} == {
        "lm.binary",
        "tokenizer.json",
        "lexicon.txt.xz",
        "README.md",
    }
    assert "3-gram of words" in (tmp_path / "lm" / "README.md").read_text()
    texts = [*SENTENCES[:30], "Xylophones, the OLD clock!", ""]
    scores = load(f"ngram:{tmp_path / 'lm'}").score(without_context(texts))
    assert scores[-2].tokens == [
        "xylophones",
        "the",
        "old",
        "clock",
        "</s>",
    ] and scores[-2].unknown == (0,)
    lines = "\n".join(" ".join(found.tokens[:-1]) for found in scores)
    query = subprocess.run(
        [tools["query"], "-v", "sentence", tmp_path / "lm" / "lm.binary"],
        input=lines + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    totals = [
        line.split() for line in query.stdout.splitlines() if line.startswith("Total:")
    ]
    assert len(totals) == len(texts)
    for found, total in zip(scores, totals, strict=True):
        assert found.sum == pytest.approx(float(total[1]) * math.log(10), abs=1e-4)
        assert len(found.unknown) == int(total[3])


def test_too_small_a_text_is_told(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a b\n", encoding="utf-8")
    train = ("train", "--lm", "ngram", "--text", "t.txt", "--out", "lm")
    done = rescore(*train)
    assert done.returncode == 2 and kneser_ney.TOO_SMALL in done.stderr.splitlines()[-1]
    assert not (tmp_path / "lm").exists()
    (tmp_path / "lm").mkdir()
    # a folder of the user stays
    assert rescore(*train).returncode == 2 and (tmp_path / "lm").exists()
    assert rescore(*train, "--discount-fallback").returncode == 0


def test_copies_are_the_reason_where_a_text_is_too_small(
    rescore: Run, tmp_path: Path
) -> None:
    for copies, expected in ((1, False), (3, True)):
        text = "".join(f"{line}\n" * copies for line in ("a b", "c d e", "a c"))
        (tmp_path / "t.txt").write_text(text, encoding="utf-8")
        done = rescore("train", "--lm", "ngram", "--text", "t.txt", "--out", "lm")
        assert done.returncode == 2
        assert "error: t.txt: the text is too small" in done.stderr
        assert ("of its 9 sentences only 3 differ" in done.stderr) is expected


def test_reasons_are_kenlms_without_its_source() -> None:
    error = OSError(
        "Cannot read model 'x' (lm/x.cc:65 in void f() threw FormatLoadException. bad"
        " line. Byte: 6)"
    )
    assert backend.reason_of(error) == "bad line. Byte: 6"


def test_words_of_a_tokenizer_have_no_blanks(tmp_path: Path, rescore: Run) -> None:
    """A tokenizer that keeps blanks as tokens trains the model of the words."""
    text = tmp_path / "text.txt"
    text.write_text("the old clock\nthe clock\n" * 3, encoding="utf-8")
    options = ["--text", str(text), "--order", "2", "--discount-fallback"]
    sums = []
    for cut in (Split(" ", "isolated"), Split(" ", "merged_with_next"), Whitespace()):
        vocabulary = {token: place for place, token in enumerate([*SPECIAL, "the"])}
        tokenizer = HuggingFaceTokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = cut
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        with_tokenizer = [*options, "--tokenizer", str(tmp_path / "tokenizer.json")]
        folder = str(tmp_path / "model")
        rescore("train", "--lm", "ngram", *with_tokenizer, "--out", folder)
        (score,) = load(f"ngram:{folder}").score(without_context(["the old clock"]))
        assert score.tokens == ["the", "old", "clock", "</s>"] and not score.unknown
        sums.append(score.sum)
    assert sums[0] == sums[1] == sums[2]


@pytest.mark.parametrize("normalisation", ["english", "text"])
def test_characters_are_tokens_for_both_engines(
    normalisation: str, rescore: Run, tmp_path: Path
) -> None:
    """The tokenizer says the unit, so that scores are those of characters, with U+2581
    for a blank; KenLM and NumPy give the same scores.
    """
    pytest.importorskip("kenlm", reason="needs kenlm")
    text = "\n".join(SENTENCES)
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    train = ("train", "--lm", "ngram", "--unit", "character", "--text", "t.txt")
    done = rescore(*train, "--normalize", normalisation, "-o", "4", "--out", "lm")
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "lm" / "README.md").read_text()
    assert "unit: character\n" in card and "4-gram of characters" in card
    assert "the" in Lexicon.load(tmp_path / "lm" / "lexicon.txt.xz").counts
    texts = [
        "the  old clock ",
        "\u00e9t\u00e9 \u4eca\u5929, \u2581",
        "",
        *SENTENCES[:5],
    ]
    scores = load(f"ngram:{tmp_path / 'lm'}").score(without_context(texts))
    assert scores[0].tokens == [*"the\u2581old\u2581clock", "</s>"]
    spelled = [" ".join(found.tokens[:-1]) for found in scores]
    (file,) = (tmp_path / "lm").glob("lm.*")
    if file.suffix == ".arpa":
        for found, other in zip(scores, ArpaModel(file).score(spelled), strict=True):
            assert found.tokens == other.tokens and found.unknown == other.unknown
            assert found.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    done = rescore(*train, "--tokenizer", "lm/tokenizer.json", "--out", "other")
    assert done.returncode == 2 and "--unit does not apply to --token" in done.stderr
