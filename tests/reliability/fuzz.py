"""Mutated inputs for every reader and option value: nothing but success or the
project's own error may come out.

    make fuzz FUZZ=100000

Seeds are small valid files of every format. A mutation cuts, repeats, exchanges or
replaces bytes, lines, or JSON values by what readers stumble over; some repeat a part
until they have 64 KiB. The same seed gives the same inputs. Each may take 5 s of
processor time and 500 MB.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
from click import ClickException

from rescore import Rescorer, formats
from rescore.asr.combine import combine
from rescore.asr.correct import Corrector
from rescore.asr.documents import kind_of, passages
from rescore.asr.measured import measured_recordings
from rescore.asr.whole import read_systems
from rescore.cli.main import cli
from rescore.errors import UserError
from rescore.formats import read_references
from rescore.formats.audio import recordings, samples
from rescore.formats.source import Source
from rescore.lms.base import length_power
from rescore.lms.config import NetworkConfig
from rescore.lms.folders import card_value
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Audio
from rescore.reports import files, former
from rescore.reports.records import SCHEMA
from rescore.service.app import as_native, lists_of
from rescore.signature import parse
from rescore.tuning import Weights
from tests.formats.samples import SAMPLES
from tests.reliability.limits import INPUT, Spent

GROWN = 0.04  # of inputs are as large as limits are for
TOKENS = [
    b"",
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\r",
    b"\r\n",
    b"\n",
    b"\t",
    b" " * 3000,
    "\u2028".encode(),
    "\ufeff".encode(),
    b"1" + b"0" * 400,
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"[" * 3000,
    b"\\ud800",
    b"|||",
    b" ||| ",
    b"tensor(",
    b"(a+)+$",
    b"(u1)",
    b"()",
    b"=",
    b"|",
    b"@",
    b"%",
    b"lm:",
    b"w:",
]
VALUES: list[object] = [
    None,
    True,
    -1,
    0,
    1e300,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    [[]],
    {},
    {"a": []},
]

NATIVE = {
    "u1": {
        "ref": "a b",
        "src": "x",
        "hyp_1": {"score": -1.5, "text": "a c", "scores": {"tta": -2}},
        "hyp_2": {"score": -2, "text": "a b"},
    }
}
COLUMN = {
    "model": "tta",
    "fingerprint": "ab" * 32,
    "norm": "sum",
    "precision": "float32",
}
WEIGHTS = {
    "weights": {"s2s": 0.7, "tta": 0.3},
    "origin": "dev",
    "tuned": "5@ab",
    "columns": {"tta": COLUMN},
    "decision": {"name": "mbr", "scale": 1.0},
}
SIGNATURE = (
    "WER|case:lc|w:s2s=0.5|if:a@s2s=1|lm:tta=tta@abc,sum,float32|decide:mbr,2"
    "|tuned:5@ab|p:x|rescore:0.2.0"
)
ERRORS = {"substitutions": 1, "deletions": 0, "insertions": 0, "ref_words": 2}
FIGURES = {
    "metric": "WER",
    "higher_is_better": False,
    "first_pass": 1.0,
    "oracle": 0.5,
    "reranked": 0.7,
    "p_value": None,
    "counts": {"first_pass": ERRORS, "oracle": ERRORS, "reranked": ERRORS},
    "intervals": {"first_pass": [0.5, 1.5]},
}
RUN = {
    "utterances": 1,
    "hypotheses": 2,
    "weights": {"s2s": 1.0},
    "origin": "dev",
    "signature": SIGNATURE,
    "columns": {"tta": COLUMN},
    "dev": {"source": "d", "utterances": 1, "first_pass": 1.0, "reranked": 1.0},
}
SENTENCES = {"first_pass": 1, "oracle": 1, "reranked": 1}
MEASURED = {**FIGURES, "sentence_errors": SENTENCES, "signature": SIGNATURE}
FORMER = {"schema": former.SCHEMA, **RUN, "metrics": [MEASURED]}
CONDITIONS = {"settings": {"case": "lc"}, "lists": "5@ab", "versions": {"rescore": "1"}}
CHOICE = {
    "weights": {"s2s": 1.0},
    "excluded": ["respelled"],
    "decision": {"name": "mbr", "scale": 1.0},
    "tuning": {"by": "dev", "source": "d", "lists": 1, "columns": {"tta": COLUMN}},
}
RESULTS = {
    "schema": SCHEMA,
    "utterances": 1,
    "hypotheses": 2,
    "choice": CHOICE,
    "signature": SIGNATURE,
    "columns": {"tta": COLUMN},
    "metrics": [{**MEASURED, "conditions": CONDITIONS}],
}
TIMED: dict[str, str] = {
    "a.ctm": "r 1 0.00 0.30 hello 0.9\nr 1 0.50 0.30 there\n",
    "alternatives.ctm": (
        "r 1 * * <ALT_BEGIN>\nr 1 0.5 0.3 b\nr 1 * * <ALT>\nr 1 0.5 0.3 @\nr 1 * *"
        " <ALT_END>\n"
    ),
    "a.stm": "r 1 s 0.0 1.5 <o> hello there\nr 1 s 1.5 2.5 b\n",
    "a.srt": (
        "1\n00:00:00,500 --> 00:00:02,000\na <i>b</i>\n\n2\n00:00:02,000 -->"
        " 00:00:03,000\nc\n"
    ),
    "a.vtt": "WEBVTT\n\n00:00.500 --> 00:02.000\na b\n",
    "a.trn": "a b (r-1)\nc (r-2)\n",
    "a.txt": "r-00001 a b\nr-00002 c\n",
}
REQUEST = {
    "id": "u",
    "hyps": [{"text": "a b", "score": -1, "times": [[0, 0.5], [0.5, 1]]}],
    "recording": "r",
}
LINES = {
    "jsonl": (
        json.dumps(
            {
                "id": "u1",
                "ref": "a b",
                "columns": {"tta": COLUMN},
                "hyps": [{"text": "a c", "score": -1, "scores": {"tta": -3}}],
            }
        )
        + "\n"
    ),
    "espnet1": json.dumps(
        {
            "utts": {
                "u1": {
                    "output": [
                        {"text": "A B", "rec_text": "A\u2581B<eos>", "score": -1.5}
                    ]
                }
            }
        }
    ),
    "fairseq": (
        "S-0\ta b\nT-0\ta b\nH-0\t-0.5\ta@@ b\nD-0\t-0.5\tab\nP-0\t-0.5 -0.5\n2020 |"
        " INFO | x\n"
    ),
    "moses": (
        "0 ||| a b ||| LM0= -1 TM= -1 -2 ||| -3.5\n0 ||| b ||| LM0= -1 TM= -1 -2 |||"
        " -4\n1 ||| c ||| ||| -1\n"
    ),
}


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Between one and four changes."""
    for _ in range(draw.randint(1, 4)):
        size = len(content)
        at, to = sorted((draw.randint(0, size), draw.randint(0, size)))
        to = min(to, at + 40)
        lines = content.splitlines(keepends=True)
        kind = draw.randrange(7)
        if kind == 0:
            content = content[:at] + draw.choice(TOKENS) + content[at:]
        elif kind == 1:
            content = content[:at] + draw.choice(TOKENS) + content[to:]
        elif kind == 2:
            content = content[:at] + content[to:]
        elif kind == 3:
            content = content[:to] + content[at:]
        elif kind == 4 and size:
            place = draw.randrange(size)
            content = (
                content[:place]
                + bytes([content[place] ^ 1 << draw.randrange(8)])
                + content[place + 1 :]
            )
        elif kind == 5 and lines:
            draw.shuffle(lines)
            content = b"".join(lines)
        elif kind == 6 and lines:
            content = b"".join([*lines, draw.choice(lines)])
    return grown(content, draw) if draw.random() < GROWN else content


