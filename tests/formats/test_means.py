"""Law: first-pass scores that are called means are means, in each form of lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore import formats
from rescore.formats.first_pass import is_mean
from rescore.formats.source import ReadOptions
from tests.conftest import Run

NAMES = ("avg_logprob", "mean_score", "avg_logprob_1", "logp", "score", "meaning")

ARPA = """
\\data\\
ngram 1=5

\\1-grams:
-1\t<unk>
0\t<s>
-1\t</s>
-1\tan
-1\towl

\\end\\
"""


def lists_of(name: str) -> dict[str, str]:
    """Return the same list in each form, with scores of this name."""
    hyps = [{"text": "a", name: -1.0}, {"text": "b", name: -2.0}]
    rows = "".join(f"u1,{hyp['text']},{hyp[name]}\n" for hyp in hyps)
    wide = f"id,h1,h2,{name}_1,{name}_2\nu1,a,b,-1,-2\n"
    return {
        "long.csv": f"id,text,{name}\n{rows}",
        "long.tsv": f"id,text,{name}\n{rows}".replace(",", "\t"),
        "wide.csv": wide,
        "lists.jsonl": json.dumps({"id": "u1", "nbest": hyps}) + "\n",
        "rows.jsonl": "".join(json.dumps({"id": "u1", **hyp}) + "\n" for hyp in hyps),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", lists_of(""))
def test_the_name_of_scores_says_whether_they_are_means(
    name: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / form
    path.write_text(lists_of(name)[form])
    fields: dict[str, str] = {"score": name}
    if form == "wide.csv":
        fields = {"text": "h*", "score": f"{name}_*"}
    lists = formats.read([path], options=ReadOptions(fields=fields))
    assert lists.header.scores_are_means is is_mean(name)
    for end in ("jsonl", "csv"):
        again = tmp_path / f"again.{end}"
        formats.write(lists, str(again))
        read = formats.read([again])
        assert read.header.scores_are_means is is_mean(name), end
        assert [each.hypotheses for each in read] == [each.hypotheses for each in lists]


@pytest.mark.parametrize(
    ("s2s", "means"), [("lm_mean", True), ("lm", False), ("rank", False)]
)
def test_another_first_pass_has_its_own_name(
    s2s: str, means: bool, tmp_path: Path
) -> None:
    path = tmp_path / "long.csv"
    path.write_text("id,text,avg_logprob,lm_mean,lm\nu1,a,-1,-3,-4\nu1,b,-2,-4,-5\n")
    assert formats.read([path]).header.scores_are_means
    assert formats.read([path], s2s=s2s).header.scores_are_means is means


def test_language_models_give_means_beside_means(rescore: Run) -> None:
    Path("lm.arpa").write_text(ARPA)
    norms = {}
    for name in ("avg_logprob", "logprob"):
        Path("t.csv").write_text(
            f"id,text,{name},ref\nu1,an owl,-1,an owl\nu1,a cowl,-2,an owl\n"
        )
        done = rescore("score", "t.csv", "--lm", "ngram:lm.arpa", "-o", f"{name}.jsonl")
        assert done.returncode == 0, done.stderr
        (line,) = Path(f"{name}.jsonl").read_text().splitlines()
        norms[name] = json.loads(line)["columns"]["ngram"]["norm"]
    assert norms == {"avg_logprob": "mean", "logprob": "sum"}
