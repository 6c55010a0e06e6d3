"""How long a model behind a server takes when several requests are under way at once.

    python benchmarks/server.py test.json [--wait 0.02] [--hypotheses 1000]

The server runs in a thread of this process, and answers after a wait, as a server far
away does.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import speed
from common import cells_of_figures, write_json

import rescore
from rescore.reports.markup import markdown
from tests.lms.fake import MODEL, Fake, served

PARALLEL = (1, 16)
"""Requests at a time; the last is the default."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists")
    parser.add_argument("--wait", type=float, default=0.02, metavar="SECONDS")
    parser.add_argument("--hypotheses", type=int, default=1000)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    texts = speed.sample(rescore.read(options.lists), options.hypotheses)
    fake = Fake()

    def answer_late(number: int, text: str) -> None:
        time.sleep(options.wait)

    fake.trouble = answer_late
    rows = {}
    with served(fake):
        for parallel in PARALLEL:
            lm = rescore.load(f"server:parallel={parallel}:{fake.url}#{MODEL}")
            began = time.perf_counter()
            lm.score(texts)
            seconds = time.perf_counter() - began
            rows[f"parallel={parallel}"] = {
                "s": seconds,
                "hypotheses a second": len(texts) / seconds,
            }
    print(f"{speed.described(texts)}\n\n{markdown(cells_of_figures(rows))}")
    if options.output:
        write_json(options.output, rows)


if __name__ == "__main__":
    main()
