"""Law: every option of every command changes what the command prints or writes, or an
error names the option.

`SCENARIOS` has for each option a command line without the option, and the option. A new
option without a scenario fails, and so does a new command without a `BASES` entry.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import wave
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from starlette.testclient import TestClient

from rescore import formats
from rescore.asr.systems import combined
from rescore.cli.bridge import PARTS, entry_of
from rescore.cli.main import COMMANDS
from rescore.cli.train import trained_kinds
from rescore.config import RunConfig
from rescore.errors import OptionError, UserError
from rescore.formats import reading
from rescore.formats.source import InputWarnings, ReadOptions
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.lexicon import Lexicon
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.metrics import METRICS, MetricOptions, Normaliser, significance
from rescore.metrics.normalise import FLAGS
from rescore.metrics.replacements import Replacements
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.option_readers import options_of
from rescore.options import flattened
from rescore.parts import FORMATS
from rescore.plan import resolve
from rescore.research import correlation, similarity
from rescore.service import app as service
from rescore.values import kind_of
from tests import stand_ins, test_roads
from tests.conftest import SENTENCES, TINY, Done, parameters_of, run_main

# --- the files of the scenarios ------------------------------------------------------

FAR = {
    "hyps": [
        {"text": text}
        for text in ("\u4e5d", "\u56db\u4e94\u516d\u4e03", "\u56db\u4e94\u516d\u516b")
    ]
}
"""Texts without blanks: equally far by words, not by characters."""
POINTED = {
    "hyps": [{"text": text} for text in ("\u0645\u064e", "\u0645 q", "\u0645 z")]
}
DOTLESS = {"hyps": [{"text": text} for text in ("I", "\u0131 q", "\u0131 z")]}
"""The first text is nearest, if its letter is that of the others."""
ALIKE = {
    "A b": "a b",
    "x-y z": "x y z",
    "its, b": "its b",
    "it's b": "its b",
    "b <unk>": "b",
    "\uff46 b": "f b",
    "um colour b": "color b",
    "\u56db\u4e94 b": "\u56db \u4e94 b",
    "1,000 b": "1000 b",
    "twenty two b": "22 b",
    "qq b": "b",
    "\u0645\u064e b": "\u0645 b",
    "I b": "\u0131 b",
    "zz b": "b",
    "a b": "ab",
}
"""Texts that some options make the same."""
WRONG = "b a a a b b b"
RIGHT = "b b b c c c b"
"""The alignment decides how many errors a text has."""
FIRST = "Um A a-b it's c 7 \uff46 <unk> \u56db\u4e94"
REQUEST = {
    "hyps": [
        {"text": FIRST, "score": -1, "scores": {"lm": -4}},
        {
            "text": "um a a b its c seven <unk> f \u0645 \u0131",
            "score": -1.5,
            "scores": {"lm": -1},
        },
        {"text": "A a b it's d c \u56db\u56db", "score": -1.6, "scores": {"lm": -1}},
        {"text": "a b its c \u56db \u4e94", "score": -1.6, "scores": {"lm": -1}},
        {"text": "A a b its c,", "score": -1.7, "scores": {"lm": -1}},
        {"text": FIRST.replace("\uff46", "f"), "score": -2, "scores": {"lm": -1}},
        {"text": "gold man sacks", "score": -3, "scores": {"lm": -1}},
    ]
}
MARKS = (
    "Um well-known it's, <unk> \u56db \uff46\uff55\uff4c\uff4c gold man sacks 7 A"
    " \u0645\u064e I"
)
VARIED = (
    ("it's", "its"),
    ("sacks", "sacks,"),
    ("7", "seven"),
    ("\u064e", ""),
    ("I", "\u0131"),
    ("\u56db", "\u56db\u56db"),
)
SAID = "well known its \u56db full goldman sachs seven a \u0645 \u0131"


def lists(number: int, seed: int) -> list[NbestList]:
    """Lists on which each option changes something."""
    made = test_roads.lists(test_roads.Feature("", parts=True), number, seed)
    for place, nbest in enumerate(made):
        nbest.id = f"{nbest.id[0]}-{nbest.id[1:]}"
        nbest.references = (f"{nbest.references[0]} {SAID}",)
        nbest.recording = nbest.id[0]
        for rank, one in enumerate(nbest.hypotheses):
            marks = MARKS.split()
            del marks[(place + rank) % len(marks)]
            said = " ".join(marks)
            if (rank + place) % 2:
                for old, new in VARIED:
                    said = said.replace(old, new)
            one.text = f"{one.text} {said}"
            one.scores["lm"] = -float(one.text.count("x")) - 0.1 * rank
            one.scores["worse"] = float(one.text.count("x"))
    return made


def write_files() -> None:
    """Write the inputs of all scenarios into the working folder."""
    test_roads._models(Path())
    text = Path.write_text
    for name, seed in (("dev", 1), ("test", 2)):
        some = lists(6, seed)
        formats.write(some, f"{name}.jsonl")
        text(Path(f"{name}.ref"), "".join(f"{one.id} x y\n" for one in some))
        text(Path(f"{name}.src"), "".join(f"{one.id} s t\n" for one in some))
        text(Path(f"{name}.scp"), "".join(f"{one.id} a.wav\n" for one in some))
        text(Path(f"{name}.rec"), "".join(f"{one.id} r{one.id}\n" for one in some))
        text(Path(f"{name}.seg"), "".join(f"{one.id} R{one.id} 1 9\n" for one in some))
        plain = [
            f"{one.id} {one.hypotheses[0].text.replace('<unk> ', '')}" for one in some
        ]
        text(Path(f"{name}.txt"), "\n".join([*plain, ""]))
        other = [f"{one.id} {one.hypotheses[1].text}" for one in some]
        text(Path(f"{name}.2.txt"), "\n".join([*other, ""]))
    seed = lists(6, 2)
    for nbest in seed:
        del nbest.hypotheses[0]
        for one in nbest.hypotheses:
            one.scores["s2s"] += 0.5
    formats.write(seed, "seed.jsonl")
    with wave.open("a.wav", "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(bytes(32000))
    text(Path("rules"), ",\t\nqq\t\n")
    text(Path("words"), "b\nd\nGoldman Sachs\n")
    names = [*"abcdxy", "well", "known", "its", "gold", "man", "sacks", "um", "full"]
    Lexicon(dict.fromkeys(names, 100), 10_000).save(Path("lexicon.xz"))
    rows = ["id,hyp,cost,lm,ref"]
    rows += [f"u{n},a b,{n},-1,a c\nu{n},a c,{9 - n},-2,a c" for n in range(3)]
    for place, texts in enumerate((ALIKE.keys(), ALIKE.values()), 1):
        alike = [f"u{number} {said}\n" for number, said in enumerate(texts)]
        text(Path(f"alike.{place}"), "".join(alike))
    text(Path("alike.more"), "".join([*alike, "zz a\n"]))
    marks = []
    for number, (one, other) in enumerate(ALIKE.items()):
        hypothesis = Hypothesis(one, {"s2s": -1.0})
        marks.append(NbestList(f"u{number}", [hypothesis], (other,)))
    formats.write(marks, "marks.jsonl")
    aligned = lists(6, 4)
    aligned[0].hypotheses[0].text = WRONG
    aligned[0].hypotheses[0].scores["s2s"] = 9.0
    aligned[0].references = (RIGHT,)
    formats.write(aligned, "aligned.jsonl")
    text(Path("t.csv"), "\n".join([*rows, ""]))
    text(Path("mine.toml"), 'results = "said[]"\ntext = "other"\n')
    said = [{"id": "u", "text": "a b", "other": "a c", "ref": "a b"}]
    text(Path("said.json"), json.dumps({"said": said}))
    text(Path("crlf.jsonl"), Path("test.jsonl").read_text().replace("\n", "\r\n"))
    text(Path("crlf.txt"), Path("test.txt").read_text().replace("\n", "\r\n"))
    some_lines = Path("test.ref").read_text().splitlines(keepends=True)
    text(Path("few.ref"), "".join(some_lines[:4]))
    text(Path("more.ref"), Path("test.ref").read_text() + "zz a b\n")
    moses = [
        NbestList(name, [Hypothesis(said, {"s2s": -1.0})])
        for name, said in (("u1", "a b &apos;s c ."), ("u2", "it &apos;s d ."))
    ]
    formats.write(moses, "moses.jsonl")
    text(Path("text"), "\n".join([*SENTENCES[:24], ""]))
    rows = [f"{SENTENCES[n]}\t{SENTENCES[n + 1]}" for n in range(6)]
    golds = [2, 3, 1, 5, 4, 0]
    text(Path("pairs"), "\n".join([*rows, ""]))
    text(Path("golds"), "".join(f"{gold}\n" for gold in golds))
    scored = [f"{gold}\t{row}" for row, gold in zip(rows, golds, strict=True)]
    text(Path("pairs.tsv"), "\n".join([*scored, ""]))
    Path("empty").mkdir()
    raw = lists(6, 3)
    for nbest in raw:
        for one in nbest.hypotheses:
            one.scores = {"s2s": one.scores["s2s"]}
        nbest.header = Header()
    formats.write(raw, "raw.jsonl")
    text(Path("extra.json"), '{"weights": {"s2s": 0.7, "extra": 0.3}}')
    for name in ("raw", "test"):
        lines = ["id,rank,extra"]
        for nbest in formats.read([f"{name}.jsonl"]):
            for rank, one in enumerate(nbest.hypotheses, 1):
                lines.append(f"{nbest.id},{rank},{-one.text.count('x')}")
        text(Path(f"{name}.more.csv"), "\n".join([*lines, ""]))
    systems = {}
    for place, name in enumerate("abc"):
        own = []
        for number in range(8):
            said = ["a", "b", "c", "d", "e", "f"]
            if (number + place) % 4 < place + 1:
                said[(number + 2 * place) % 6] = name
            own.append(
                NbestList(f"u{number}", [Hypothesis(" ".join(said), {"s2s": 0})])
            )
        systems[name] = own
    formats.write(combined(systems), "votes.jsonl")
    long = []
    for number in range(8):
        said = ["a", "b", "c", "d"][: 2 + number % 3]
        hypotheses = [Hypothesis(" ".join(said[:-1]), {"s2s": -1.0})]
        hypotheses.append(Hypothesis(" ".join(said), {"s2s": -9.0}))
        long.append(NbestList(f"u{number}", hypotheses, (" ".join(said),)))
    formats.write(long, "long.jsonl")
    text(Path("case.txt"), "u1 a goldman sachs\nu2 b\n")
    text(Path("named.txt"), "gold man sacks\nblue b c\n")
    text(Path("lines2"), "a b\nc d e\n")
    text(Path("lines2b"), "a c\nc d e\n")
    text(Path("lines3"), "a\nb c\nd e\n")
    for name, said in (("hyps", "a b\nc d\n"), ("refs", "a\nb c\n")):
        Path(name).mkdir()
        text(Path(name) / "talk.txt", said)
    text(Path("two.csv"), "id,hyp,other\nu1,a b,a c\nu2,b,c\n")
    text(Path("alone.jsonl"), '{"id": "u1", "text": "a b", "ref": "a c"}\n')
    (Path("other") / "one").mkdir(parents=True)
    text(Path("other/one/lm.arpa"), test_roads.arpa(0.7))


def write_models() -> None:
    """Write two small networks."""
    tokenizer = train_wordpiece(SENTENCES, 200)
    for name, kind in (("tiny", "tta"), ("tiny2", "unilm")):
        torch.manual_seed(1)
        size = {key: TINY[key] for key in TINY if key != "vocab_size"}
        config = NetworkConfig(kind, tokenizer.vocab_size, **size)
        checkpoint.save(Path(name), checkpoint.build(config), tokenizer)


class OneRequest:
    """A server that answers one request, prints the answer, and ends."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def run(self, sockets: Any) -> None:
        with TestClient(self.app) as client:
            for request in (REQUEST, FAR, POINTED, DOTLESS):
                click.echo(client.post("/rescore", json=request).text)


