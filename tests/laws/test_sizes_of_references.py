"""Law: the size of the references under a table is in the unit of the first metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore import formats
from rescore.formats.understood import Understood
from tests.conftest import Run

SIZES = {
    "wer": "2 hypotheses, 2 reference words;",
    "cer": "2 hypotheses, 6 reference characters;",
    "bleu": "2 hypotheses, 2 reference words;",
    "exact": "2 hypotheses; 0 utterances",
}


@pytest.mark.parametrize("metric", SIZES)
def test_the_size_is_in_the_unit_of_the_metric(metric: str, rescore: Run) -> None:
    Path("t.csv").write_text("id,text,score,ref\nu1,an owl,-1,an owl\nu1,a,-2,an owl\n")
    done = rescore("run", "t.csv", "--metric", metric)
    assert done.returncode == 0 and f"1 utterance, {SIZES[metric]}" in done.stdout


def test_systems_stand_in_their_order(
    rescore: Run,
) -> None:
    """Not in the order of the texts that they wrote; their names have no endings."""
    for name, text in {"s1": "a", "s2": "b", "s3": "a"}.items():
        Path(f"{name}.kaldi").write_text(f"u-1 {text}\nu-2 {text}\n")
    paths = [f"s{number}.kaldi" for number in (1, 2, 3)]
    assert rescore("combine", *paths, "-o", "o.jsonl").returncode == 0
    understood = Understood([])
    for nbest in formats.read(["o.jsonl"]):
        understood.add(nbest)
    assert understood.columns == ["s1", "s2", "s3"]