def grown(content: bytes, draw: random.Random) -> bytes:
    """A token, a few bytes or a line, repeated there until the whole has 64 KiB.

    In half of all, its first digit becomes a count, so that ids and keys differ.
    """
    at, to = sorted((draw.randint(0, len(content)), draw.randint(0, len(content))))
    line = draw.choice(content.splitlines(keepends=True) or [b"\n"])
    part = (
        draw.choice(
            [
                draw.choice(TOKENS),
                content[at : min(to, at + draw.choice([1, 8, 80]))],
                line,
            ]
        )
        or b"{"
    )
    number = (INPUT - len(content)) // len(part)
    if draw.random() < 0.5 and (digit := re.search(rb"\d", part)):
        start, end = part[: digit.start()], part[digit.end() :]
        counted = b"".join(b"%s%d%s" % (start, count, end) for count in range(number))
        return (content[:at] + counted + content[at:])[:INPUT]
    return content[:at] + part * number + content[at:]


def mutated_json(value: object, draw: random.Random) -> object:
    """A value somewhere within replaced, removed, or doubled under another key."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        change = draw.randrange(6)
        if change == 0:
            return {name: one for name, one in value.items() if name != key}
        if change == 1:
            return {
                **value,
                draw.choice(["", "x", "hyp_9", "id", "score", "text"]): value[key],
            }
        return {**value, key: mutated_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], mutated_json(value[place], draw), *value[place + 1 :]]
    return draw.choice(VALUES)


Case = tuple[str, Callable[[Path, random.Random], object]]


def cases() -> list[Case]:
    """A name, and what makes an input in a folder and reads it."""

    def of_text(
        text: str, read: Callable[[Path], object]
    ) -> Callable[[Path, random.Random], object]:
        def run(folder: Path, draw: random.Random) -> object:
            content = mutated(text.encode(), draw)
            if draw.random() < 0.05:
                content = (
                    mutated(gzip.compress(content), draw)
                    if draw.random() < 0.5
                    else gzip.compress(content)
                )
            path = folder / "x"
            path.write_bytes(content)
            return read(path)

        return run

    def of_json(
        value: object, read: Callable[[Path], object]
    ) -> Callable[[Path, random.Random], object]:
        def run(folder: Path, draw: random.Random) -> object:
            changed = value
            for _ in range(draw.randint(1, 3)):
                changed = mutated_json(changed, draw)
            path = folder / "x"
            path.write_text(json.dumps(changed), encoding="utf-8")
            return read(path)

        return run

    def lists(path: Path) -> object:
        found = formats.read([path])
        formats.write(found, str(path.with_name("out.jsonl")))
        formats.write(found, str(path.with_name("out.json")))
        with formats.opened(str(path.with_name("best"))) as file:
            formats.write_best(
                "best", [(one, one.hypotheses[0].text) for one in found], file
            )
        return found

    def espnet2(folder: Path, draw: random.Random) -> object:
        best = folder / "decode" / "logdir" / "output.1" / "1best_recog"
        best.mkdir(parents=True, exist_ok=True)
        text, score = b"u1 A B\nu2\n", b"u1 tensor(-1.5, device='cuda:0')\nu2 -1\n"
        (best / "text").write_bytes(
            mutated(text, draw) if draw.random() < 0.6 else text
        )
        (best / "score").write_bytes(mutated(score, draw))
        return formats.read([folder / "decode"])

    def toolkit(name: str) -> Callable[[Path, random.Random], object]:
        def run(folder: Path, draw: random.Random) -> object:
            shutil.rmtree(folder / name, ignore_errors=True)
            chosen = draw.choice(list(SAMPLES[name]))
            for file, text in SAMPLES[name].items():
                path = folder / name / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(
                    mutated(text.encode(), draw) if file == chosen else text.encode()
                )
            top = folder / name / chosen.partition("/")[0]
            return formats.read(
                [top],
                format_name=draw.choice([name, None]),
                options=formats.ReadOptions(size=1),
            )

        return run

    def options(folder: Path, draw: random.Random) -> object:
        (folder / "l.json").write_text(json.dumps(NATIVE), encoding="utf-8")
        (folder / "w.json").write_text('{"weights": {"s2s": 1}}', encoding="utf-8")
        option = draw.choice(
            [
                "--metric",
                "--tokenize",
                "--format",
                "--lenpen",
                "--s2s",
                "--decide",
                "--scale",
                "--ref",
            ]
        )
        values = [
            "",
            "x",
            "nan",
            "-1",
            "1e999",
            "wer",
            "bleu",
            "ter",
            "mbr",
            "13a",
            "tta",
            ".",
            "l.json",
            "native",
            "moses",
        ]
        arguments = [
            "rerank",
            "l.json",
            "--weights",
            "w.json",
            "--best",
            "b",
            option,
            draw.choice(values),
        ]
        return cli(arguments, standalone_mode=False)

    found: list[Case] = [(name, of_text(text, lists)) for name, text in LINES.items()]
    found += [
        ("native", of_text(json.dumps(NATIVE), lists)),
        ("native values", of_json(NATIVE, lists)),
        ("jsonl values", of_json(json.loads(LINES["jsonl"]), lists)),
        ("espnet1 values", of_json(json.loads(LINES["espnet1"]), lists)),
        ("espnet2", espnet2),
        (
            "kaldi",
            of_text("u1 a b\nu2 c\n", lambda path: read_references(path, ["u1", "u2"])),
        ),
        (
            "trn",
            of_text(
                "a b (u1)\nc (u2)\n", lambda path: read_references(path, ["u1", "u2"])
            ),
        ),
        (
            "output",
            of_text(
                "a { b / @ } (u1)\nc (u2)\n",
                lambda path: formats.read_output(str(path), str(path)),
            ),
        ),
        ("weights", of_text(json.dumps(WEIGHTS), Weights.load)),
        ("weights values", of_json(WEIGHTS, Weights.load)),
        ("weights of today", of_json(CHOICE, Weights.load)),
        ("former results", of_json(FORMER, files.read)),
        ("results", of_text(json.dumps(RESULTS), files.read)),
        ("results values", of_json(RESULTS, files.read)),
        (
            "signature",
            of_text(SIGNATURE, lambda path: parse(path.read_text("utf-8", "replace"))),
        ),
        (
            "config",
            of_json(
                {"kind": "tta", "layers": 3, "d_model": 16, "heads": 2},
                NetworkConfig.load,
            ),
        ),
        (
            "norm",
            of_text(
                "length^0.5",
                lambda path: length_power(path.read_text("utf-8", "replace")),
            ),
        ),
        ("options", options),
        *((name, toolkit(name)) for name in SAMPLES),
    ]

    def card(folder: Path, draw: random.Random) -> object:
        (folder / "README.md").write_bytes(
            mutated(b"---\nrecommended_weight: 0.3\n---\n# x\n", draw)
        )
        return card_value(folder, "recommended_weight")

    def recording(folder: Path, draw: random.Random) -> object:
        """A recording of a system beside another system, and the same corrected."""
        name = draw.choice(list(TIMED))
        path, other = folder / name, folder / "b.ctm"
        path.write_bytes(mutated(TIMED[name].encode(), draw))
        other.write_text(TIMED["a.ctm"])
        systems = {"a": read_systems([path])[0], "b": read_systems([other])[0]}
        return [
            [*combine(systems, Normaliser())],
            measured_recordings([str(path)], str(path)),
        ]

    corrector = Corrector(["Aoife", "gold man => Goldman"])

    def corrected(folder: Path, draw: random.Random) -> object:
        name = draw.choice(list(TIMED))
        (folder / name).write_bytes(mutated(TIMED[name].encode(), draw))
        source = Source(folder / name)
        return [
            *corrector.document(
                passages(source, draw.choice([kind_of(source), "ctm", "srt"]))
            )
        ]

    wave = io.BytesIO()
    soundfile.write(wave, np.full(2_000, 0.1), 8_000, format="WAV")
    flac = io.BytesIO()
    soundfile.write(flac, np.full((2_000, 2), 0.1), 8_000, format="FLAC")

    def sound(folder: Path, draw: random.Random) -> object:
        content = mutated(draw.choice([wave, flac]).getvalue(), draw)
        return len(
            samples(
                Audio("", draw.choice([0.0, 0.1]), draw.choice([None, 0.2]), content),
                16_000,
            )
        )

    def segments(folder: Path, draw: random.Random) -> object:
        (folder / "wav.scp").write_bytes(mutated(b"r r.wav\n", draw))
        (folder / "segments").write_bytes(mutated(b"u1 r 0.0 0.8\nu2 r 0.8 -1\n", draw))
        return recordings([str(folder)])

    manifest = {"audio_filepath": "a.wav", "offset": 0.5, "duration": 1.5}
    rescorer = Rescorer([], {"s2s": 1.0})

    def answered(path: Path) -> object:
        """A request, as the service answers it; it raises what becomes the status
        500.
        """
        lists, _ = lists_of(path.read_bytes(), path.parent)
        answers = [
            as_native(rescorer, choice)
            for choice in rescorer.decide(rescorer.score([lists])[0])
        ]
        return json.dumps(answers, allow_nan=False)

    found += [("recording", recording), ("corrected", corrected)] * 4
    found += [("sound", sound), ("segments", segments)] * 3
    found += [
        ("manifest", of_json(manifest, lambda path: recordings([str(path)]))),
        ("request", of_text(json.dumps(REQUEST), answered)),
        ("request values", of_json(REQUEST, answered)),
        (
            "request audio",
            of_json(
                {**REQUEST, "audio": {"path": "a.wav", "start": 0.5, "end": 1.0}},
                answered,
            ),
        ),
    ] * 3
    return [*found, ("card", card)]


def fuzz(
    number: int, seed: int = 0, folder: Path | None = None
) -> tuple[Counter[str], list[str]]:
    """Outcomes counted, and a report of each that must not be."""
    place = Path(tempfile.mkdtemp()) if folder is None else folder
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    every = cases()
    for index in range(number):
        name, run = every[index % len(every)]
        draw = random.Random(f"{seed} {index}")
        spent = Spent()
        try:
            run(place, draw)
            outcomes["read"] += 1
        except (UserError, ClickException) as error:
            outcomes["error"] += 1
            if len(str(error).splitlines()) > 1 and isinstance(error, ClickException):
                wrong.append(f"{name} {index}: an error of several lines: {error}")
        except Exception:
            outcomes["other"] += 1
            wrong.append(f"{name} {index}: {traceback.format_exc()}")
        if over := spent.too_much():
            outcomes["over"] += 1
            wrong.append(f"{name} {index}: took {over}")
    if folder is None:
        shutil.rmtree(place)
    return outcomes, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Mutated inputs for every reader and option value."
    )
    parser.add_argument("--number", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    outcomes, wrong = fuzz(arguments.number, arguments.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n".join(wrong[:20]))
    print(
        f"{dict(outcomes)}; {time.monotonic() - began:.0f} s; peak memory"
        f" {peak:.0f} MiB"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