PREPARING = (
    "tune dev.jsonl --column lm --no-bagging -o w.json",
    "score dev.jsonl --lm ngram:one -o scored.jsonl",
    "tune scored.jsonl --column ngram --no-bagging -o lm.json",
    "score dev.jsonl --lm tta:tiny --count-tokens -o counted.jsonl",
    "rerank test.jsonl --weights w.json --report results.json",
    "rerank test.jsonl --report better.json",
    "tune raw.jsonl --decide mbr -o plain.json",
    "score dev.jsonl --lm ngram:other/one -o forced.jsonl",
    "run test.jsonl --dev dev.jsonl --lm ngram:one --report run.json",
    "eval test.txt test.2.txt --ref test.ref --report outputs.json",
    "combine alike.1 alike.2 --ref alike.2 -o together.jsonl",
    "run together.jsonl --report together.json",
)
"""Command lines that write files for the scenarios."""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the inputs, in which commands run; their outputs are removed."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("options")
        patch.chdir(place)
        stand_ins.install(patch)
        test_roads.fewer_samples(patch)
        patch.setattr(significance, "SAMPLES", 40)
        for module in (correlation, similarity):
            patch.setattr(module, "TRIALS", 40)
        patch.setattr("rescore.pace.FIRST", float("inf"))
        patch.setattr(service, "server", OneRequest)
        write_files()
        write_models()
        for line in PREPARING:
            done = run_main(*shlex.split(line))
            assert done.returncode == 0, done.stderr
        yield place


