"""Deep N-best lists, made from the project's own, and the commands on them: this tree
against another tree.

    python benchmarks/deep.py make FOLDER [--lists data/test.json] [--at-most 65 1248]
    python benchmarks/deep.py time FOLDER [--before TREE] [--limit 280] \
        [--only NAME,NAME]

`make` writes 65 lists of 1,248 hypotheses with four columns of scores (`deep.jsonl`),
1,000 lists of 1,000 (`many.jsonl`) and 17,000 lists of seven (`short.jsonl`). `time`
prints seconds and MiB of each command, on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from common import write_json
from rapidfuzz.distance import Levenshtein

from rescore import formats
from rescore.nbest import NbestList

SHAPES = {"deep": (65, 1248), "many": (1000, 1000), "short": (17_000, 7)}
COLUMNS = ("acoustic", "lm", "pronunciation")
MBR = ["--decide", "mbr", "--scale", "0.05", "--metric"]
COMMANDS = {
    "deep: run --components --decide mbr --folds 5": [
        "deep",
        "--components",
        "--decide",
        "mbr",
        "--folds",
        "5",
    ],
    "deep: run --components --folds 5": ["deep", "--components", "--folds", "5"],
    **{
        f"many: run --decide mbr --metric {name}": ["many", *MBR, name]
        for name in ("wer", "bleu", "chrf")
    },
    "short: run --components --decide mbr": [
        "short",
        "--dev",
        "short",
        "--components",
        "--decide",
        "mbr",
    ],
    "short: run --components --decide rover": [
        "short",
        "--dev",
        "short",
        "--components",
        "--decide",
        "rover",
    ],
}


def deeper(nbest: NbestList, size: int, chance: random.Random) -> Iterator[str]:
    """`size` different texts: the list's own, then texts that take each of their parts
    from one of its hypotheses.
    """
    texts = [hypothesis.text.split() for hypothesis in nbest.hypotheses]
    words = sorted({word for text in texts for word in text})
    seen = dict.fromkeys(" ".join(text) for text in texts[:size])
    yield from seen
    while len(seen) < size:
        one, other = chance.choice(texts), chance.choice(texts)
        cut = chance.randrange(len(one) + 1)
        text = [*one[:cut], *other[cut:]]
        place = chance.randrange(len(text) + 1)
        text[place : place + chance.randrange(2)] = [
            chance.choice(words)
        ] * chance.randrange(2)
        if (joined := " ".join(text)) not in seen:
            seen[joined] = None
            yield joined


def made(lists: Sequence[NbestList], number: int, size: int) -> Iterator[str]:
    """JSON Lines. Each score is the number of errors with noise of its own; the lm
    weighs too little in the first.
    """
    chance = random.Random(0)
    record = {
        name: {
            "model": "toolkit",
            "fingerprint": "",
            "norm": "sum",
            "precision": "",
            "role": "component",
        }
        for name in COLUMNS
    }
    for place in range(number):
        nbest = lists[place % len(lists)]
        reference = nbest.references[0].split()
        hyps = []
        for text in deeper(nbest, size, chance):
            errors = Levenshtein.distance(text.split(), reference)
            noises = (
                chance.gauss(8 * errors, 12),
                chance.gauss(4 * errors, 8),
                chance.gauss(0.5 * errors, 3),
            )
            scores = dict(
                zip(COLUMNS, (round(-noise, 4) for noise in noises), strict=True)
            )
            first = scores["acoustic"] + 0.2 * scores["lm"] + scores["pronunciation"]
            hyps.append({"text": text, "score": round(first, 4), "scores": scores})
        hyps.sort(key=lambda hypothesis: -hypothesis["score"])
        about = {
            "id": f"s{place % 97}-{place}",
            "ref": nbest.references[0],
            "columns": record,
        }
        yield json.dumps({**about, "hyps": hyps}) + "\n"


def measured(
    tree: Path, folder: Path, words: Sequence[str], limit: float
) -> tuple[float, float, bytes]:
    """Seconds of one core and MiB of `rescore` in a tree, and what it printed; infinite
    beyond `limit`.
    """
    arguments = [
        str(folder / f"{word}.jsonl") if word in SHAPES else word for word in words
    ]
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [
        "prlimit",
        f"--cpu={limit:.0f}",
        sys.executable,
        "-P",
        "-m",
        "rescore",
        "run",
        *arguments,
        "--quiet",
    ]
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE
    )
    assert process.stdout
    table = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    exit_code = os.waitstatus_to_exitcode(status)
    if exit_code > 0:  # the system ends a command beyond the limit by a signal
        raise SystemExit(f"rescore run {' '.join(arguments)}: exit status {exit_code}")
    seconds = usage.ru_utime + usage.ru_stime if exit_code == 0 else float("inf")
    return seconds, usage.ru_maxrss / 1024, table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("make", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lists", default="data/test.json")
    parser.add_argument(
        "--at-most",
        nargs=2,
        type=int,
        metavar=("LISTS", "HYPOTHESES"),
        default=(17_000, 1_248),
        help="limits of the sizes of files, for a quick trial",
    )
    parser.add_argument("--before", type=Path, help="another tree of the project")
    parser.add_argument(
        "--limit",
        type=float,
        default=280.0,
        help="seconds of one core that a command may take",
    )
    parser.add_argument(
        "--only", default="", help="beginnings of names of commands, with commas"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.folder = options.folder.resolve()  # commands run in it
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "make":
        lists = formats.read([options.lists])
        for name, (number, size) in SHAPES.items():
            number = min(number, options.at_most[0])
            size = min(size, options.at_most[1])
            with open(options.folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
                file.writelines(made(lists, number, size))
        return
    trees = {"now": Path(__file__).resolve().parent.parent} | (
        {"before": options.before} if options.before else {}
    )
    rows: dict[str, dict[str, float]] = {}
    for name, words in COMMANDS.items():
        if name.startswith(tuple(options.only.split(","))):
            figures = {
                tree: measured(path, options.folder, words, options.limit)
                for tree, path in trees.items()
            }
            shown = "  ".join(
                f"{tree} {seconds:6.1f} s {size:6,.0f} MiB"
                for tree, (seconds, size, _) in figures.items()
            )
            ratio = (
                f"  {figures['before'][0] / figures['now'][0]:6.1f} times"
                if options.before
                else ""
            )
            print(f"{name:50} {shown}{ratio}", flush=True)
            seconds, size, _ = figures["now"]
            rows[name] = {"CPU s": seconds, "MiB": size}
    if options.output:
        write_json(options.output, rows)


if __name__ == "__main__":
    main()
