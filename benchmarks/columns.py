"""A table with a column for each system, of lists whose hypotheses are of different
systems: `rescore combine` reads it.

    python benchmarks/columns.py LISTS NAME... -o FILE
    rescore combine FILE --field system=NAME --field system=NAME ... -o lists.jsonl

LISTS are JSON Lines with `id`, `ref` and `hyps`, as the sets `earnings21` and
`ocr-french` have them: the first hypothesis of each list is of the first NAME, and so
on. FILE is CSV.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    with (
        open(options.lists, encoding="utf-8") as lines,
        open(options.output, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["id", "ref", *options.names])
        for line in lines:
            nbest = json.loads(line)
            texts = [hypothesis["text"] for hypothesis in nbest["hyps"]]
            if len(texts) != len(options.names):
                raise SystemExit(
                    f"{options.lists}: list {nbest['id']} has {len(texts)} hypotheses;"
                    f" {len(options.names)} names are given"
                )
            writer.writerow([nbest["id"], nbest["ref"], *texts])


if __name__ == "__main__":
    main()