# --- scenarios -----------------------------------------------------------------------

BASES = {
    "run": "test.jsonl",
    "score": "test.jsonl --lm ngram:one",
    "tune": "dev.jsonl --column lm --no-bagging",
    "rerank": "test.jsonl --weights w.json --report r.json",
    "confidence": "test.jsonl --weights w.json -o c.jsonl",
    "eval": "test.jsonl",
    "analyse": "test.jsonl --weights w.json",
    "compare": "test.jsonl --dev dev.jsonl --lm ngram:one --no-bagging",
    "serve": "",
    "combine": "alike.1 alike.2",
    "convert": "test.jsonl",
    "errors": "test.jsonl",
    "correlate": "test.jsonl --lm ngram:one -o x.json",
    "correct": "test.txt --words words",
    "report": "results.json",
    "check": "results.json --golden results.json",
    "recipe": "",
    "models": "",
    "init": "empty",
    "embed": "text --lm tta:tiny -o v.npy",
    "similarity": "pairs.tsv --lm tta:tiny",
    "probe": "order text --lm tta:tiny --examples 12",
    "accuracy": "text --lm tta:tiny",
    "bench": "text --lm tta:tiny --sentences 1 --repeats 1 --lengths 5",
    "frequencies": "text --corpus text --lm ngram:one",
}
"""A command line of each command to which options are added. `train` has a law of its
own.
"""


def expanding(beside: str, option: str) -> dict[str, str]:
    """The scenarios of an option about new hypotheses."""
    line = f"{beside} | {option}"
    return {
        "*": f"! raw.jsonl -o x.jsonl {line}",
        "run": f"! raw.jsonl --dev raw.jsonl {line}",
        "score": f"! raw.jsonl --lm ngram:one {line}",
        "compare": f"! raw.jsonl --dev raw.jsonl --lm ngram:one --no-bagging {line}",
        "convert": f"! raw.jsonl {line}",
        "serve": line,
        "errors": f"! raw.jsonl --weights plain.json {line}",
    }


