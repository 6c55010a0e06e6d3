"""A large model scores the best hypotheses only, which a small model chose: the recipe
of the docs.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rescore import formats
from tests.conftest import ROOT, Run, assert_one_line_error, some_lists
from tests.lms.test_ngram import ARPA


def recipe() -> list[list[str]]:
    """The commands of the page, with n-gram models in the place of the networks."""
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    section = page.partition("## Large models\n")[2].partition("\n## ")[0]
    lines = [
        line.strip() for line in section.splitlines() if line.startswith("    rescore ")
    ]
    return [
        shlex.split(
            line.replace("--lm tta", "--lm ngram:small").replace(
                "--lm bilm", "--lm ngram:lower:large"
            )
        )[1:]
        for line in lines
    ]


@pytest.fixture
def files(tmp_path: Path) -> None:
    for name in ("dev", "test"):
        some_lists(tmp_path, name, 30)
    for number, name in enumerate(("small", "large")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lm.arpa").write_text(ARPA.replace("-0.", f"-{number}.", 1))


@pytest.mark.usefixtures("files")
def test_the_recipe_of_the_docs(rescore: Run, tmp_path: Path) -> None:
    commands = recipe()
    assert [command[0] for command in commands].count("score") == 4
    for command in commands:
        done = rescore(*command)
        assert done.returncode == 0, done.stderr
    assert (
        rescore(
            "rerank", "test.tta.json", "--weights", "first.json", "-o", "ranked.json"
        ).returncode
        == 0
    )
    assert (
        rescore(
            "score", "test.json", "--lm", "ngram:lower:large", "-o", "all.json"
        ).returncode
        == 0
    )
    whole = {nbest.id: nbest for nbest in formats.read([tmp_path / "all.json"])}
    ranked_lists, scored_lists = (
        formats.read([tmp_path / name]) for name in ("ranked.json", "test.both.json")
    )
    chosen = (tmp_path / "test.txt").read_text(encoding="utf-8").splitlines()
    for ranked, both, text in zip(ranked_lists, scored_lists, chosen, strict=True):
        texts = [hypothesis.text for hypothesis in both.hypotheses]
        assert (
            texts == [hypothesis.text for hypothesis in ranked.hypotheses[:3]]
            and text in texts
        )
        slow = {
            hypothesis.text: hypothesis.scores["ngram:lower"]
            for hypothesis in whole[both.id].hypotheses
        }
        assert both.column("ngram:lower") == [slow[text] for text in texts]


@pytest.mark.usefixtures("files")
def test_nbest_needs_an_output(rescore: Run) -> None:
    assert_one_line_error(
        rescore("rerank", "test.json", "--nbest", "3"), "--nbest", "-o"
    )
