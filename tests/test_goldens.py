"""The figures, signatures and texts of the commands, kept as files in tests/goldens.

A change that should change none of them fails here if it does. `WRITE_GOLDENS=1 pytest
tests/test_goldens.py` writes the files again; the difference then belongs in the
commit.
"""

from __future__ import annotations

import difflib
import html
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import rescore
from tests.conftest import ROOT, SENTENCES, run_main, write_json
from tests.formats.samples import SAMPLES

GOLDENS = Path(__file__).with_name("goldens")
WRITE = "WRITE_GOLDENS"

SCORE = re.compile(r"-?\d+\.(\d{5,}|\d{3}(?!\d))")
"""A number of three digits after the point, as scores are rounded here, or of more, as
weights and signatures have.
"""

TOLERANCE = 5e-3
"""Of a score in natural log: a network that is trained here differs by this much from
one processor to another.
"""

LAST_DIGIT = 2e-5
"""The share of a number of five to eight digits by which it may differ: another
processor adds in another order.
"""

PROGRESS = re.compile(r"(?m)^.*, (.* to go|\d+ a second)\n")
"""What a command says on a slow machine only."""

VERSION = re.compile(r"\b(rescore|jiwer|rapidfuzz|sacrebleu):\d[\w.+]*")

RESULTS = (
    "utterances",
    "hypotheses",
    "weights",
    "tuning",
    "dataset",
    "system",
    "metrics",
    "ref_words",
    "changed",
)
METRIC = (
    "first_pass",
    "oracle",
    "own_oracle",
    "reranked",
    "p_value",
    "sentence_errors",
)
WEIGHTS = ("weights", "decision", "tuning")
"""The keys of weights files that are kept."""
OF_OTHERS = ("columns", "options", "unproven", "toolkit", "of_folds")
"""The keys of the record of a tuning that are left out."""


class Golden:
    """What a case prints and writes, to compare with its golden file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.hidden: list[tuple[re.Pattern[str], str]] = [(VERSION, r"\1:VERSION")]

    def hide(self, pattern: str, instead: str) -> None:
        """What else differs between machines in this case, such as the fingerprint of a
        model that it trains.
        """
        self.hidden.append((re.compile(pattern), instead))

    def run(self, *arguments: str | Path, status: int = 0, input: str = "") -> str:  # noqa: A002 (as `run_main`)
        """A command, with what it prints."""
        done = run_main(*arguments, input=input)
        assert done.returncode == status, done.stderr
        self.add("$ rescore " + " ".join(map(str, arguments)), done.stdout)
        if messages := PROGRESS.sub("", done.stderr):
            self.add("stderr:", messages)
        if status:
            self.add(f"exit status: {status}", "")
        return done.stdout

    def quietly(self, *arguments: str | Path) -> None:
        """A command that prepares others: what it prints is another case's."""
        done = run_main(*arguments)
        assert done.returncode == 0, done.stderr

    def add(self, heading: str, text: str) -> None:
        for pattern, instead in self.hidden:
            text = pattern.sub(instead, text)
        self.lines += [
            heading,
            *(f"  {line}".rstrip() for line in text.splitlines()),
            "",
        ]

    def file(self, name: str, lines: int | None = None) -> None:
        """A text file that a command wrote, or its first lines."""
        text = (self.folder / name).read_text(encoding="utf-8")
        self.add(name, "".join(text.splitlines(keepends=True)[:lines]))

    def data(self, name: str, *keys: str) -> None:
        """Keys of a JSON file that a command wrote, one a line, with floats to six
        digits.
        """
        value = json.loads(
            (self.folder / name).read_text(encoding="utf-8"),
            parse_float=lambda text: f6(float(text)),
        )
        value |= value.get("choice", {})
        for key in OF_OTHERS:  # records of models, of searches and of folds
            value.get("tuning", {}).pop(key, None)
        rows = [(key, value[key]) for key in keys if key != "metrics"]
        for metric in value["metrics"] if "metrics" in keys else ():
            rows += [
                (f"{metric['metric']} {key}", metric[key])
                for key in METRIC
                if metric[key] not in (None, {})
            ]
        self.add(name, "\n".join(f"{key}: {json.dumps(value)}" for key, value in rows))

    def lists(
        self, name: str, lists: int = 1, hypotheses: int = 3, only: str = ""
    ) -> None:
        """The first lists of a file in JSON Lines: scores and origins of their first
        hypotheses, and means of all.

        With `only`, the hypotheses of this origin.
        """
        path = self.folder / name
        rows = [
            json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
        ]
        rows = [row for row in rows if "hyps" in row]
        number = sum(len(row["hyps"]) for row in rows)
        text = [f"{len(rows)} lists, {number} hypotheses"]
        for row in rows[:lists]:
            text.append(row["id"])
            for one in [one for one in row["hyps"] if only in ("", one.get("origin"))][
                :hypotheses
            ]:
                scores = {"s2s": one["score"], **one.get("scores", {})}
                text.append(
                    f"  {one['text']}"
                    + (f" ({one['origin']})" if "origin" in one else "")
                )
                text.append(
                    "    "
                    + " ".join(
                        f"{column}={score:.3f}" for column, score in scores.items()
                    )
                )
        for column, about in rows[0].get("columns", {}).items():
            mean = (
                sum(
                    one["scores"].get(column, 0.0)
                    for row in rows
                    for one in row["hyps"]
                )
                / number
            )
            origin = f"{about['model']}@{about['fingerprint'][:12]},"
            origin += ",".join(about[key] for key in ("norm", "precision", "role"))
            text.append(f"mean of {column}: {mean:.3f} ({origin})")
        self.add(name, "\n".join(text))

    def holds(self, name: str) -> None:
        """Compare with the golden file, or write it."""
        path = GOLDENS / f"{name}.txt"
        if os.environ.get(WRITE):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(self.lines), encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        found = "\n".join(self.lines).split("\n")
        difference = list(
            difflib.unified_diff(
                expected,
                rounded_as(expected, found),
                "golden",
                "found",
                n=2,
                lineterm="",
            )
        )
        if difference:
            again = f"{WRITE}=1 pytest tests/test_goldens.py -k {name} writes it again"
            pytest.fail(
                "\n".join([f"{path.name} differs; {again}", *difference]), pytrace=False
            )