SCENARIOS: dict[str, dict[str, str]] = {
    # language models
    "--lm": {
        "*": "! text -o v.npy | --lm tta:tiny",
        "run": "| --lm ngram:one",
        "score": "! test.jsonl | --lm ngram:one",
        "compare": "| --lm ngram:two",
        "serve": "--weights lm.json | --lm ngram:one",
        "correlate": "| --lm tta:tiny",
        "similarity": "! pairs.tsv | --lm tta:tiny",
        "probe": "! order text --examples 12 | --lm tta:tiny",
        "accuracy": "| --lm unilm:tiny2",
        "bench": "| --lm unilm:tiny2",
        "frequencies": "| --lm ngram:two",
    },
    "--device": {"*": "| --device nonsense", "run": "--lm ngram:one | --device x"},
    "--precision": {"*": "| --precision x"},
    "--batch-tokens": {"*": "| --batch-tokens 0"},
    "--prompt": {"*": "| --prompt {text}"},
    "--cache": {
        "*": "| --cache kept",
        "run": "--lm ngram:one | --cache kept",
        "serve": "--weights lm.json --lm ngram:one | --cache kept",
    },
    "--engine": {"*": "| --engine nonsense"},
    "--workers": {"*": "| --workers 2"},
    # lists to tune on
    "--dev": {
        "*": "| --dev dev.jsonl",
        "run": "--lm ngram:one | --dev dev.jsonl",
        "compare": "! test.jsonl --lm ngram:one | --dev dev.jsonl",
        "report": "! run.json | --dev",
    },
    "--dev-ref": {
        "*": "--dev dev.jsonl | --dev-ref dev.ref",
        "run": "--lm ngram:one --dev dev.jsonl | --dev-ref dev.ref",
        "compare": "| --dev-ref dev.ref",
    },
    "--dev-src": {
        "*": "--dev dev.jsonl | --dev-src absent",
        "compare": "| --dev-src absent",
    },
    # weights
    "--lm-norm": {"*": "| --lm-norm mean", "run": "--lm ngram:one | --lm-norm mean"},
    "--weight": {"*": "--lm ngram:one | --weight 0.9"},
    "--word-bonus": {
        "*": "| --word-bonus",
        "compare": "! long.jsonl --dev long.jsonl --lm ngram:one | --word-bonus",
        "run": "--lm ngram:one --dev dev.jsonl | --word-bonus 5",
    },
    "--token-bonus": {
        "*": "! counted.jsonl --column tta --no-bagging | --token-bonus",
        "run": "--lm tta:tiny --dev dev.jsonl --no-bagging | --token-bonus 2",
        "compare": (
            "! test.jsonl --dev raw.jsonl --lm tta:tiny --no-bagging | --token-bonus"
        ),
    },
    "--boost": {
        "*": "--words words | --boost 2",
        "run": "--words words --dev dev.jsonl --components | --boost 2",
    },
    "--folds": {"*": "--lm ngram:one | --folds 2"},
    "--speaker": {
        "*": "| --speaker ^(.)",
        "rerank": "--by-speaker | --speaker ([0-9])$",
        "run": (
            "--lm ngram:one --no-bagging --folds 2 --save-weights s.json"
            " | --speaker ^(.)"
        ),
    },
    "--no-bagging": {
        "*": "--components --dev dev.jsonl | --no-bagging",
        "tune": "! dev.jsonl --column lm | --no-bagging",
        "compare": "! test.jsonl --dev dev.jsonl --lm ngram:one | --no-bagging",
    },
    "--allow-negative": {
        "*": "--lm ngram:one --dev dev.jsonl --no-bagging | --allow-negative ngram.one",
        "tune": "--column worse | --allow-negative worse",
    },
    "--components": {"*": "| --components", "run": "--dev dev.jsonl | --components"},
    # new hypotheses
    "--recombine": {
        "*": "! raw.jsonl -o x.jsonl | --recombine 3",
        "run": "! raw.jsonl --lm ngram:one --weight 0.5 -o x.jsonl | --recombine 3",
        "score": "! raw.jsonl --lm ngram:one | --recombine 3",
        "tune": "! raw.jsonl --decide mbr | --recombine 3",
        "compare": "! raw.jsonl --dev raw.jsonl --lm ngram:one | --recombine 3",
        "convert": "! raw.jsonl | --recombine 3",
        "serve": "| --recombine 3",
        "errors": "! raw.jsonl --weights plain.json | --recombine 3",
    },
    "--respell": expanding("--channel shipped --lexicon lexicon.xz", "--respell 3"),
    "--channel": expanding("--respell 3 --lexicon lexicon.xz", "--channel absent"),
    "--lexicon": {  # without it, the shipped lexicon of 150,000 words is read
        "*": "| --lexicon lexicon.xz",
        "convert": "! raw.jsonl --respell 3 --channel shipped | --lexicon lexicon.xz",
    },
    # the decision
    "--decide": {
        "*": "| --decide rover --scale 1",
        "errors": "--weights w.json | --decide mbr --scale 0",
    },
    "--scale": {
        "*": "--decide mbr --scale 9 | --scale 0.1",
        "errors": "--weights w.json --decide mbr --scale 9 | --scale 0.1",
    },
    "--no-word": {
        "*": "--decide rover --scale 0.5 | --no-word 9",
        "errors": "--weights w.json --decide rover --scale 0.5 | --no-word 9",
    },
    "--votes": {"*": "! votes.jsonl --decide rover -o x.jsonl | --votes equal"},
    # what is measured
    "--metric": {
        "*": "| --metric cer",
        "combine": "| --metric bleu",
        "serve": "--decide mbr --scale 0 | --metric cer",
        "confidence": "| --metric bleu",
    },
    "--case-sensitive": {"*": "| --case-sensitive"},
    "--split-hyphens": {"*": "| --split-hyphens"},
    "--drop-punctuation": {"*": "| --drop-punctuation"},
    "--drop-apostrophes": {
        "*": "| --drop-apostrophes",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --drop-apostrophes",
    },
    "--drop-unknown": {"*": "| --drop-unknown"},
    "--whisper-english": {"*": "| --whisper-english"},
    "--whisper-basic": {"*": "| --whisper-basic"},
    "--open-asr": {"*": "| --open-asr en"},
    "--unicode-basic": {"*": "| --unicode-basic"},
    "--numbers": {"*": "| --numbers en"},
    "--nfkc": {"*": "| --nfkc"},
    "--language": {
        "*": "| --language tr",
        "serve": "--decide mbr --scale 0 | --language tr",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --language tr",
    },
    "--drop-marks": {
        "*": "| --drop-marks",
        "serve": "--decide mbr --scale 0 | --drop-marks",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --drop-marks",
    },
    "--replace": {
        "*": "| --replace rules",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --replace rules",
    },
    "--answer": {
        "*": "| --answer [a-z]+",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --answer [a-z]+",
    },
    "--step": {
        "*": "| --step awake",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --step awake",
    },
    "--split-characters": {"*": "| --split-characters"},
    "--split-mixed": {
        "*": "| --split-mixed",
        "correlate": "! marks.jsonl --lm ngram:one -o x.json | --split-mixed",
    },
    "--align": {
        "*": "| --align jiwer",
        "correlate": "! aligned.jsonl --lm ngram:one -o x.json | --align jiwer",
    },
    "--words": {
        "*": "| --words words",
        "score": (
            "! raw.jsonl --lm ngram:one --respell 3 --channel shipped"
            " --lexicon lexicon.xz | --words words"
        ),
        "analyse": "--metric bwer | --words words",
        "correlate": "--metric bwer | --words words",
        "correct": "! test.txt | --words words",
    },
    "--tokenize": {
        "*": "--metric bleu | --tokenize char",
        "serve": "--metric bleu --decide mbr --scale 0 | --tokenize char",
        "analyse": "--metric bleu | --tokenize char",
        "correlate": "| --tokenize char",
    },
    "--collar": {"*": "| --collar 2"},  # acts in tests/asr/test_sessions.py
    "--comet-model": {
        "*": "--metric bleu --metric comet --src test.src | --comet-model d",
        "tune": "--metric bleu --src dev.src | --comet-model d",
        "serve": "| --comet-model d",
        "compare": "--metric bleu --src test.src | --comet-model d",
        "analyse": "--src test.src --metric comet | --comet-model d",
        "correlate": "| --comet-model d",
    },
    # what is written
    "--details": {"*": "| --details d.tsv"},
    "--output": {
        "*": "| -o out.json",
        "tune": "| -o x.json",
        "combine": "| -o x.jsonl",
        "confidence": "! test.jsonl --weights w.json | -o c.jsonl",
        "embed": "! text --lm tta:tiny | -o v.npy",
        "report": "| -o t.md",
        "correct": "| -o c.txt",
    },
    "--best": {"*": "| --best out.trn"},
    "--segments": {
        "*": "--best out.ctm | --segments test.seg",
        "confidence": "! test.jsonl --weights w.json -o c.ctm | --segments test.seg",
    },
    "--save-weights": {"*": "| --save-weights s.json"},
    "--html": {"*": "| --html o.html"},
    "--report": {"*": "| --report o.json", "rerank": "! test.jsonl | --report o.json"},
    "--table": {"*": "| --table o.md"},
    "--dataset": {"*": "--table o.md | --dataset NAME"},
    "--system": {"*": "--table o.md | --system NAME"},
    "--curve": {"*": "| --curve c.csv"},
    "--detokenize": {
        "*": "! moses.jsonl --best x.txt | --detokenize en",
        "convert": "! moses.jsonl | --detokenize en",
        "combine": "! moses.jsonl moses.jsonl --name a --name b | --detokenize en",
    },
    "--nbest": {"*": "-o x.jsonl | --nbest 1"},
    "--explain": {"*": "--threshold 0 | --explain e.txt"},
    "--style": {"*": "| --style markdown"},
    "--layout": {"*": "| --layout long"},
    "--intervals": {"*": "| --intervals"},
    "--systems": {"*": "! together.json | --no-systems"},
    "--oracle": {"*": "| --no-oracle", "report": "| --oracle"},
    "--plot": {"*": "| --plot p.svg"},
    "--to": {"*": "| --to csv"},
    # how lists are read
    "--ref": {
        "*": "| --ref test.ref",
        "tune": "| --ref dev.ref",
        "combine": "| --ref alike.1",
    },
    "--src": {
        "*": "| --src test.src",
        "tune": "| --src dev.src",
        "combine": "| --src alike.1",
        "rerank": "! test.jsonl --report r.json | --src test.src",
        "analyse": "! test.jsonl | --src test.src",
        "confidence": "| --src absent",
        "errors": "| --src absent",
        "correlate": "| --src absent",
    },
    "--allow-missing": {
        "combine": "--ref alike.more | --allow-missing",
        "*": "--ref more.ref | --allow-missing",
        "tune": (
            "! test.jsonl --column lm --no-bagging --ref more.ref | --allow-missing"
        ),
    },
    "--ref-format": {
        "*": "--ref test.ref | --ref-format plain",
        "confidence": "--ref test.ref | --ref-format trn",
        "combine": "--ref alike.1 | --ref-format trn",
    },
    "--format": {
        "*": "| --format sockeye",
        "correct": "! named.txt --words words | --format kaldi",
        "combine": "| --format sockeye",
    },
    "--s2s": {"*": "| --s2s lm", "combine": "| --s2s lm"},
    "--scores": {
        "*": "-o x.jsonl | --scores test.more.csv",
        "score": "| --scores test.more.csv",
        "tune": "! raw.jsonl --decide mbr | --scores raw.more.csv",
        "analyse": "! test.jsonl --weights extra.json | --scores test.more.csv",
        "convert": "| --scores test.more.csv",
        "confidence": (
            "! test.jsonl --weights extra.json -o c.jsonl | --scores test.more.csv"
        ),
    },
    "--dev-scores": {
        "*": "--dev dev.jsonl | --dev-scores absent",
        "run": "--dev raw.jsonl | --dev-scores raw.more.csv",
    },
    "--merge": {
        "*": "! test.jsonl seed.jsonl | --merge",
        "score": "! test.jsonl seed.jsonl --lm ngram:one | --merge",
        "tune": "! test.jsonl seed.jsonl --column lm --no-bagging | --merge",
        "rerank": "! test.jsonl seed.jsonl --weights w.json | --merge",
        "confidence": ("! test.jsonl seed.jsonl --weights w.json -o c.jsonl | --merge"),
        "analyse": "! test.jsonl seed.jsonl --weights w.json | --merge",
        "compare": ("! test.jsonl seed.jsonl --dev dev.jsonl --lm ngram:one | --merge"),
        "correlate": "! test.jsonl seed.jsonl --lm ngram:one -o x.json | --merge",
    },
    "--group-ids": {"*": "| --group-ids (.).*"},
    "--acoustic-scale": {"*": "| --acoustic-scale 2"},
    "--nbest-size": {"*": "| --nbest-size 2"},
    "--lenpen": {"*": "| --lenpen 2"},
    "--field": {
        "*": "! t.csv | --field score=-cost",
        "score": "! t.csv --lm ngram:one | --field score=-cost",
        "tune": "! t.csv --column lm --no-bagging | --field score=-cost",
        "rerank": "! t.csv --report r.json | --field score=-cost",
        "confidence": "! t.csv -o c.jsonl | --field score=-cost",
        "compare": (
            "! t.csv --dev t.csv --lm ngram:one --no-bagging | --field score=-cost"
        ),
        "combine": "! two.csv --field system=hyp | --field system=other",
        "correlate": "! t.csv --lm ngram:one | --field score=-cost",
    },
    "--ref-text": {"*": "| --ref-text said.txt"},
    "--shape": {
        "*": "| --shape mine.toml",
        "convert": "! said.json | --shape mine.toml",
    },
    "--recordings": {
        "*": "-o x.jsonl | --recordings test.rec",
        "compare": "| --recordings test.rec",
        "errors": "| --recordings test.rec",
        "combine": "| --recordings absent",
        "convert": "| --recordings test.rec",
        "correlate": "| --recordings test.rec",
    },
    "--audio": {
        "combine": "| --audio absent",
        "convert": "| --audio test.scp",
        "*": "-o x.jsonl | --audio test.scp",
        "compare": "| --audio test.scp",
        "correlate": "| --audio test.scp",
        "serve": "| --audio absent",
    },
    "--strict": {
        "*": "! crlf.jsonl | --strict",
        "score": "! crlf.jsonl --lm ngram:one | --strict",
        "confidence": "! crlf.jsonl -o c.jsonl | --strict",
        "tune": "! crlf.jsonl --column lm --no-bagging | --strict",
        "compare": "! crlf.jsonl --dev dev.jsonl --lm ngram:one | --strict",
        "correlate": "! crlf.jsonl --lm ngram:one | --strict",
        "combine": "! crlf.txt test.2.txt | --strict",
    },
    # single commands
    "--text": {"*": "! --lm ngram:one | --text text"},
    "--tokens": {
        "*": "| --tokens t.jsonl",
        "embed": "! text --lm tta:tiny -o v.jsonl | --tokens",
    },
    "--count-tokens": {"*": "| --count-tokens"},
    "--column": {"*": "! dev.jsonl --no-bagging | --column worse"},
    "--weights": {
        "*": "! test.jsonl | --weights w.json",
        "confidence": "! test.jsonl -o c.jsonl | --weights w.json",
        "serve": "| --weights plain.json",
    },
    "--force-weights": {
        "*": "! forced.jsonl --weights lm.json | --force-weights",
        "confidence": "! forced.jsonl -o c.jsonl --weights lm.json | --force-weights",
        "serve": "--lm ngram:other/one --weights lm.json | --force-weights",
    },
    "--against": {"*": "| --against 'ngram:one'"},
    "--vary": {"*": "--decide mbr --no-bagging | --vary scale=0.1,9"},
    "--threshold": {"*": "| --threshold 1"},
    "--case": {"*": "! case.txt --words words | --no-case"},
    "--whole": {
        "*": "! hyps --ref refs | --whole",
        "combine": "! lines2 lines2b | --whole",
    },
    "--test": {
        "*": "! test.txt test.2.txt --ref test.ref | --test mapsswe",
        "compare": "| --test mapsswe",
    },
    "--by-speaker": {"*": "| --by-speaker"},
    "--by": {
        "*": "| --by ^(.)",
        "combine": "! alike.1 alike.2 --ref alike.2 -o x.jsonl | --by (.)$",
    },
    "--golden": {"*": "! results.json | --golden results.json"},
    "--tolerance": {"*": "! results.json --golden better.json | --tolerance 99"},
    "--renamed": {
        "*": "! outputs.json --golden outputs.json"
        " | --renamed test.txt=test.2.txt --renamed test.2.txt=test.txt"
    },
    "--host": {"*": "| --host nowhere.invalid"},
    "--port": {"*": "| --port 99999"},
    "--max-body": {"*": "| --max-body 9"},
    "--queue": {"*": "| --queue 0"},
    "--name": {"*": "| --name a --name b"},
    "--width": {"*": "| --width 2"},
    "--lengths": {"*": "| --lengths 6"},
    "--sentences": {"*": "| --sentences 2"},
    "--repeats": {"*": "| --repeats 0"},
    "--vectors": {"*": "| --vectors"},
    "--results": {"*": "| --results run.json"},
    "--corpus": {"*": "| --corpus t.csv"},
    "--kind": {"*": "| --kind token"},
    "--layers": {"*": "| --layers 0"},
    "--pooling": {"*": "| --pooling max"},
    "--special-tokens": {"*": "| --special-tokens"},
    "--centre": {"*": "| --centre"},
    "--joined": {"*": "--lm unilm:tiny2 | --joined"},
    "--gold": {
        "*": "| --gold absent",
    },
    "--examples": {"*": "| --examples 10"},
    "--fine-tune": {"*": "| --fine-tune"},
    "--epochs": {"*": "--fine-tune | --epochs 1"},
    "--learning-rate": {"*": "--fine-tune | --learning-rate 0.1"},
}
"""For each option and command: `beside | option`. `beside` stands behind the command
line of `BASES`, or in its place after `!`. `*` is for all other commands.
"""
OF_EVERY_COMMAND = {"--quiet", "--verbose", "--help-all", "--help"}
"""Options that no class declares: how much is said."""
COMMANDS_HERE = [name for name in COMMANDS if name != "train"]
PAIRS = [
    (name, max(parameter.opts, key=len))
    for name in COMMANDS_HERE
    for parameter in parameters_of(name)
    if isinstance(parameter, click.Option)
]
PAIRS = [pair for pair in PAIRS if pair[1] not in OF_EVERY_COMMAND]


