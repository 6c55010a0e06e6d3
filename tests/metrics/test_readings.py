"""Texts with alternatives against all their readings, and against sclite."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.dataset import Dataset
from rescore.formats.alternatives import as_text, first_reading, readings
from rescore.metrics import Normaliser, list_statistics
from rescore.metrics.alignment import align
from rescore.metrics.base import aligned_outputs
from rescore.metrics.counting import error_counts
from rescore.metrics.wer import ErrorRate, WordErrorRate
from rescore.readings import Readings, Text, cheapest, weighed_readings
from tests.asr.test_sclite import sclite_counts
from tests.conftest import Run

LETTERS = st.lists(st.sampled_from("abcD"), min_size=1, max_size=3).map(" ".join)
ALTERNATIVE = st.one_of(LETTERS, st.just("@"))
BLOCK = st.lists(ALTERNATIVE, min_size=2, max_size=3).map(
    lambda texts: f"{{ {' / '.join(texts)} }}"
)
NESTED = st.tuples(LETTERS, BLOCK).map(lambda texts: "{ " + " / ".join(texts) + " }")
PARTS = st.lists(st.one_of(LETTERS, BLOCK, NESTED), min_size=1, max_size=3)
TEXTS = PARTS.map(" ".join)
"""Texts with and without alternatives."""


def cut(text: str) -> list[str]:
    return text.lower().split()


def cost_of(reference: str, heard: str) -> int:
    """sclite's cost of the cheapest alignment of two texts without alternatives."""
    (counts,) = error_counts([cut(reference)], [cut(heard)]).tolist()
    return 4 * counts[0] + 3 * counts[1] + 3 * counts[2]


def least(reference: Text, heard: Text) -> tuple[float, set[tuple[str, str]]]:
    """The definition: of all pairs of readings those that cost least, where an empty
    word costs a thousandth.
    """
    costs = {}
    for ours in weighed_readings(reference):
        for theirs in weighed_readings(heard):
            errors = cost_of(ours.text, theirs.text)
            costs[ours.text, theirs.text] = errors + (ours.empty + theirs.empty) / 1000
    cost = min(costs.values())
    return cost, {pair for pair, own in costs.items() if own < cost + 1e-6}


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_the_network_chooses_a_cheapest_pair_of_readings(ref: str, out: str) -> None:
    reference, heard = as_text(ref), as_text(out)
    cost, pairs = least(reference, heard)
    choice = cheapest(reference, heard, cut)
    assert (choice.reference, choice.heard) in pairs
    assert choice.cost == pytest.approx(cost, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(st.sampled_from("abcD"), max_size=8).map(" ".join))
def test_counts_alignments_and_closest_reference_are_of_the_network(
    ref: str, out: str
) -> None:
    """The short way, which aligns no networks, gives the same counts."""
    references = readings(ref, "ref")
    choice = cheapest(as_text(ref), (out,), cut)
    metric = ErrorRate()
    (counts,) = metric.statistics([out], [references]).tolist()
    ((expected),) = error_counts([cut(choice.reference)], [cut(out)]).tolist()
    assert counts[:3] == expected
    closest = metric.words.closest(references, out)
    assert len(cut(closest)) == counts[3]
    pairs = align(*metric.words.pair(references, out))
    assert sum(ours != theirs for ours, theirs in pairs) == sum(counts[:3])


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_a_text_is_one_of_its_readings(text: str) -> None:
    every = readings(text, "ref")
    assert first_reading(text) in every
    assert isinstance(every, Readings) == ("{" in text)
    whole = cheapest(as_text(text), as_text(every[-1]), cut)
    assert cut(whole.reference) == cut(every[-1])


def outputs_of(folder: Path, ref: str, out: str) -> list[str]:
    """Write a trn and its reference, and return the arguments of `rescore eval`."""
    (folder / "r.trn").write_text(f"{ref} (s-1)\n")
    (folder / "o.trn").write_text(f"{out} (s-1)\n")
    return [str(folder / "o.trn"), "--ref", str(folder / "r.trn")]