def f6(value: float) -> float:
    return float(f"{value:.6g}")


def rounded_as(expected: list[str], found: list[str]) -> list[str]:
    """The lines that were found, with scores that are near the expected ones replaced
    by these.
    """
    if len(expected) != len(found):
        return found
    return [
        right if near(right, line) else line
        for right, line in zip(expected, found, strict=True)
    ]


def near(expected: str, found: str) -> bool:
    """Whether two lines differ in scores and last digits alone, and in these by no more
    than the tolerance.
    """
    if SCORE.sub("", expected) != SCORE.sub("", found):
        return False
    pairs = zip(SCORE.finditer(expected), SCORE.finditer(found), strict=True)
    for one, other in pairs:
        tolerance = (
            LAST_DIGIT * abs(float(one[0])) if 5 <= len(one[1]) <= 8 else TOLERANCE
        )
        if abs(float(one[0]) - float(other[0])) > tolerance:
            return False
    return True


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Golden:
    """A case in a folder of its own, which holds the demo data, and 30 lists each in
    test.json and dev.json.
    """
    monkeypatch.chdir(tmp_path)
    # An n-gram is estimated here, not by programs that a machine may have.
    monkeypatch.setattr("shutil.which", lambda name, *others, **path: None)
    # and read in NumPy, whose last digits differ from the module's
    monkeypatch.setitem(sys.modules, "kenlm", None)
    for name in ("data", "models"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("test", "dev"):
        write_json(tmp_path / f"{name}.json", first(name))
    return Golden(tmp_path)


def first(name: str, number: int = 30) -> dict[str, Any]:
    """The first demo lists."""
    lists = json.loads((ROOT / "data" / f"{name}.json").read_text(encoding="utf-8"))
    return dict(list(lists.items())[:number])


@pytest.fixture
def ngram(golden: Golden) -> Golden:
    """The same with a trigram model of two thirds of the sentences, in the folder
    lm.
    """
    sentences = "".join(
        f"{line}\n" for number, line in enumerate(SENTENCES) if number % 3
    )
    (golden.folder / "text.txt").write_text(sentences, encoding="utf-8")
    golden.quietly(
        "train", "--lm", "ngram", "-o", "3", "--text", "text.txt", "--out", "lm"
    )
    return golden


def test_demo(golden: Golden) -> None:
    golden.run(
        "data/test.json",
        "--lm",
        "tta",
        "--dev",
        "data/dev.json",
        "--report",
        "r.json",
        "--best",
        "best.trn",
        "--save-weights",
        "w.json",
    )
    golden.data("r.json", *RESULTS)
    golden.data("w.json", *WEIGHTS)
    golden.file("best.trn", 10)
    golden.run("check", "r.json", "--golden", "data/golden.json")
    golden.holds("demo")


def test_two(golden: Golden) -> None:
    """The example that the README begins with."""
    golden.run("data/two.json", "--lm", "tta", "--weight", "0.3", "--best", "best.trn")
    golden.file("best.trn")
    golden.run("data/two.json", "--lm", "tta", "--verbose", "-o", "out.jsonl")
    golden.lists("out.jsonl")
    golden.holds("two")


def test_intact(golden: Golden) -> None:
    golden.run(
        "test.json", "--lm", "bilm:intact", "--dev", "dev.json", "-o", "out.jsonl"
    )
    golden.lists("out.jsonl")
    golden.holds("intact")


def test_stages(ngram: Golden) -> None:
    """Two models by the stages and by one command: equal figures, texts and
    signatures.
    """
    shutil.rmtree(ngram.folder / "lm")  # no training writes over a model
    ngram.run("train", "--lm", "ngram", "-o", "3", "--text", "text.txt", "--out", "lm")
    lms = ("--lm", "unilm", "--lm", "ngram:lm")
    for name in ("dev", "test"):
        ngram.run("score", f"{name}.json", *lms, "-o", f"{name}.jsonl")
    ngram.lists("test.jsonl")
    ngram.run("tune", "dev.jsonl", "-o", "w.json")
    ngram.data("w.json", *WEIGHTS)
    ngram.run("tune", "dev.jsonl", "--no-bagging", "--word-bonus", "-o", "best.json")
    ngram.data("best.json", *WEIGHTS)
    ngram.run(
        "rerank",
        "test.jsonl",
        "--weights",
        "w.json",
        "--best",
        "best",
        "--report",
        "r.json",
    )
    ngram.file("best", 5)
    ngram.data("r.json", *RESULTS)
    ngram.run("eval", "test.jsonl", "best", "--ref", "test.json")
    ngram.run(
        "test.json",
        *lms,
        "--dev",
        "dev.json",
        "--best",
        "again",
        "--report",
        "again.json",
    )
    ngram.data("again.json", "signature")
    assert (ngram.folder / "again").read_text() == (ngram.folder / "best").read_text()
    ngram.run("analyse", "test.jsonl", "--weights", "w.json")
    ngram.holds("stages")


def test_norms(golden: Golden) -> None:
    """Means over tokens, given weights, a word bonus, folds."""
    golden.run(
        "test.json",
        "--lm",
        "tta-small",
        "--lm-norm",
        "mean",
        "--dev",
        "dev.json",
        "--no-bagging",
    )
    golden.run(
        "test.json",
        "--lm",
        "tta-small",
        "--folds",
        "3",
        "--speaker",
        "[0-9]$",
        "--word-bonus",
        "tune",
    )
    golden.run(
        "test.json",
        "--lm",
        "tta-small",
        "--weight",
        "0.9",
        "--token-bonus",
        "0.5",
        "--word-bonus",
        "2",
    )
    golden.holds("norms")


def fairseq(lists: dict[str, Any]) -> str:
    """A log of fairseq: the source is the reference with each word spelled
    backwards.
    """
    log = []
    for number, one in enumerate(lists.values()):
        log.append(f"S-{number}\t{backwards(one['ref'])}\nT-{number}\t{one['ref']}\n")
        for hypothesis in hypotheses(one):
            score = hypothesis["score"] / 1000 / len(hypothesis["text"].split())
            log.append(
                f"H-{number}\t{score:.6f}\t{hypothesis['text']}\nP-{number}\t{score:.4f}\n"
            )
    return "".join(log)


def backwards(text: str) -> str:
    return " ".join(word[::-1] for word in text.split())


def hypotheses(one: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for key, value in one.items() if key.startswith("hyp_")]


def espnet2(folder: Path, lists: dict[str, Any]) -> None:
    """A decode folder of ESPnet2, whose score is a sum of two parts."""
    for rank in range(1, 11):
        target = folder / "logdir" / "output.1" / f"{rank}best_recog"
        target.mkdir(parents=True)
        rows = {"text": "", "score": "", "scores": ""}
        for name, one in lists.items():
            hypothesis = one[f"hyp_{rank}"]
            ctc = -len(hypothesis["text"]) * 1.5
            decoder = hypothesis["score"] - ctc
            rows["text"] += f"{name} {hypothesis['text'].upper()}\n"
            rows["score"] += f"{name} tensor({hypothesis['score']})\n"
            rows["scores"] += (
                f"{name} {{'decoder': tensor({decoder}), 'ctc': tensor({ctc})}}\n"
            )
        for name, text in rows.items():
            (target / name).write_text(text, encoding="utf-8")


def moses(lists: dict[str, Any]) -> str:
    lines = []
    for number, one in enumerate(lists.values()):
        for hypothesis in hypotheses(one):
            words = hypothesis["text"].split()
            lines.append(
                f"{number} ||| {' '.join(words)} ||| LM0= {-1.5 * len(words)} TM0="
                f" {len(words)} {-len(set(words))} |||"
                f" {hypothesis['score'] / 1000:.5f}\n"
            )
    return "".join(lines)


def references(lists: dict[str, Any], named: bool = False) -> str:
    return "".join(
        f"{name} {one['ref'].upper()}\n" if named else f"{one['ref']}\n"
        for name, one in lists.items()
    )


def test_espnet2(ngram: Golden) -> None:
    for name in ("dev", "test"):
        espnet2(ngram.folder / name, first(name))
        (ngram.folder / f"{name}.ref").write_text(
            references(first(name), named=True), encoding="utf-8"
        )
    given = ("test", "--ref", "test.ref", "--dev", "dev", "--dev-ref", "dev.ref")
    ngram.run(*given, "--lm", "ngram:lower:lm")
    ngram.run(
        *given,
        "--lm",
        "ngram:lower:lm",
        "--components",
        "-o",
        "out.jsonl",
        "--best",
        "best",
    )
    ngram.lists("out.jsonl")
    ngram.file("best", 5)
    ngram.run("eval", "test", "--ref", "test.ref")
    ngram.run("convert", "test", "--ref", "test.ref", "--to", "espnet2", "-o", "again")
    for name in ("text", "score", "scores"):
        ngram.file(
            next((ngram.folder / "again").rglob(f"2best_recog/{name}"))
            .relative_to(ngram.folder)
            .as_posix(),
            2,
        )
    ngram.holds("espnet2")


def test_fairseq(golden: Golden) -> None:
    """Translations, with a word translation model of the other sentences."""
    for name in ("dev", "test"):
        (golden.folder / f"{name}.log").write_text(
            fairseq(first(name)), encoding="utf-8"
        )
    (golden.folder / "a").write_text(
        "\n".join(map(backwards, SENTENCES[::2])), encoding="utf-8"
    )
    (golden.folder / "b").write_text("\n".join(SENTENCES[::2]), encoding="utf-8")
    golden.run("train", "--lm", "lexical", "--pairs", "a", "b", "--out", "words")
    golden.hide(r"(lexical[\w:]*@)\w{12}", r"\1TRAINED")
    lms = ("--lm", "lexical:words", "--lm", "lexical:channel:words")
    golden.run(
        "test.log",
        *lms,
        "--dev",
        "dev.log",
        "-o",
        "out.jsonl",
        "--best",
        "best.txt",
        "--verbose",
    )
    golden.lists("out.jsonl")
    golden.file("best.txt", 5)
    golden.run(
        "test.log",
        *lms,
        "--dev",
        "dev.log",
        "--decide",
        "mbr",
        "--metric",
        "bleu",
        "--metric",
        "chrf",
    )
    golden.run(
        "test.log",
        "--s2s",
        "sum",
        "--lenpen",
        "0.5",
        "--metric",
        "ter",
        "--metric",
        "chrf++",
    )
    golden.holds("fairseq")


def test_moses(ngram: Golden) -> None:
    for name in ("dev", "test"):
        (ngram.folder / f"{name}.best").write_text(moses(first(name)), encoding="utf-8")
        (ngram.folder / f"{name}.ref").write_text(
            references(first(name)), encoding="utf-8"
        )
    given = (
        "test.best",
        "--ref",
        "test.ref",
        "--dev",
        "dev.best",
        "--dev-ref",
        "dev.ref",
    )
    ngram.run(
        *given,
        "--lm",
        "ngram:lm",
        "--metric",
        "bleu",
        "--components",
        "-o",
        "out.jsonl",
    )
    ngram.lists("out.jsonl")
    ngram.run("convert", "out.jsonl", "--to", "moses", "-o", "out.best")
    ngram.file("out.best", 2)
    ngram.run("convert", "out.jsonl", "--to", "csv", "-o", "out.csv")
    ngram.file("out.csv", 2)
    ngram.holds("moses")


def test_toolkits(golden: Golden) -> None:
    """Files of toolkits as native lists."""
    for name, files in SAMPLES.items():
        for file, text in files.items():
            path = golden.folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        place = f"{name}/{next(iter(files)).split('/')[0]}"
        options = {
            "csv": ("--field", "id=utt", "--field", "text=hyp"),
            "nemo-beams": ("--nbest-size", "2"),
        }
        golden.run("convert", place, *options.get(name, ()))
    golden.holds("toolkits")


def test_decisions(ngram: Golden) -> None:
    for rule in ("mbr", "rover"):
        ngram.run(
            "test.json",
            "--lm",
            "ngram:lm",
            "--dev",
            "dev.json",
            "--decide",
            rule,
            "--best",
            f"{rule}.trn",
        )
        ngram.file(f"{rule}.trn", 5)
    ngram.run(
        "test.json",
        "--lm",
        "ngram:lm",
        "--weight",
        "0.9",
        "--decide",
        "mbr",
        "--scale",
        "0.05",
        "--metric",
        "cer",
    )
    ngram.run("test.json", "--decide", "rover", "--dev", "dev.json")
    ngram.holds("decisions")


def test_metrics(ngram: Golden) -> None:
    metrics = [
        part
        for name in ("wer", "cer", "bleu", "chrf", "chrf++", "ter", "mer")
        for part in ("--metric", name)
    ]
    ngram.run(
        "data/test.json",
        "--lm",
        "ngram:lm",
        "--weight",
        "0.9",
        *metrics,
        "--report",
        "r.json",
        "--best",
        "best.trn",
    )
    ngram.data("r.json", *RESULTS)
    for name in ("cer", "bleu", "chrf"):
        ngram.run(
            "test.json", "--lm", "ngram:lm", "--dev", "dev.json", "--metric", name
        )
    for options in (
        (
            "--case-sensitive",
            "--split-hyphens",
            "--drop-punctuation",
            "--drop-apostrophes",
        ),
        ("--nfkc", "--split-characters"),
        ("--metric", "bleu", "--tokenize", "char"),
    ):
        ngram.run("eval", "best.trn", "--ref", "data/test.json", *options)
    ngram.holds("metrics")


def test_recombine(ngram: Golden) -> None:
    ngram.run(
        "test.json",
        "--lm",
        "ngram:lm",
        "--dev",
        "dev.json",
        "--recombine",
        "5",
        "-o",
        "out.jsonl",
    )
    ngram.lists("out.jsonl")
    ngram.run(
        "score",
        "test.json",
        "--lm",
        "ngram:lm",
        "--recombine",
        "3",
        "-o",
        "scored.jsonl",
    )
    ngram.lists("scored.jsonl", 3, 3, only="recombined")
    ngram.holds("recombine")


def misspelled(lists: dict[str, Any]) -> dict[str, Any]:
    """The lists of a recogniser that drops the last vowel of a long word."""

    def text_of(text: str) -> str:
        return " ".join(
            re.sub("[aeiou]([^aeiou]*)$", r"\1", word) if len(word) > 5 else word
            for word in text.split()
        )

    return {
        name: {
            key: (
                {**value, "text": text_of(value["text"])}
                if key.startswith("hyp_")
                else value
            )
            for key, value in one.items()
        }
        for name, one in lists.items()
    }


def test_respell(ngram: Golden) -> None:
    for name in ("dev", "test"):
        write_json(ngram.folder / f"{name}.json", misspelled(first(name, 20)))
    respell = (
        "--lm",
        "ngram:lm",
        "--respell",
        "5",
        "--lexicon",
        "models/tta/lexicon.txt.xz",
    )
    ngram.run(
        "test.json",
        "--dev",
        "dev.json",
        *respell,
        "--recombine",
        "2",
        "-o",
        "out.jsonl",
        "--best",
        "best.trn",
        "--save-weights",
        "w.json",
    )
    ngram.data("w.json", *WEIGHTS)
    ngram.lists("out.jsonl")
    ngram.file("best.trn", 5)
    ngram.run("test.json", "--dev", "dev.json", *respell, "--channel", "dev")
    ngram.run(
        "score",
        "test.json",
        *respell,
        "--channel",
        "models/channel",
        "-o",
        "scored.jsonl",
    )
    ngram.lists("scored.jsonl", 2, 5, only="respelled")
    ngram.holds("respell")


TERMS = "steelers\njailers\nbaker\nclowns\nminister\nbeggar\n"


def test_terms(ngram: Golden) -> None:
    """Words of the user: a bonus, their own error rates, and respelling into them."""
    (ngram.folder / "terms.txt").write_text(TERMS, encoding="utf-8")
    metrics = [part for name in ("wer", "bwer", "f1") for part in ("--metric", name)]
    given = (
        "test.json",
        "--lm",
        "ngram:lm",
        "--dev",
        "dev.json",
        "--words",
        "terms.txt",
    )
    ngram.run(*given, "--boost", "20", *metrics, "--best", "best.trn")
    ngram.file("best.trn", 5)
    ngram.run(
        *given,
        "--respell",
        "5",
        "--lexicon",
        "models/tta/lexicon.txt.xz",
        "--metric",
        "wer",
        "-o",
        "out.jsonl",
    )
    ngram.lists("out.jsonl", 1, 2)
    ngram.run("eval", "best.trn", "--ref", "test.json", "--words", "terms.txt")
    ngram.quietly(
        "score",
        "test.json",
        "--lm",
        "ngram:lm",
        "--words",
        "terms.txt",
        "-o",
        "scored.jsonl",
    )
    ngram.lists("scored.jsonl", 2, 1)
    ngram.holds("terms")


def test_correct(golden: Golden) -> None:
    names = "kubectl\nClaude Code\neva => Aoife\nGoldman Sachs\nPostgres\n"
    (golden.folder / "terms.txt").write_text(names, encoding="utf-8")
    heard = (
        "run cube cuttle get pods",
        "ask gold man sacks, then eva",
        "some post gress here",
        "thanks",
    )
    (golden.folder / "talk.trn").write_text(
        "".join(f"{text} (a-{n})\n" for n, text in enumerate(heard)), encoding="utf-8"
    )
    (golden.folder / "talk.srt").write_text(
        "1\n00:00:01,000 --> 00:00:03,000\nask gold man sacks now\n\n2\n00:00:03,000"
        " --> 00:00:04,500\nthanks\n",
        encoding="utf-8",
    )
    golden.run("correct", "talk.trn", "--words", "terms.txt", "--explain", "-")
    golden.run("correct", "talk.trn", "--words", "terms.txt", "--threshold", "0.1")
    golden.run("correct", "talk.srt", "--words", "terms.txt")
    golden.run("correct", "-", "--words", "terms.txt", input="I used cloud code.\n")
    golden.holds("correct")


def other_system(lists: dict[str, Any]) -> dict[str, Any]:
    """The lists of a system that ranks by the number of letters, and has the lower half
    of each list.
    """
    system = {}
    for name, one in lists.items():
        texts = sorted(
            (hypothesis["text"] for hypothesis in hypotheses(one)[5:]),
            key=lambda text: (len(text), text),
        )
        hyps = {
            f"hyp_{rank}": {"score": -2.5 * rank, "text": text}
            for rank, text in enumerate(texts[:8], 1)
        }
        system[name] = {"ref": one["ref"], **hyps}
    return system


def test_systems(ngram: Golden) -> None:
    for name in ("dev", "test"):
        (ngram.folder / "other").mkdir(exist_ok=True)
        write_json(ngram.folder / "other" / f"{name}.json", other_system(first(name)))
        names = ("--name", "ours", "--name", "other")
        ngram.run(
            "combine",
            f"{name}.json",
            f"other/{name}.json",
            *names,
            "-o",
            f"{name}.jsonl",
        )
    ngram.lists("test.jsonl", 1, 7)
    ngram.run("test.jsonl", "--dev", "dev.jsonl", "--decide", "rover")
    ngram.run(
        "test.jsonl", "--lm", "ngram:lm", "--dev", "dev.jsonl", "--best", "best.trn"
    )
    ngram.file("best.trn", 5)
    ngram.holds("systems")


def ctm(lists: dict[str, Any], rank: int, pace: float) -> str:
    """A recording of all utterances, as the hypotheses of one rank have it."""
    words = " ".join(hypotheses(one)[rank]["text"] for one in lists.values()).split()
    return "".join(
        f"talk 1 {place * pace:.2f} {pace * 0.8:.2f} {word}\n"
        for place, word in enumerate(words)
    )


def test_combine(golden: Golden) -> None:
    lists = first("test")
    for name, rank, pace in (("a", 0, 0.4), ("b", 1, 0.41), ("c", 4, 0.4)):
        (golden.folder / f"{name}.ctm").write_text(
            ctm(lists, rank, pace), encoding="utf-8"
        )
    (golden.folder / "talk.txt").write_text(references(lists), encoding="utf-8")
    golden.run(
        "combine", "a.ctm", "b.ctm", "c.ctm", "--ref", "talk.txt", "-o", "l.jsonl"
    )
    golden.lists("l.jsonl", 2)
    golden.run(
        "rerank", "l.jsonl", "--decide", "rover", "--scale", "1", "--best", "equal.ctm"
    )
    golden.file("equal.ctm", 4)
    golden.run("tune", "l.jsonl", "--decide", "rover", "-o", "w.json")
    golden.data("w.json", *WEIGHTS)
    for name in ("ctm", "srt", "vtt", "txt"):
        golden.run("rerank", "l.jsonl", "--weights", "w.json", "--best", f"talk.{name}")
        golden.file(f"talk.{name}", 4)
    golden.run("eval", "talk.ctm", "a.ctm", "--whole", "--ref", "talk.txt")
    golden.holds("combine")


def test_confidence(ngram: Golden) -> None:
    for name in ("dev", "test"):
        ngram.quietly(
            "score", f"{name}.json", "--lm", "ngram:lm", "-o", f"{name}.jsonl"
        )
    ngram.quietly("tune", "dev.jsonl", "-o", "w.json")
    given = ("confidence", "test.jsonl", "--weights", "w.json")
    ngram.run(*given, "--dev", "dev.jsonl", "-o", "words.jsonl")
    ngram.file("words.jsonl", 1)
    ngram.run(*given, "--decide", "mbr", "--scale", "0.05", "-o", "mbr.jsonl")
    segments = "".join(
        f"{name} talk {3 * place:.2f} {3 * place + 2.5:.2f}\n"
        for place, name in enumerate(first("test"))
    )
    (ngram.folder / "segments").write_text(segments, encoding="utf-8")
    ngram.run(*given, "--segments", "segments", "-o", "words.ctm")
    ngram.file("words.ctm", 8)
    ngram.holds("confidence")


def test_compare(ngram: Golden) -> None:
    ngram.hide(r"(?m) +(hyp/s|[\d,]+)( \|)?$", r" SPEED\2")
    ngram.run(
        "compare",
        "test.json",
        "--dev",
        "dev.json",
        "--lm",
        "ngram:lm",
        "--lm",
        "unilm",
        "-o",
        "table.md",
    )
    ngram.file("table.md", 9)
    ngram.holds("compare")


def test_report(ngram: Golden) -> None:
    """Tables of two results files, and a check of one beside the other."""
    run = ("test.json", "--lm", "ngram:lm", "--dev", "dev.json")
    ngram.quietly(*run, "--report", "a.json")
    ngram.quietly(
        *run,
        "--report",
        "b.json",
        "--metric",
        "wer",
        "--decide",
        "mbr",
        "--system",
        "vote",
        "--dataset",
        "dev",
    )
    for style in ("text", "markdown", "csv", "latex"):
        ngram.run("report", "a.json", "b.json", "--style", style)
    ngram.run("report", "a.json", "b.json", "--layout", "paper", "--style", "latex")
    ngram.run("report", "a.json", "b.json", "--layout", "paper", "-o", "table.md")
    ngram.file("table.md")
    ngram.run("check", "a.json", "--golden", "a.json")
    ngram.run("check", "a.json", "--golden", "b.json", status=1)
    ngram.holds("report")


CONFIG = {"layers": 2, "d_model": 32, "heads": 2, "d_ff": 64, "max_positions": 64}
TINY = (
    "--config",
    "small.json",
    "--steps",
    "3",
    "--precision",
    "float32",
    "--device",
    "cpu",
    "--batch-tokens",
    "512",
    "--out",
    "lm",
)
TEXT = ("--text", "data/sentences.txt", "--size", "400")
PAIRS = ("--pairs", "source.txt", "data/sentences.txt", "--size", "400")
TRAINED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(
        ("tta", "bilm", "unilm", "unilm-bw", "lstm", "lstm-bw"), (TEXT, ())
    ),
    "tta-pairs": (PAIRS, ()),
    "bilm-pairs": (PAIRS, ()),
    "unified": (PAIRS, ("bi", "l2r", "r2l", "seq2seq", "channel", "bi:source")),
}
"""Options of a training, and the readings of its network."""


