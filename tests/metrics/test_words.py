"""The metric's normaliser cuts and counts words: for bonuses, boosts, listed terms; and
no other code does.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from rescore.asr.recombine import recombine
from rescore.metrics import Normaliser
from rescore.metrics.listed import LISTED, ListedErrorRate, WordList, with_listed
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import ROOT, Run, assert_one_line_error
from tests.lms.test_ngram import ARPA


def write(folder: Path, texts: list[str], reference: str, words: str = "") -> None:
    """Lists of one utterance, of which the first hypothesis is a little better by the
    first pass.
    """
    hyps = [{"text": text, "score": -float(rank)} for rank, text in enumerate(texts)]
    (folder / "l.jsonl").write_text(
        json.dumps({"id": "u", "ref": reference, "hyps": hyps}) + "\n", encoding="utf-8"
    )
    (folder / "words.txt").write_text(words, encoding="utf-8")


BOOST = ("--words", "words.txt", "--boost", "5")


@pytest.mark.parametrize(
    ("texts", "words", "options", "wins"),
    [
        (
            ["i met eva.", "I met Aoife."],
            "Aoife\n",
            (*BOOST, "--drop-punctuation"),
            "I met Aoife.",
        ),
        (
            ["我们去背景大学", "我们去北京大学"],
            "北京\n",
            (*BOOST, "--metric", "mer"),
            "我们去北京大学",
        ),
        (["a cup tea", "a cup of tea"], "Bank of America\n", BOOST, "a cup tea"),
        (
            ["a bank america", "a bank of america"],
            "Bank of America\n",
            BOOST,
            "a bank of america",
        ),
        (
            ["我们去", "我们去了"],
            "",
            ("--word-bonus", "5", "--metric", "mer"),
            "我们去了",
        ),
        (
            ["yes no", "yes - no"],
            "",
            ("--word-bonus", "5", "--drop-punctuation"),
            "yes no",
        ),
        (["yes no", "yes - no"], "", ("--word-bonus", "5"), "yes - no"),
    ],
)
def test_bonuses_count_what_the_metric_counts(
    rescore: Run,
    tmp_path: Path,
    texts: list[str],
    words: str,
    options: tuple[str, ...],
    wins: str,
) -> None:
    write(tmp_path, texts, wins, words)
    done = rescore("l.jsonl", *options, "--best", "-")
    assert done.returncode == 0, done.stderr
    assert f"u {wins}\n" in done.stdout


def test_a_bonus_counts_as_the_metric_that_weights_were_tuned_for(
    rescore: Run, tmp_path: Path
) -> None:
    """Also where another metric is reported, and where words and texts are analysed."""
    write(tmp_path, ["我们去", "我们去了"], "我们去了")
    weights = {
        "weights": {"s2s": 1.0, "words": 5.0},
        "tuning": {"metric": "mer", "settings": {"split_mixed": True}},
    }
    (tmp_path / "w.json").write_text(json.dumps(weights), encoding="utf-8")
    for metric in ((), ("--metric", "wer")):
        assert (
            "u 我们去了"
            in rescore("rerank", "l.jsonl", "--weights", "w.json", *metric).stdout
        )
    done = rescore("confidence", "l.jsonl", "--weights", "w.json", "-o", "c.jsonl")
    assert "了" in (tmp_path / "c.jsonl").read_text(encoding="utf-8"), done.stderr
    done = rescore("analyse", "l.jsonl", "--weights", "w.json", "-o", "a.json")
    assert (
        json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["moves"]["better"]
        == 1
    ), done.stderr


def test_a_column_of_other_words_is_refused(rescore: Run, tmp_path: Path) -> None:
    """`score` knows no metric, and counts as WER does."""
    write(tmp_path, ["我们去背景", "我们去北京"], "我们去北京", "北京\n")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = ("--lm", "ngram:lm.arpa")
    assert (
        rescore(
            "score", "l.jsonl", *lm, "--words", "words.txt", "-o", "s.jsonl"
        ).returncode
        == 0
    )
    command = (
        "s.jsonl",
        *lm,
        "--weight",
        "0",
        "--boost",
        "5",
        "--best",
        "-",
        "--metric",
    )
    assert rescore(*command, "wer").returncode == 0
    assert_one_line_error(rescore(*command, "mer"), "give --words FILE")
    assert "u 我们去北京" in rescore(*command, "mer", "--words", "words.txt").stdout


def counted(text: str, terms: tuple[str, ...], normaliser: Normaliser) -> float:
    (found,) = with_listed(
        [NbestList("u", [Hypothesis(text)])], WordList(terms, "words"), normaliser
    )
    return found.hypotheses[0].scores[LISTED]


@pytest.mark.parametrize(
    "terms", [("new york", "york times", "of"), ("of", "york times", "new york")]
)
def test_boost_and_bwer_count_the_same_words_in_any_order_of_the_list(
    terms: tuple[str, ...],
) -> None:
    for normaliser in (
        Normaliser(),
        Normaliser(drop_punctuation=True, split_hyphens=True),
    ):
        metric = ListedErrorRate(words=WordList(terms, "words"), normaliser=normaliser)
        for text in (
            "Times of New York, York Times",
            "new-york of the york",
            "times york new",
            "",
        ):
            assert (
                counted(text, terms, normaliser)
                == metric.statistics([""], [(text,)])[0, 3]
            )
    assert counted("new york times of york", terms, Normaliser()) == 3


def test_an_impossible_hypothesis_is_left_out_of_recombination() -> None:
    texts = (
        ("the old clock ticked", -1.0),
        ("an old clock ticked", -2.0),
        ("the old clock sticked", -3.0),
    )
    plain = [Hypothesis(text, {"s2s": score}) for text, score in texts]
    broken = [Hypothesis("some odd words", {"s2s": float("-inf")}), *plain]
    with_it, without = (
        recombine(NbestList("u", hypotheses)) for hypotheses in (broken, plain)
    )
    assert with_it.hypotheses[4:] == without.hypotheses[3:] != []


SPLITS = {
    "metrics/normalise.py": "the normaliser",
    "metrics/numbers.py": "the scale words behind an amount",
    "metrics/steps.py": "the normaliser's steps that look at each word",
    "errors.py": "words of a message, of which long ones are cut",
    "nbest.py": "the default of lists that no plan has seen",
    "metrics/open_asr.py": (
        "the leaderboard's own normaliser, and compounds of its pairs"
    ),
    "metrics/mt.py": "characters, and tokens of sacreBLEU's own tokenizer",
    "metrics/texts.py": "how many letters stand between blanks, for a warning",
    "metrics/listed.py": "fields of a line in a list of words",
    "asr/documents.py": "fields of files, and texts with single blanks",
    "asr/measured.py": "fields of files, and texts with single blanks",
    "asr/pieces.py": "fields of files, and texts with single blanks",
    "asr/sessions.py": "texts with single blanks, to tell their number of words",
    "asr/whole.py": "fields of files, and texts with single blanks",
    "asr/written.py": "words as they are written, beside the normaliser's",
    "asr/terms.py": "sounds of a text that is spelled in sounds",
    "formats/": "fields of files, and texts with single blanks",
    "lms/": "tokens of models, fields of files and of options",
    "large/": "a model's own words",
    "scoring/": "words of a model, for its case probe and its tokens per word",
    "reports/perplexity.py": "plain text, which has no metric",
    "research/": "words of plain texts, of data sets and of lexicons: no metric",
}
"""Modules with `.split()` or `split` as a function, and why. A name with a slash at its
end is a folder.
"""


def splits(source: str) -> bool:
    """Whether a module cuts texts at blanks; `" ".join(text.split())` only tidies
    blanks.
    """
    tree = ast.parse(source)
    tidied = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and node.args
    }
    for node in ast.walk(tree):
        called = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "split"
        )
        if called and not node.args and id(node) not in tidied:
            return True
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "split"
            and getattr(node.value, "id", "") == "str"
        ):
            return True
    return False


def test_nobody_else_cuts_texts_at_blanks() -> None:
    package = ROOT / "rescore"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if splits(path.read_text(encoding="utf-8"))
    }
    unknown = sorted(
        name for name in found if not any(name.startswith(known) for known in SPLITS)
    )
    assert not unknown, (
        "words are cut by the metric's normaliser (`Header.cut_words`,"
        " `Plan.cut_words`), or by `WRITTEN`"
    )
    assert not [
        known for known in SPLITS if not any(name.startswith(known) for name in found)
    ], "a reason too many"
