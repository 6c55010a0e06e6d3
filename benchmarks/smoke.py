"""Run each script of this folder on a tiny input, to see that it still works.

    make bench-smoke
    python benchmarks/smoke.py [SCRIPT...]

The figures that the scripts print here mean nothing. Rows of a tool that is not
installed are skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from common import ROOT

import models
from rescore import formats
from rescore.asr.features import EDITS, RESPELLED
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS, Column, Role
from rescore.nbest import Header, Hypothesis, NbestList

BENCHMARKS = ROOT / "benchmarks"
RUNS = {
    "agreement.py": ["made=systems.jsonl --draws 2 -o agreement.json"],
    "beam.py": ["pairs.jsonl beam.jsonl --model unified --beam 2 --first 3"],
    "columns.py": ["earnings21/lists.jsonl a b c d e f g -o columns.csv"],
    "compare.py": [
        "lists.json --size tiny --hypotheses 20 --repeats 1 -o compare.json"
    ],
    "conditional.py": [
        "--pairs source.txt target.txt --lists pairs.jsonl --updates 2"
        " --out conditional tta",
        "--out conditional -o conditional.json",
    ],
    "confidences.py": ["made=lists.json,lists.json -o confidences.json"],
    "deep.py": [
        "make deep --lists lists.json --at-most 10 12",
        "time deep -o deep.json",
    ],
    "estimates.py": ["made=systems.jsonl --figure estimates.svg -o estimates.json"],
    "gains.py": ["made=scored.jsonl,scored.jsonl -o gains.json"],
    "lexical.py": ["source.txt target.txt --train 60 --test 20 -o lexical.json"],
    "mbr.py": ["lists.json --sizes 10,20 --lists 2 -o mbr.json"],
    "models.py": ["networks tta bilm --size tiny"],
    "narrow.py": ["lists.json narrow.jsonl --keep 3"],
    "nulls.py": ["--runs 1 --columns 2 --lists 12 --size 4"],
    "objectives.py": [
        "--text target.txt --tokens 1500 --lists lists.json --ref references.txt"
        " --out objectives tta",
        "--out objectives",
    ],
    "paragraphs.py": [
        "--pages pages --steps 1 --out paragraphs both",
        "--out paragraphs",
    ],
    "precision.py": [
        "lists.json --lm tta:tta --hypotheses 20 --repeats 1 -o cpus.json"
    ],
    "references.py": ["made=systems.jsonl --draws 1 --test 10 -o references.json"],
    "respelled.py": ["demo=respelled.jsonl -o words.json"],
    "scale.py": ["lists.json --lm tta:tta --workers 1 --windows 1"],
    "seq2seq.py": ["--sources 1 --layers 1 -o seq2seq.json"],
    "serve.py": ["lists.json --lm tta:tta --requests 100 --clients 5"],
    "server.py": ["lists.json --wait 0 --hypotheses 20 -o server.json"],
    "sources.py": [
        "source.txt target.txt --lm unified:seq2seq:unified -o sources.json"
    ],
    "speech.py": ["--recordings 1 --hypotheses 2"],
    "sureness.py": ["made=systems.jsonl --draws 2 -o sureness.json"],
    "terms.py": [
        "train --data . --out terms",
        "prepare --data . --out recordings",
        "plain recordings/tune/rev-kaldi.txt --words earnings21/terms.oracle.txt"
        " --out plain.txt",
        "case --data . --out case.json",
        "keys --data . --out keys.json",
    ],
    "tuned.py": ["made=systems.jsonl --draws 1 --take 3 1 4 -o tuned.json"],
    "gpu/pack.py": ["target.txt --tokenizer tta/tokenizer.json --out packed"],
    "gpu/trainer.py": [
        "--shards shards --out run --tokenizer tta/tokenizer.json --config tiny.json"
        " --minutes 0.1 --batch-tokens 200 --held-out 5 --device cpu",
        "--shards shards --out run --tokenizer tta/tokenizer.json"
        " --resume run/save-001 --minutes 0.1 --batch-tokens 200 --held-out 5"
        " --device cpu",
    ],
}
"""The arguments of each script; files lie in the folder that `prepare` fills."""
SECONDS = 300
"""Time limit of a command."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script did."""

    script: str
    seconds: float
    skipped: list[str]
    """What it left out, with the reason."""
    error: str = ""
    """The command that failed and the end of its output."""


def prepare(folder: Path) -> None:
    """Write tiny lists, texts, networks and recordings into a folder."""
    lists = [shortened(nbest, 10) for nbest in demo_lists()[:20]]
    formats.write(lists, str(folder / "lists.json"))
    references = [f"{nbest.id} {nbest.references[0]}" for nbest in lists]
    write_lines(folder / "references.txt", references)
    sentences = (ROOT / "data" / "sentences.txt").read_text(encoding="utf-8")
    target = sentences.splitlines()[:120]
    write_lines(folder / "target.txt", target)
    write_lines(folder / "source.txt", map(backwards, target))
    pairs = [replace(nbest, source=backwards(nbest.references[0])) for nbest in lists]
    formats.write(pairs, str(folder / "pairs.jsonl"))
    write_scored(lists, folder / "scored.jsonl")
    write_systems(lists, folder / "systems.jsonl")
    write_respelled(folder / "respelled.jsonl")
    for kind in ("tta", "unified"):
        models.make(kind, "tiny", folder / kind)
    models.SIZES["tiny"]().save(folder / "tiny.json")
    run(folder, "gpu/pack.py", "target.txt --tokenizer tta/tokenizer.json --out shards")
    write_recordings(folder)
    write_pages(folder / "pages", target)