@pytest.mark.parametrize("name", TRAINED)
def test_train(golden: Golden, name: str) -> None:
    """Three steps of a small network, and its scores."""
    kind = name if name.endswith("-bw") else name.split("-")[0]
    options, readings = TRAINED[name]
    write_json(golden.folder / "small.json", CONFIG)
    (golden.folder / "source.txt").write_text(
        "\n".join(map(backwards, SENTENCES)), encoding="utf-8"
    )
    golden.hide(r"(validation loss \d+\.\d{3})\d", r"\1")
    golden.hide(r"(?m)(perplexity.*) \d\S+$", r"\1 OF THE LOSS")
    golden.hide(r"@\w{12}", "@TRAINED")
    golden.run("train", "--lm", kind, *options, *TINY)
    lists = {
        name: {**one, "src": backwards(one["ref"])}
        for name, one in first("test", 3).items()
    }
    write_json(golden.folder / "few.json", lists)
    lms = [
        part
        for reading in readings or ("",)
        for part in ("--lm", ":".join(filter(None, (kind, reading, "lm"))))
    ]
    golden.run("score", "few.json", *lms, "-o", "out.jsonl")
    golden.lists("out.jsonl", 1, 2)
    golden.holds(f"train/{name}")


def test_train_channel(golden: Golden) -> None:
    write_json(golden.folder / "lists.json", misspelled(first("dev")))
    golden.run("train", "--lm", "channel", "--text", "lists.json", "--out", "channel")
    golden.add(
        "channel.json",
        (golden.folder / "channel" / "channel.json").read_text(encoding="utf-8")[:300],
    )
    golden.holds("train/channel")