SHARED = {("tune", "--words"), ("tune", "--comet-model")}
"""Options of figures that `tune` takes, as the variable MEASURE_OPTIONS of a Makefile
gives the same options to `tune` and `rerank`.
"""


@pytest.mark.parametrize(("command", "option"), PAIRS)
def test_an_option_acts_or_is_named(command: str, option: str) -> None:
    lines = SCENARIOS[option]
    beside, _, line = lines.get(command, lines["*"]).partition("|")
    if beside.startswith("!"):
        beside = beside.removeprefix("!")
    else:
        beside = f"{BASES[command]} {beside}"
    before = outcome(command, beside)
    after = outcome(command, f"{beside} {line}")
    after_run = after[0]
    if after_run.returncode == 2 and before[0].returncode == 0:
        # the option, its value, or the input that it does not suit
        names = {option, *shlex.split(f"{line} {beside}")}
        said = after_run.stderr.casefold()
        assert any(name.casefold() in said for name in names), said
        return
    assert after_run.returncode in (0, 1), after_run.stderr
    is_shared = (command, option) in SHARED
    assert (seen(before) == seen(after)) is is_shared, f"{command} {option}"


def test_an_option_without_a_scenario_fails() -> None:
    assert {option for _, option in PAIRS} == SCENARIOS.keys()
    assert BASES.keys() == set(COMMANDS_HERE)