def write_scored(lists: list[NbestList], path: Path) -> None:
    """Write the lists with a column of scores beside the first pass."""
    scored = []
    for nbest in lists:
        hypotheses = []
        for hypothesis in nbest.hypotheses:
            scores = hypothesis.scores | {"letters": -float(len(hypothesis.text))}
            hypotheses.append(replace(hypothesis, scores=scores))
        scored.append(replace(nbest, hypotheses=hypotheses))
    formats.write(scored, str(path))


def write_systems(lists: list[NbestList], path: Path) -> None:
    """Write combined lists of four systems, each of which has one hypothesis of each
    list.
    """
    systems = {}
    for place, name in enumerate("abcd"):
        own = []
        for nbest in lists:
            chosen = nbest.hypotheses[min(place, len(nbest.hypotheses) - 1)]
            own.append(replace(nbest, hypotheses=[chosen]))
        systems[name] = own
    formats.write(combined(systems), str(path))


def write_respelled(path: Path) -> None:
    """Write a list whose chosen hypothesis has a respelled word."""
    column = Column("respell:20", "", "", "float32", Role.COUNT)
    header = Header().with_records({EDITS: column})
    hypotheses = [
        Hypothesis("an owl hoots", {FIRST_PASS: -1.0, EDITS: 1.0}, RESPELLED),
        Hypothesis("an owle hoots", {FIRST_PASS: -1.0, EDITS: 0.0}),
    ]
    nbest = NbestList("u-1", hypotheses, ("an owl hoots",), header=header)
    formats.write([nbest], str(path))


def write_pages(folder: Path, sentences: list[str]) -> None:
    """Write pages of HTML with paragraphs of two sentences."""
    folder.mkdir()
    for number in range(4):
        page = ""
        for first in range(30 * number, 30 * number + 30, 2):
            words = [sentence.capitalize() for sentence in sentences[first : first + 2]]
            page += f"<p>{'. '.join(words)}.</p>\n"
        (folder / f"page-{number}.html").write_text(page, encoding="utf-8")


def demo_lists() -> list[NbestList]:
    return formats.read([str(ROOT / "data" / "test.json")])


def shortened(nbest: NbestList, size: int) -> NbestList:
    return replace(nbest, hypotheses=nbest.hypotheses[:size])


def backwards(sentence: str) -> str:
    """The words of a sentence from the last to the first, as another language."""
    return " ".join(reversed(sentence.split()))


def write_recordings(folder: Path) -> None:
    """Write what `terms.py` reads, from the demo lists: Earnings-21 with the hypotheses
    of a list as those of seven recognisers, LibriSpeech and HyPoradise.
    """
    for name in ("earnings21", "librispeech/dev_clean/1best_recog", "hyporadise"):
        (folder / name).mkdir(parents=True)
    lists = []
    terms = set()
    for number, nbest in enumerate(demo_lists()):
        reference = nbest.references[0]
        texts = [hypothesis.text for hypothesis in nbest.hypotheses[:7]]
        # the few lists that have less than seven hypotheses repeat their last
        texts += texts[-1:] * (7 - len(texts))
        lists.append(
            {
                "id": nbest.id,
                "recording": f"recording-{number // 20}",
                "ref": reference,
                "hyps": [{"text": text} for text in texts],
            }
        )
        terms.update(word for word in reference.split() if len(word) > 5)
    earnings = folder / "earnings21"
    write_lines(earnings / "lists.jsonl", map(json.dumps, lists))
    write_lines(earnings / "terms.oracle.txt", sorted(terms))
    write_lines(earnings / "terms.distractor.txt", sorted(terms))
    librispeech = folder / "librispeech" / "dev_clean"
    references = [f"{entry['id']} {entry['ref']}" for entry in lists]
    write_lines(librispeech / "text", references)
    best = [f"{entry['id']} {entry['hyps'][0]['text']}" for entry in lists]
    write_lines(librispeech / "1best_recog" / "text", best)
    dictated = [
        {"input": [entry["hyps"][0]["text"]], "output": entry["ref"]} for entry in lists
    ]
    (folder / "hyporadise" / "train_demo.json").write_text(
        json.dumps(dictated), encoding="utf-8"
    )


def write_lines(path: Path, lines: Iterator[str] | list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(folder: Path, script: str, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, on one core; its two outputs are joined."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *shlex.split(arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def try_script(folder: Path, script: str) -> Outcome:
    """Run all commands of a script, up to the first that fails."""
    began = time.perf_counter()
    skipped = []
    for arguments in RUNS[script]:
        done = run(folder, script, arguments)
        lines = done.stdout.splitlines()
        skipped += [line for line in lines if line.startswith("skipped: ")]
        if done.returncode:
            end = "\n".join(lines[-15:])
            error = f"{script} {arguments}: exit status {done.returncode}\n{end}"
            return Outcome(script, time.perf_counter() - began, skipped, error)
    return Outcome(script, time.perf_counter() - began, skipped)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", choices=[*RUNS, []], metavar="SCRIPT")
    scripts = parser.parse_args().scripts or list(RUNS)
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        with ThreadPoolExecutor(max_workers=2) as pool:
            for outcome in pool.map(partial(try_script, folder), scripts):
                state = "FAILED" if outcome.error else "ok"
                print(f"{state:6} {outcome.seconds:5.1f} s  {outcome.script}")
                for line in outcome.skipped:
                    print(f"       {line}")
                if outcome.error:
                    failed.append(outcome.script)
                    print(outcome.error, file=sys.stderr)
                sys.stdout.flush()
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