MODELS = ("tta", "tta-small", "bilm", "bilm:intact", "unilm", "unilm-bw")


@pytest.mark.parametrize("model", MODELS)
def test_cards(golden: Golden, model: str) -> None:
    """Scores of twenty sentences, and perplexities, by each shipped model."""
    (golden.folder / "twenty.txt").write_text(
        "\n".join(SENTENCES[::12]) + "\n", encoding="utf-8"
    )
    golden.run(
        "score", "--text", "twenty.txt", "--lm", model, "--tokens", "tokens.jsonl"
    )
    rows = map(
        json.loads,
        (golden.folder / "tokens.jsonl").read_text(encoding="utf-8").splitlines(),
    )
    golden.add(
        "sums",
        "\n".join(
            f"{sum(row['log_probs']):.3f} of {len(row['tokens'])} tokens"
            for row in rows
        ),
    )
    golden.holds(f"cards/{model.replace(':', '-')}")


def test_page(ngram: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the HTML page."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the day in the page
    ngram.quietly(
        "test.json", "--lm", "ngram:lm", "--dev", "dev.json", "--html", "page.html"
    )
    page = (ngram.folder / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", page)
    lines = (
        line.strip()
        for line in html.unescape(re.sub(r"<[^>]*>", "\n", page)).splitlines()
    )
    ngram.add("page.html", "\n".join(list(filter(None, lines))[:45]))
    ngram.holds("page")


def test_python(ngram: Golden) -> None:
    """The same from Python."""
    dev, test = (
        rescore.score(rescore.read(f"{name}.json"), "ngram:lm")
        for name in ("dev", "test")
    )
    weights = rescore.tune(dev)
    results = rescore.evaluate(test, weights)
    ngram.add(
        "weights",
        json.dumps({name: f6(value) for name, value in weights.weights.items()}),
    )
    ngram.add(
        "results",
        f"{results.first_pass:.4f} {results.oracle:.4f} {results.reranked:.4f}",
    )
    ngram.add("signature", results.signature)
    rescorer = rescore.Rescorer("ngram:lm", weights)
    ngram.add(
        "choose",
        rescorer.choose(
            ["he count the coins twice", "he counted the coins twice"]
        ).text,
    )
    ngram.add(
        "wer",
        f"{rescore.wer('a b c', 'a x c'):.3f} {rescore.cer('a b c', 'a x c'):.3f}",
    )
    ngram.holds("python")


def test_service(ngram: Golden) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import serving

    lists = [
        {
            "id": name,
            "hyps": [
                {"text": one["text"], "score": one["score"]}
                for one in hypotheses(lists)[:3]
            ],
        }
        for name, lists in first("test", 1).items()
    ]
    weights = {"s2s": 0.2, "ngram": 0.8}
    ngram.hide(r'"version": "[^"]*"', '"version": VERSION')
    with serving(rescore.Rescorer("ngram:lm", weights)) as client:
        bodies: list[Any] = [
            lists,
            {"hyps": [{"text": "the old clock"}, {"text": "an old clock"}]},
            {"hyps": []},
        ]
        for body in bodies:
            status, answer = client.rescore(body)
            ngram.add(
                f"answer: {status}",
                "\n".join(
                    map(json.dumps, answer if isinstance(answer, list) else [answer])
                ),
            )
        status, text, _ = client.ask("GET", "/health")
        ngram.add(f"health: {status}", text)
    with serving(
        rescore.Rescorer(
            "ngram:lm", weights, rescore.RunConfig(decide="mbr", scale=0.05)
        )
    ) as client:
        ngram.add(
            "mbr", json.dumps([answer["text"] for answer in client.rescore(lists)[1]])
        )
    ngram.holds("service")


def test_vectors(golden: Golden) -> None:
    pairs = [
        f"{rank}\t{SENTENCES[rank]}\t{SENTENCES[rank // 2]}\n" for rank in range(8)
    ]
    (golden.folder / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    golden.run("similarity", "pairs.tsv", "--lm", "tta-small", "--lm", "unilm")
    golden.holds("vectors")
