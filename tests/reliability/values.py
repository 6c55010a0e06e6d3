"""Hostile but valid: values within parsed structures are changed, and commands read
what comes out.

    python -m tests.reliability.values --number 100000

Numbers go to the ends of what they can be, names to paths, options and control
characters, counts to nothing, lists to none. Each input goes through a whole command.
Nothing but an exit status that is promised may come out, within 5 seconds and 500 MB
more than there was before, and nothing may be written outside the command's folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.parts import FORMATS
from tests.conftest import SENTENCES, Done, run_main
from tests.lms.test_ngram import ARPA
from tests.reliability.fuzz import RESULTS, WEIGHTS
from tests.reliability.limits import BYTES, Spent, memory

STATUSES = {0, 1, 2}
NUMBERS = [
    "1e308",
    "-1e308",
    "-0.0",
    "1" + "0" * 400,
    "Infinity",
    "-Infinity",
    "NaN",
    "5e-324",
    "1e999",
    "0",
    "-1",
    "0.5",
]
"""As JSON writes them, so that those come out that no float holds."""
NAMES = [
    "",
    " ",
    "/etc/passwd",
    "/../../victim",
    "../victim",
    "..",
    "--help",
    "-o",
    "a b",
    "a\tb",
    "x" * 5000,
    "%s%n",
    "\x00",
    "\x1b[31m",
    "\x1f",
    "\x1e",
    "\n",
    "\r",
    "\u2028",
    "\ufeff",
    "\U0001f600",
    "a-\u00b2",
    "$(touch victim)",
    "`touch victim`",
    "s2s",
    "tta",
    "words",
    "tokens",
    "columns",
    "utts",
    "id",
    "[UNK]",
    "|||",
    "$",
    "((a+))+$",
    "column:",
    "nan",
]

COLUMN = {
    "model": "tta",
    "fingerprint": "ab" * 32,
    "norm": "sum",
    "precision": "float32",
}
LISTS = [
    {
        "id": "a-1",
        "ref": "a b",
        "src": "x y",
        "columns": {"tta": COLUMN},
        "hyps": [
            {"text": "a c", "score": -1.5, "scores": {"tta": -3.0}},
            {"text": "a b", "score": -2, "scores": {"tta": -1.0}},
        ],
    },
    {
        "id": "a-2",
        "ref": "b",
        "columns": {"tta": COLUMN},
        "hyps": [
            {"text": "b", "score": -1, "scores": {"tta": -1.0}},
            {"text": "c", "score": -1.5, "scores": {"tta": -2.5}},
        ],
    },
]


class Raw(float):
    """A number as it is to stand in JSON."""

    def __new__(cls, written: str) -> Raw:
        made = super().__new__(cls, 0.0)
        made.written = written  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return str(self.written)  # type: ignore[attr-defined]


def changed(value: Any, draw: random.Random) -> Any:
    """One value or key somewhere within, changed to what its type can be at worst."""
    if isinstance(value, dict) and value:
        key = draw.choice(list(value))
        kind = draw.randrange(12)
        if kind == 0:
            return {name: one for name, one in value.items() if name != key}
        if kind == 1:
            return {
                (draw.choice(NAMES) if name == key else name): one
                for name, one in value.items()
            }
        if kind == 2:
            return {}
        return {**value, key: changed(value[key], draw)}
    if isinstance(value, list) and value:
        kind, place = draw.randrange(12), draw.randrange(len(value))
        if kind == 0:
            return []
        if kind == 1:
            return [*value, *value]
        if kind == 2:
            return value[:place] + value[place + 1 :]
        return [*value[:place], changed(value[place], draw), *value[place + 1 :]]
    if draw.random() < 0.1:
        return draw.choice([None, True, [], {}, [[]], "x", Raw("0")])
    if isinstance(value, str):
        return draw.choice(NAMES)
    return Raw(draw.choice(NUMBERS))


def written(value: Any) -> str:
    """JSON, with numbers as `Raw` has them."""
    return json.dumps(_marked(value)).replace('"\\ue000', "").replace('\\ue000"', "")


def _marked(value: Any) -> Any:
    if isinstance(value, Raw):
        return f"\ue000{value!r}\ue000"
    if isinstance(value, dict):
        return {name: _marked(one) for name, one in value.items()}
    return [_marked(one) for one in value] if isinstance(value, list) else value


Case = tuple[str, Callable[[Path, random.Random], Done]]


class Workshop:
    """A folder with valid files of every kind, and the commands that read one of them
    changed.
    """

    def __init__(self, top: Path) -> None:
        self.folder = top / "work"
        self.folder.mkdir()
        (top / "victim").write_text("whole")
        self.top = top
        self.valid = {
            "lists.jsonl": LISTS,
            "w.json": WEIGHTS,
            "r.json": RESULTS,
        }
        torch.manual_seed(0)
        tokenizer = train_wordpiece(SENTENCES[:40], 150)
        config = NetworkConfig(
            "tta",
            tokenizer.vocab_size,
            layers=1,
            d_model=16,
            heads=2,
            d_ff=16,
            max_positions=20,
        )
        self.networks = {}
        for kind in ("tta", "unilm"):
            checkpoint.save(
                top / kind, checkpoint.build(replace(config, kind=kind)), tokenizer
            )
            self.networks[kind] = {
                name: json.loads((top / kind / name).read_text())
                for name in ("config.json", "tokenizer.json")
            }
        (top / "lm.arpa").write_text(ARPA)

    def clear(self) -> None:
        """Valid files, and nothing else."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, value in self.valid.items():
            self.put(name, value)
        for kind in self.networks:
            shutil.copytree(self.top / kind, self.folder / kind)
        shutil.copy(self.top / "lm.arpa", self.folder / "lm.arpa")
        os.chdir(self.folder)

    def put(self, name: str, value: Any) -> None:
        text = (
            "\n".join(map(written, value)) + "\n"
            if name.endswith(".jsonl")
            else written(value)
        )
        (self.folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")

    def change(self, name: str, draw: random.Random) -> None:
        value = self.valid[name]
        for _ in range(draw.randint(1, 3)):
            value = changed(value, draw)
        self.put(
            name,
            (
                value
                if isinstance(value, list) or not name.endswith(".jsonl")
                else [value]
            ),
        )

    def lists(self, draw: random.Random) -> Done:
        self.change("lists.jsonl", draw)
        name = "lists.jsonl"
        return run_main(
            *draw.choice(
                [
                    [
                        "convert",
                        name,
                        "--to",
                        draw.choice(FORMATS.names),
                        "-o",
                        draw.choice(["out", "out.jsonl"]),
                    ],
                    [
                        "rerank",
                        name,
                        "--weights",
                        "w.json",
                        "--best",
                        draw.choice(["b", "b.trn", "b.txt"]),
                        "-o",
                        "o.json",
                    ],
                    [
                        "rerank",
                        name,
                        "--decide",
                        draw.choice(["mbr", "rover"]),
                        "--scale",
                        "1",
                        "--report",
                        "r",
                    ],
                    [
                        "run",
                        name,
                        "--html",
                        "x.html",
                        "--lm",
                        "ngram:lm.arpa",
                        "--weight",
                        "0.5",
                    ],
                    [
                        "run",
                        name,
                        "--dev",
                        name,
                        "--lm",
                        "ngram:lm.arpa",
                        "--recombine",
                        "3",
                        "--table",
                        "t.md",
                    ],
                    [
                        "score",
                        name,
                        "--lm",
                        "tta:tta",
                        "--tokens",
                        "t.jsonl",
                        "-o",
                        "s.jsonl",
                    ],
                    [
                        "tune",
                        name,
                        *draw.choice(
                            [[], ["--allow-negative", "tta"], ["--decide", "mbr"]]
                        ),
                    ],
                    ["eval", name, "--report", "-"],
                    ["analyse", name, "--weights", "w.json"],
                    ["compare", name, "--dev", name, "--lm", "ngram:lm.arpa"],
                ]
            )
        )

    def weights(self, draw: random.Random) -> Done:
        self.change("w.json", draw)
        command = draw.choice(["rerank", "rerank", "analyse"])
        return run_main(
            command,
            "lists.jsonl",
            "--weights",
            "w.json",
            *([] if command == "analyse" else ["--report", "r"]),
        )

    def results(self, draw: random.Random) -> Done:
        self.change("r.json", draw)
        style = draw.choice(["text", "markdown", "latex", "csv", "json"])
        return run_main(
            *draw.choice(
                [
                    ["report", "r.json", "--style", style],
                    ["check", "r.json", "--golden", "r.json"],
                ]
            )
        )

    def network(self, draw: random.Random) -> Done:
        kind, file = (
            draw.choice(["tta", "unilm"]),
            draw.choice(["config.json", "tokenizer.json"]),
        )
        self.put(f"{kind}/{file}", changed(self.networks[kind][file], draw))
        return run_main("score", "lists.jsonl", "--lm", f"{kind}:{kind}")

    def card(self, draw: random.Random) -> Done:
        value = draw.choice([*NAMES, *NUMBERS])
        text = (
            f"---\nrecommended_weight: {value}\nlanguage: {draw.choice(NAMES)}\n---\n"
        )
        (self.folder / "tta" / "README.md").write_text(text, encoding="utf-8")
        return run_main(
            *draw.choice([["run", "lists.jsonl", "--lm", "tta:tta"], ["models", "tta"]])
        )

    def cache(self, draw: random.Random) -> Done:
        command = ["score", "lists.jsonl", "--lm", "ngram:lm.arpa", "--cache", "cache"]
        whole = run_main(*command)
        (file,) = (self.folder / "cache").glob("*.sqlite3")
        column = draw.choice(["question", "tokens", "log_probs", "unknown", "total"])
        value = draw.choice(
            [
                None,
                b"",
                b"x",
                "x",
                "[]",
                "{}",
                "7",
                "[7]",
                0,
                -1,
                1e308,
                -1e308,
                2**62,
                b"\0" * 8,
            ]
        )
        value = b"" if column == "question" and value is None else value
        with closing(sqlite3.connect(file)) as database, database:
            key, *_ = draw.choice(
                database.execute("SELECT question FROM scores").fetchall()
            )
            database.execute(
                f"UPDATE scores SET {column} = ? WHERE question = ?", (value, key)
            )
        assert whole.returncode == 0, whole.stderr
        return run_main(*command)

    def cases(self) -> list[Case]:
        def case(name: str, run: Callable[[random.Random], Done]) -> Case:
            return name, lambda folder, draw: run(draw)

        often = [case("lists", self.lists)] * 6 + [case("weights", self.weights)] * 2
        rest = [self.results, self.network, self.card, self.cache]
        return [*often, *(case(run.__name__, run) for run in rest)]


def outside(top: Path) -> list[str]:
    """What is not where it was, beside the command's folder."""
    known = {"victim", "work", "tta", "unilm", "lm.arpa"}
    wrong = [path.name for path in top.iterdir() if path.name not in known]
    return wrong if (top / "victim").read_text() == "whole" else [*wrong, "victim"]


def judged(done: Done, spent: Spent, top: Path) -> str:
    """What is wrong with an outcome; nothing where it is as promised."""
    if done.returncode not in STATUSES:
        return f"exit status {done.returncode}"
    if "out of memory" in done.stderr:
        return "out of memory"
    if done.returncode == 2 and not done.stderr.splitlines()[-1].startswith(
        "rescore: error: "
    ):
        return f"no error in one line: {done.stderr[-300:]}"
    if over := spent.too_much():
        return over
    if found := outside(top):
        return f"written outside: {found}"
    return ""


def explore(number: int, seed: int, top: Path) -> tuple[Counter[str], list[str]]:
    """Outcomes counted, and a report of each that must not be."""
    shop = Workshop(top)
    every = shop.cases()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    before = Path.cwd()
    try:
        for index in range(number):
            name, run = every[index % len(every)]
            draw = random.Random(f"{seed} {index}")
            shop.clear()
            spent = Spent()
            try:
                done = run(shop.folder, draw)
                said = judged(done, spent, top)
                outcomes[f"exit {done.returncode}"] += 1
            except Exception:
                said = traceback.format_exc()
                outcomes["traceback"] += 1
            if said:
                wrong.append(f"{name} {index}: {said}")
    finally:
        os.chdir(before)
    return outcomes, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Hostile but valid values in every file that commands read."
    )
    parser.add_argument("--number", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # whatever is to be imported then is
        explore(48, -1, Path(tempfile.mkdtemp(dir=folder)))
        used = memory("VmSize")
        # the machine is not ours
        resource.setrlimit(
            resource.RLIMIT_AS, (used + 8 * BYTES, resource.RLIM_INFINITY)
        )
        outcomes, wrong = explore(
            arguments.number, arguments.seed, Path(tempfile.mkdtemp(dir=folder))
        )
    print("\n".join(wrong[:40]))
    print(f"{dict(outcomes)}; wrong: {len(wrong)}; {time.monotonic() - began:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