def seen(done: tuple[Done, dict[str, bytes]]) -> Any:
    """What a command prints on stdout and writes, without times."""
    shown, files = done
    numbers = r'"(seconds|speed|stages|per_second)": ([\d.e-]+|\{[^}]*\})'
    written = {
        name: re.sub(numbers.encode(), b"", content) for name, content in files.items()
    }
    table = re.sub(numbers, "", shown.stdout)
    if "hyp/s" in table:  # hypotheses per second stand last
        table = re.sub(r"\s+[\d,]+$", "", table, flags=re.MULTILINE)
    return shown.returncode, table, written


@cache
def outcome(command: str, line: str) -> tuple[Done, dict[str, bytes]]:
    """Run a command, and remove the files that it writes."""
    there = {path for path in Path().rglob("*") if path.is_file()}
    done = run_main(command, *shlex.split(line))
    files = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file() and path not in there:
            files[str(path)] = path.read_bytes()
            path.unlink()
    return done, files


# --- an option that nobody reads -----------------------------------------------------


def options_by_part(table: Any) -> dict[str, dict[str, str]]:
    """The options that each part of a table reads, as they are typed."""
    read = {}
    for name, part in table.loaded():
        read[name] = {one.name: one.about.flag(one.name) for one in options_of(part)}
    return read


