"""Commands whose outputs are on a failing file system: run with `failing.c` preloaded,
in a folder with their inputs.

Prints one JSON object per line: what failed, and what the command left behind.
"""

from __future__ import annotations

import errno
import json
import os
import traceback
from pathlib import Path

from tests.conftest import Done, run_main

LISTS, LM = "l.json", ("--lm", "ngram:lm.arpa")
COMMANDS = {
    "lists": ("score", LISTS, *LM, "-o", "broken-disk/x.jsonl"),
    "packed": ("convert", LISTS, "-o", "broken-disk/x.jsonl.gz"),
    "folder": ("convert", LISTS, "--to", "espnet2", "-o", "broken-disk/x"),
    "table": ("convert", LISTS, "-o", "broken-disk/x.csv"),
    "best": ("run", LISTS, "--best", "broken-disk/x.trn"),
    "report": ("run", LISTS, "--report", "broken-disk/x.json"),
    "page": ("run", LISTS, "--html", "broken-disk/x.html"),
    "weights": ("tune", "scored.jsonl", "-o", "broken-disk/x.json"),
    "analysis": (
        "analyse",
        "scored.jsonl",
        "--weights",
        "w.json",
        "-o",
        "broken-disk/x.json",
    ),
    "cache": ("score", LISTS, *LM, "--cache", "broken-disk/x", "-o", "y.jsonl"),
    "recipe": ("init", "broken-disk"),
    "network": (
        "train",
        "--lm",
        "tta",
        "--text",
        "t.txt",
        "--config",
        "c.json",
        "--steps",
        "1",
        "--out",
        "broken-disk/x",
    ),
}
CALLS = {"o": "open", "w": "write", "s": "sync", "r": "rename", "m": "mkdir"}
ERRORS = (errno.ENOSPC, errno.EIO, errno.ESTALE)


def main() -> None:
    os.environ["FAIL_PATH"] = "broken-disk/"
    for name, command in COMMANDS.items():
        for letter, call in CALLS.items():
            for number in ERRORS:
                if (target := Path(command[-1])).suffix:
                    target.write_bytes(b"old")
                os.environ |= {"FAIL_ERRNO": str(number), "FAIL_CALLS": letter}
                try:
                    done = run_main(*command)
                except Exception:
                    done = Done(1, "", traceback.format_exc())
                del os.environ["FAIL_CALLS"]
                kept = target.read_bytes() == b"old" if target.is_file() else None
                left = sorted(
                    str(path)
                    for path in Path("broken-disk").rglob("*")
                    if path.is_file()
                )
                for path in left:
                    Path(path).unlink()
                print(
                    json.dumps(
                        {
                            "command": name,
                            "call": call,
                            "error": errno.errorcode[number],
                            "status": done.returncode,
                            "stderr": done.stderr,
                            "kept": kept,
                            "left": left,
                        }
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
