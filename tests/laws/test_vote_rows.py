"""Law: each row of the table of several systems is what its name says: a command that
makes this output alone has the same figure, and the p-values are of the last row. Each
figure that a sentence names stands in a row.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.asr.systems import combined
from rescore.metrics import significance
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from rescore.reports.results import decision_title
from tests.conftest import quick_folder, run_main

SYSTEMS = {"good": 0.1, "fair": 0.2, "poor": 0.3, "worst": 0.4}
"""The share of words that each system has wrong."""
ROADS = {
    "tuned votes": "--dev lists.jsonl",
    "tuned votes of folds": "--folds 3",
    "votes by agreement": "",
    "equal votes": "--votes equal",
}


def outputs() -> dict[str, list[NbestList]]:
    """Return the lists of each system."""
    chance = random.Random(5)
    every: dict[str, list[NbestList]] = {name: [] for name in SYSTEMS}
    for number in range(40):
        words = chance.choices("abcdefgh", k=6)
        for name, share in SYSTEMS.items():
            heard = []
            for word in words:
                is_wrong = chance.random() < share
                heard.append(chance.choice("abcdefgh") if is_wrong else word)
            hypothesis = Hypothesis(" ".join(heard), {"s2s": 0.0})
            nbest = NbestList(f"u{number}", [hypothesis], (" ".join(words),))
            every[name].append(nbest)
    return every


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with quick_folder(tmp_path_factory.mktemp("votes")) as patch:
        patch.setattr(significance, "SAMPLES", 50)
        every = outputs()
        for name, lists in every.items():
            formats.write(lists, f"{name}.jsonl")
        formats.write(combined(every), "lists.jsonl")
        yield


def measured(line: str) -> dict[str, Any]:
    """Return the record of the metric of a command, and check what it prints."""
    done = run_main(*line.split(), "--report", "r.json")
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(Path("r.json").read_text())["metrics"][0]
    return record | {"printed": done.stdout}


def names_of(printed: str) -> list[str]:
    """Return the names of the rows of the table."""
    rows = printed.partition("\n\n")[0].splitlines()[1:]
    return [row.partition("  ")[0] for row in rows]


def check_figures(printed: str) -> None:
    """Check that the table has each figure that a sentence calls an error rate, and
    that the number of changed utterances says what they differ from.
    """
    table, _, sentences = printed.partition("\n\n")
    figures = set()
    for row in table.splitlines()[1:]:
        figures.update(re.findall(r"\d+\.\d\d", row.split("-")[0]))
    named = re.findall(r"(\d+\.\d\d) -> (\d+\.\d\d)", sentences)
    assert figures.issuperset(chain.from_iterable(named)), printed
    assert re.search(r"utterances? differs? from the mixture\n", sentences)


@pytest.mark.parametrize(
    ("decision", "road"), list(product(sorted(DECISIONS.shipped), ROADS))
)
def test_each_row_is_what_its_name_says(decision: str, road: str) -> None:
    record = measured(f"run lists.jsonl --decide {decision} {ROADS[road]}")
    title = decision_title(decision)
    last = ", ".join(filter(None, [road.removesuffix(" of folds"), title]))
    equal = record["equal_votes"]
    votes = [last] if equal is None else [equal["name"], last]
    expected = [*SYSTEMS, "mixture", "oracle", *votes]
    assert names_of(record["printed"]) == expected
    check_figures(record["printed"])
    for row in record["systems"]:
        alone = measured(f"run {row['name']}.jsonl")
        assert row["value"] == alone["first_pass"]
    assert record["best_system"]["value"] == min(
        row["value"] for row in record["systems"]
    )
    if road == "equal votes":
        assert equal is None
        return
    name, _, options = equal["name"].partition(" (")
    assert name == "equal votes"
    assert not options or (decision == "rover" and "tuned" in road)
    if "no word" in options:
        factor = options.removeprefix("no word ").removesuffix(")")
        asked = f"--decide {decision} --votes equal --no-word {factor}"
        again = measured(f"run lists.jsonl {asked}")
        assert equal["value"] == again["reranked"]
    if road == "votes by agreement":
        again = measured(f"run lists.jsonl --decide {decision} --votes equal")
        assert equal["value"] == again["reranked"]
    if road == "tuned votes":
        save = (
            f"run lists.jsonl --decide {decision} {ROADS[road]} --save-weights w.json"
        )
        assert run_main(*save.split()).returncode == 0
        weights = json.loads(Path("w.json").read_text())
        weights["mixture"]["votes"] = dict.fromkeys(SYSTEMS, 1.0)
        Path("equal.json").write_text(json.dumps(weights))
        again = measured("rerank lists.jsonl --weights equal.json --best texts")
        assert equal["value"] == again["reranked"]
    for row in (record["best_system"], equal):
        if row["value"] != record["reranked"]:
            change = f"WER {record['reranked'] - row['value']:+.2f}, "
            assert f"{change}" in record["printed"]
            assert 0 < row["p_value"] <= 1