VALUES: dict[str, Any] = {"fields": {"text": "a", "score": "b"}}
READERS = options_by_part(FORMATS)
READ_BY_SOME: dict[str, str] = {}
for of_reader in READERS.values():
    READ_BY_SOME |= of_reader


@pytest.mark.parametrize("detected", [False, True])
@pytest.mark.parametrize("option", READ_BY_SOME)
@pytest.mark.parametrize("name", list(FORMATS))
def test_a_reader_reads_an_option_or_it_is_refused(
    name: str, option: str, detected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read: the error comes when the format is known."""
    options = ReadOptions(**{option: VALUES.get(option, 2)})
    format_name = name
    if detected and option == "shape":
        return  # a shape describes the input itself
    if detected:
        format_name = None
        monkeypatch.setattr(reading, "sniff", lambda source: name)
    arguments = ([Path("text")], InputWarnings(), format_name, "s2s", options)
    if option in READERS[name]:
        assert len(list(reading.opened_all(*arguments))) == 1
        return
    with pytest.raises(OptionError) as error:
        reading.opened_all(*arguments)
    able = [other for other, read in READERS.items() if option in read]
    assert str(error.value).startswith(
        f"{READ_BY_SOME[option]} needs --format {' or '.join(able)}; text is {name}"
    )


METRIC_OPTIONS = options_by_part(METRICS)
OF_METRICS: dict[str, str] = {}
for of_metric in METRIC_OPTIONS.values():
    OF_METRICS |= of_metric
SOURCES = {"wer": None, "bleu": "a source"}
"""The source texts of lists, by the metric that they have by default."""


SWITCHES = {
    "open_asr": "en",
    "numbers": "en",
    "language": "tr",
    "steps": ("awake",),
    "answer": "[a-z]+",
    "replace": Replacements((("a", "b"),), "rules"),
}
"""The values of switches of a normaliser that are not on or off."""


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("metric", SOURCES)
@pytest.mark.parametrize("option", OF_METRICS)
def test_a_metric_reads_an_option_or_it_is_refused(
    option: str, metric: str, named: bool
) -> None:
    """Of the default metric as of a metric that the user names."""
    values: dict[str, Any] = {option: "jiwer" if option == "align" else "char"}
    if option in FLAGS:
        value = SWITCHES.get(option, True)
        values = {"normaliser": Normaliser(**{option: value})}
    if option == "words":
        return  # the bonus of words reads the file under every metric
    hypotheses = [Hypothesis("a", {"s2s": 0.0})]
    nbest = NbestList("u", hypotheses, ("a",), SOURCES[metric])
    config = RunConfig(
        metrics=(metric,) if named else (), measuring=MetricOptions(**values)
    )
    read = {*METRIC_OPTIONS[metric]}
    if metric == "bleu" and not named:
        read |= METRIC_OPTIONS["chrf"].keys()
    if option in read:
        resolve(config, [nbest])
        return
    with pytest.raises(OptionError, match=f"^{OF_METRICS[option]} needs --metric "):
        resolve(config, [nbest])


UNREAD = {
    "run t.csv --format csv --lenpen 1": "--lenpen needs --format fairseq",
    "run test.jsonl --metric wer --tokenize zh": "--tokenize needs --metric bleu",
    "run test.jsonl --metric bleu --nfkc": "--nfkc needs --metric wer",
    "run test.jsonl --ref-format trn": "--ref-format needs --ref FILE or --dev-ref",
    "run test.jsonl --dataset a": "--dataset needs --report FILE or --table FILE",
    "run test.jsonl --workers 2": "--workers needs --engine ray",
    "run test.jsonl --tokens x": "run takes no --tokens; give it to score",
    "run test.jsonl --lm-norm mean": "--lm-norm needs --lm",
    "run test.jsonl --audio test.scp": "--audio needs --lm hf-speech",
    "run test.jsonl --recordings test.rec": "--recordings needs --lm KIND:context=N",
    "run test.jsonl --decide best --scale 2": "--scale needs --decide mbr or rover",
    "rerank test.jsonl --weights w.json --metric cer": "--metric: nothing is measured",
    "rerank test.jsonl --weights w.json --nfkc": "--nfkc: nothing is measured",
    "rerank test.jsonl --force-weights": "--force-weights needs --weights",
    "rerank test.jsonl --best o.trn --segments test.seg": "--segments needs --best",
    "serve --metric cer": "--metric: nothing is measured",
    "eval test.jsonl --test mapsswe": "--test compares outputs",
    "eval test.txt --ref test.ref --s2s rank": "--s2s needs N-best lists",
    "eval test.txt --ref test.ref --nbest-size 2": "--nbest-size needs --format",
    "eval test.jsonl --audio test.scp": "eval takes no --audio; give it to",
    "confidence test.jsonl -o c.jsonl --segments test.seg": "--segments needs --output",
    "combine alike.1 alike.2 --s2s rank": "--s2s needs N-best lists",
    "combine alike.1 alike.2 --words words": "combine takes no --words; give it to",
    "combine two.csv --field system=hyp --field system=other --s2s rank": (
        "combine --field system=COLUMN takes no --s2s"
    ),
    "combine lines2 lines3 --src test.src": "combine --whole takes no --src",
    "combine lines2 lines3 --format csv": "which column has the hypotheses",
    "errors test.jsonl --decide mbr": "--decide needs --weights",
    "run test.jsonl --field score=-cost": "--field needs --format",
    "run t.csv --field score=cost --field score=lm": "and 2 of scores (cost, lm)",
    "score --text text --text words --lm ngram:one": "--text is given 2 times",
    "convert test.jsonl -o a.csv -o a.csv": "two --output both write to a.csv",
    "confidence test.jsonl -o a.jsonl -o a.jsonl": "two --output both write to a.jsonl",
    "run test.jsonl --report a.json --report b.json": "--report is given 2 times",
    "eval test.jsonl --by speaker --by accent": "--by is given 2 times",
    "rerank test.jsonl --weights w.json --weights mbr.json": "--weights is given 2",
    "score test.jsonl --lm ngram:one --device x": "--device",
    "score test.jsonl --lm ngram:one --precision bf16": "--precision needs --lm of a",
    "similarity pairs.tsv --lm tta:tiny --joined": "--joined needs two or more --lm",
    "eval alone.jsonl --s2s lm": "no score 'lm' (found: none); choose another --s2s",
}
"""Command lines with an option that nobody reads, and what the error says."""


@pytest.mark.parametrize("line", UNREAD)
def test_an_option_that_nobody_reads_is_refused(line: str) -> None:
    command, *words = shlex.split(line)
    done, files = outcome(command, shlex.join(words))
    assert done.returncode == 2 and not done.stdout and not files
    assert UNREAD[line] in done.stderr
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 420


TWICE = [
    (name, parameter.opts[-1])
    for name in COMMANDS_HERE
    for parameter in parameters_of(name)
    if isinstance(parameter, click.Option)
    and (entry := entry_of(parameter)) is not None
    and (entry.about.reads or entry.about.writes)
    and not parameter.multiple
    and parameter.nargs == 1
]


@pytest.mark.parametrize(("command", "option"), TWICE)
def test_a_file_that_is_given_twice_is_refused(command: str, option: str) -> None:
    done, _ = outcome(command, f"{BASES[command]} {option} a.json {option} b.json")
    assert done.returncode == 2
    assert " is given " in done.stderr and "give it once" in done.stderr


# --- training ------------------------------------------------------------------------

TRAINED = {
    entry.name: name
    for name, kind in reversed(list(trained_kinds().loaded()))
    for entry in flattened(kind.training_options().declared())
}
"""The first kind that takes each option of training."""
NEEDED = {
    "electra": ("--generator", "tta"),
    "a3t": ("--audio", "a.wav", "--text", "text", "--align", "words"),
    "ctc": ("--audio", "a.wav", "--text", "text"),
}
"""What kinds need to be trained."""


def training(kind: str, *line: str) -> Any:
    """The options that a training gets from a command line."""
    command = COMMANDS["train"]
    arguments = ["--lm", kind, "--out", "new", *NEEDED.get(kind, ()), *line]
    with command.make_context("train", arguments) as context:
        return command.offers(context)["options"].make(context)


def values_of(parameter: click.Option) -> list[str]:
    """Values of an option, of which one at least is not its default."""
    if parameter.is_flag:
        return [parameter.opts[0]]
    entry = entry_of(parameter)
    assert entry is not None
    values = ["0.25", "text", "0,0"]
    if isinstance(entry.about.choices, tuple) and entry.about.choices:
        values = list(entry.about.choices)
    elif kind_of(entry.hint).type is int:
        values = ["7", "3"]
    several = 2 if parameter.nargs == 2 else 1
    return [f"{parameter.opts[0]} {' '.join([value] * several)}" for value in values]


@pytest.mark.parametrize("option", TRAINED)
def test_a_training_gets_each_option(option: str) -> None:
    """What a training does with it, tests/lms/training and tests/test_asked.py see:
    code reads each option.
    """
    kind = TRAINED[option]
    command = COMMANDS["train"]
    arguments = ["--lm", kind, "--out", "new", *NEEDED.get(kind, ())]
    with command.make_context("train", arguments) as context:
        context.meta[PARTS] = True
        parameters = {one.name: one for one in command.get_params(context)}
    parameter = parameters[option]
    assert isinstance(parameter, click.Option)
    usual = training(kind)
    changed = False
    for line in values_of(parameter):
        try:
            changed |= training(kind, *line.split()) != usual
        except UserError as error:
            changed |= parameter.opts[0].strip("-") in str(error)
        except click.UsageError as error:
            changed |= parameter.opts[0] in error.format_message()
    assert changed


# --- a request -----------------------------------------------------------------------

BAD_REQUESTS: dict[str, Any] = {
    "a first pass": {"hyps": [{"text": t, "scores": {"lm": -1}} for t in "ab"]},
    "a source": {"hyps": [{"text": "a", "score": -1}], "src": 3},
    "a text": {"hyps": [{"score": -1}]},
    "a list": 3,
    "a name": {"hyps": [{"text": "a", "score": -1, "scores": {"tokens": -1}}]},
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
def test_an_error_of_the_service_names_no_option(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of the service has fields of a request, not options."""
    monkeypatch.setattr(sys.modules[__name__], "REQUEST", BAD_REQUESTS[what])
    done = run_main("serve")
    assert done.returncode == 0, done.stderr
    error = json.loads(done.stdout.splitlines()[0])["error"]
    assert "--" not in error and "rescore " not in error, error


def test_advice_of_the_service_names_fields() -> None:
    for message in (
        "u: no first-pass score; add the score, or name its column with --s2s",
        "utterance u: no score 'lm'; `rescore score LISTS --lm MODEL` writes it",
        "this model reads the source; give --src FILE",
        "utterance u: no recording; give --audio",
    ):
        assert re.search(r'give ".+" in the request$', service.in_request(message))
    assert service.in_request("u: is no text") == "u: is no text"