def test_details_have_the_alternatives_that_count(rescore: Run, tmp_path: Path) -> None:
    given = outputs_of(tmp_path, "{ a f e / a c a / @ } b f", "f g { x / a } a c")
    rows = tmp_path / "d.jsonl"
    report = tmp_path / "r.json"
    done = rescore("eval", *given, "--details", str(rows), "--report", str(report))
    assert done.returncode == 0, done.stderr
    row = json.loads(rows.read_text())
    assert (row["reference"], row["chosen"]) == ("b f", "f g x a c")
    (system,) = json.loads(report.read_text())["systems"]
    assert system["counts"]["ref_words"] == 2
    assert row["chosen_errors"] == system["sentence_errors"] * 5


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([], ("the CLOCK", "the clock")),
        (["--case-sensitive"], ("the clock", "the clock")),
        (["--drop-punctuation"], ("the CLOCK", "the clock")),
    ],
)
def test_the_normaliser_of_the_metric_chooses(
    options: list[str], chosen: tuple[str, str], rescore: Run, tmp_path: Path
) -> None:
    given = outputs_of(tmp_path, "the { CLOCK / clock }", "the { clock / watch }")
    rows = tmp_path / "d.jsonl"
    done = rescore("eval", *given, "--details", str(rows), *options)
    row = json.loads(rows.read_text())
    assert (row["reference"], row["chosen"]) == chosen, done.stderr
    assert row["chosen_errors"] == 0


def test_case_counts_in_alternatives_of_an_output(tmp_path: Path) -> None:
    output, _, reference = outputs_of(tmp_path, "The clock", "{ the / The } clock")
    lists = formats.read_output(output, reference)
    metric = WordErrorRate(normaliser=Normaliser(case_sensitive=True))
    assert [one.hypotheses[0].text for one in lists] == ["the clock"]
    lists = aligned_outputs(metric, Dataset.of(lists))
    assert [one.hypotheses[0].text for one in lists] == ["The clock"]


def test_steps_that_look_across_words_see_whole_readings() -> None:
    words = Normaliser(numbers="en")
    references = readings("twenty { five / six } owls", "ref")
    assert words.closest(references, "26 owls") == "twenty six owls"
    assert words.heard(("26 owls",), as_text("twenty { five / six } owls")) == (
        "twenty six owls"
    )


def test_references_of_several_files_are_chosen_apart() -> None:
    """Of each file sclite's alignment chooses; of files the fewest errors."""
    first = readings("{ a f e / a c a / @ } b f", "ref")
    both = formats.references.together([first, ("f g x a c",)])
    (counts,) = ErrorRate().statistics(["f g a a c"], [both]).tolist()
    assert counts == [1, 0, 0, 5]
    assert formats.references.together([("a",), ("b",)]) == ("a", "b")


def drawn(seed: int, folder: Path) -> tuple[Path, Path]:
    """Write 300 outputs and references with many alternatives, also nested."""
    random = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(random.choice(list("abcdefg"), random.integers(1, most + 1)))

    def block(depth: int) -> str:
        texts = [words(3) for _ in range(random.integers(2, 4))]
        if random.random() < 0.4:
            texts[-1] = "@"
        if depth:
            texts[0] = f"{words(2)} {block(depth - 1)}"
        return f"{{ {' / '.join(texts)} }}"

    def text(share: float) -> str:
        parts = []
        for _ in range(random.integers(1, 6)):
            is_block = random.random() < share
            parts.append(block(int(random.integers(2))) if is_block else words(2))
        return " ".join(parts)

    paths = folder / f"{seed}.trn", folder / f"{seed}.ref.trn"
    for path, share in zip(paths, (0.15, 0.3), strict=True):
        lines = [f"{text(share)} (s-{number})\n" for number in range(300)]
        path.write_text("".join(lines))
    return paths


@pytest.mark.tools
@pytest.mark.long
def test_networks_count_as_sclite(tmp_path: Path) -> None:
    """An empty word that is chosen may decide between alignments of the chosen words
    that cost the same: 1 of 1,000 texts.
    """
    for seed in range(3):
        output, reference = drawn(seed, tmp_path)
        lists = formats.read_output(str(output), str(reference))
        sums = np.concatenate(list_statistics(ErrorRate(), lists)).sum(axis=0)
        expected = sclite_counts(output, reference)
        assert abs(sums[[3, 0, 1, 2]] - expected).max() <= 3
