"""Law: the figures of a group are those of its lists alone, by every road that
measures, also where only the references name the groups; every road that writes texts
can undo Moses' tokenisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.cli.main import COMMANDS
from rescore.metrics import significance
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import STYLES
from rescore.reports import markup
from tests.conftest import parameters_of, run_main
from tests.test_roads import arpa

ACCENTS = ("us", "uk", "in")
TEXTS = ("a b c", "a b", "a c c d", "b b c", "a")

NOT_GROUPED = {
    "tune": "writes weights",
    "analyse": "lists changes, not figures of outputs",
    "serve": "answers requests",
    "score": "writes columns",
    "errors": "lists errors",
    "confidence": "calibrates words",
    "correlate": "prints correlations",
}
"""Commands with --metric or its options that print no figures of outputs."""
NOT_PLAIN = {
    "score": "writes lists that rerank reads",
    "confidence": "writes words",
    "serve": "answers requests",
    "eval": "writes no texts",
    "compare": "writes no texts",
    "correct": "reads texts as they are",
    "tune": "writes weights",
    "analyse": "writes a table",
    "errors": "writes a table",
    "correlate": "writes a table",
}
"""Commands that write lists or nothing in place of texts."""


def flags(command: str) -> set[str]:
    """Return the options of a command."""
    every: set[str] = set()
    for parameter in parameters_of(command):
        every.update(parameter.opts)
    return every


@pytest.mark.parametrize("command", list(COMMANDS))
def test_commands_that_measure_have_groups(command: str) -> None:
    own = flags(command)
    assert ("--by" in own) == ("--metric" in own and command not in NOT_GROUPED)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_commands_that_write_texts_write_them_plainly(command: str) -> None:
    own = flags(command)
    reads_lists = "--format" in own
    writes = reads_lists and bool(own & {"--best", "--output"})
    assert ("--detokenize" in own) == (writes and command not in NOT_PLAIN)


def lists() -> list[NbestList]:
    """Return lists with an accent each; the last has none."""
    every = []
    for number in range(12):
        hypotheses = []
        for rank in range(3):
            text = TEXTS[(number + rank) % len(TEXTS)]
            hypotheses.append(Hypothesis(text, {"s2s": -float(rank)}))
        reference = TEXTS[number % 2]
        nbest = NbestList(f"s{number % 4}-{number}", hypotheses, (reference,))
        nbest.fields = {"accent": ACCENTS[number % 3]} if number < 11 else {}
        every.append(nbest)
    return every


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with lists, and with the lists of each group."""
    place = tmp_path_factory.mktemp("groups")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(significance, "SAMPLES", 40)
        every = lists()
        formats.write(every, "l.jsonl")
        Path("lm.arpa").write_text(arpa(0.7))
        for name in ("-", *ACCENTS):
            own = [nbest for nbest in every if nbest.fields.get("accent", "-") == name]
            formats.write(own, f"{name}.jsonl")
        yield place


def figures(*arguments: str) -> Any:
    """Return the JSON that a command writes to stdout."""
    done = run_main(*arguments)
    assert done.returncode == 0, done.stderr
    content: Any = json.JSONDecoder().raw_decode(done.stdout.strip())[0]
    return content


ROADS = {
    "run": ("run", "{}", "--report", "-"),
    "rerank": ("rerank", "{}", "--report", "-"),
    "eval": ("eval", "{}", "--report", "-"),
    "compare": (
        *("compare", "{}", "--dev", "l.jsonl", "--lm", "ngram:lm.arpa"),
        *("--no-bagging", "-o", "-", "--style", "json"),
    ),
}
COMPARED = {"run": "first pass", "rerank": "reranked", "eval": "{}"}


@pytest.mark.parametrize("metric", ["wer", "cer", "bleu"])
@pytest.mark.parametrize("road", ["run", "rerank", "eval", "compare"])
def test_a_group_has_the_figures_of_its_lists(
    folder: Path, road: str, metric: str
) -> None:
    line = [word.format("l.jsonl") for word in ROADS[road]]
    if road == "compare":
        line = [*line[:-4], "--style", "json"]
    record = figures(*line, "--metric", metric, "--by", "accent")
    output = COMPARED.get(road, "first pass").format("l.jsonl")
    of_groups = []
    for group in record["groups"]["groups"]:
        value = group["values"][metric.upper()][output]
        path = f"{group['name']}.jsonl"
        alone = figures("eval", f"./{path}", "--metric", metric, "--report", "-")
        assert value == pytest.approx(alone["systems"][0]["value"])
        assert group["utterances"] == alone["systems"][0]["utterances"]
        of_groups.append(value)
    assert [group["name"] for group in record["groups"]["groups"]] == [
        *("-", "in", "uk", "us")
    ]
    mean = record["groups"]["macro_mean"][metric.upper()][output]
    assert mean == pytest.approx(sum(of_groups) / 4)


@pytest.mark.parametrize("metric", ["wer", "bleu"])
@pytest.mark.parametrize("road", ["run", "eval"])
def test_the_words_of_groups_sum_to_the_words_of_the_set(
    folder: Path, road: str, metric: str
) -> None:
    """Both are of the references that the metric compares with."""
    every = []
    for nbest in lists():
        second = f"{nbest.references[0]} c d"
        every.append(replace(nbest, references=(second, *nbest.references)))
    formats.write(every, "two.jsonl")
    line = [word.format("two.jsonl") for word in ROADS[road]]
    record = figures(*line, "--metric", metric, "--by", "accent")
    words = sum(group["words"] for group in record["groups"]["groups"])
    if road == "run":
        (measured,) = record["metrics"]
        counts = measured["counts"]["first_pass"]
        assert record["ref_words"] == counts["ref_words"]
    else:
        counts = record["systems"][0]["counts"]
    assert words == counts["ref_words"]
    of_first = sum(len(nbest.references[0].split()) for nbest in every)
    assert words < of_first


@pytest.mark.parametrize(
    "line",
    [
        ("run", "ids.jsonl", "--lm", "ngram:lm.arpa", "--folds", "3"),
        (
            "run",
            "ids.jsonl",
            "--lm",
            "ngram:lm.arpa",
            "--weight",
            "0.3",
            "--by-speaker",
        ),
        ("eval", "ids.jsonl", "second.jsonl", "--by-speaker"),
    ],
    ids=lambda line: f"{line[0]} {line[-1]}",
)
def test_a_field_names_the_speakers(folder: Path, line: tuple[str, ...]) -> None:
    """A field gives what the expression gives that finds the same in ids."""
    every = []
    for number, nbest in enumerate(lists()):
        name = f"{nbest.fields.get('accent', '-')}.{number}"
        every.append(replace(nbest, id=name))
    formats.write(every, "ids.jsonl")
    second = [replace(nbest, hypotheses=nbest.hypotheses[1:]) for nbest in every]
    formats.write(second, "second.jsonl")
    told = []
    for speaker in ("accent", r"^(.*?)\."):
        record = figures(*line, "--report", "-", "--speaker", speaker)
        measured = json.dumps(record["metrics" if line[0] == "run" else "systems"])
        told.append(measured.replace(json.dumps(speaker)[1:-1], "SPEAKER"))
    assert told[0] == told[1]


def write_references(kind: str) -> str:
    """Write the references with the accents; return the name of the file."""
    path = f"references.{kind}"
    rows = []
    for nbest in lists():
        row = {"id": nbest.id, "text": nbest.references[0], **nbest.fields}
        if kind in ("csv", "tsv"):
            cells = [row["id"], row["text"], row.get("accent", "")]
            rows.append(("," if kind == "csv" else "\t").join(cells))
        else:
            rows.append(json.dumps(row))
    if kind in ("csv", "tsv"):
        names = ("id", "text", "accent")
        rows.insert(0, ("," if kind == "csv" else "\t").join(names))
    Path(path).write_text("\n".join([*rows, ""]))
    return path


@pytest.mark.parametrize("road", ["run", "rerank", "eval"])
def test_a_file_names_the_groups(folder: Path, road: str) -> None:
    lines = []
    for nbest in lists():
        if "accent" in nbest.fields:
            lines.append(f"{nbest.id}\t{nbest.fields['accent']}\n")
    Path("groups").write_text("".join(reversed(lines)))
    line = [word.format("l.jsonl") for word in ROADS[road]]
    found = figures(*line, "--by", "groups")["groups"]
    assert found["groups"] == figures(*line, "--by", "accent")["groups"]["groups"]
    Path("groups").write_text("other-1 us\nother-2 us\n")
    done = run_main(*line, "--by", "groups")
    assert done.returncode == 2
    assert "groups: no group for utterance" in done.stderr


@pytest.mark.parametrize("kind", ["lists", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize("road", ["run", "rerank", "eval", "eval texts"])
def test_the_references_may_name_the_groups(folder: Path, road: str, kind: str) -> None:
    plain = [replace(nbest, references=(), fields={}) for nbest in lists()]
    formats.write(plain, "plain.jsonl")
    best = [f"{nbest.hypotheses[0].text} ({nbest.id})" for nbest in plain]
    Path("best.trn").write_text("\n".join([*best, ""]))
    path = "best.trn" if road == "eval texts" else "plain.jsonl"
    references = "l.jsonl" if kind == "lists" else write_references(kind)
    line = [word.format(path) for word in ROADS[road.removesuffix(" texts")]]
    record = figures(*line, "--ref", references, "--by", "accent")
    expected = figures("eval", "l.jsonl", "--by", "accent", "--report", "-")
    own = {}
    for name, report in (("found", record), ("expected", expected)):
        own[name] = [
            [group["name"], *list(group["values"]["WER"].values())[:1]]
            for group in report["groups"]["groups"]
        ]
    assert own["found"] == own["expected"]


@pytest.mark.parametrize("style", list(STYLES))
def test_every_style_has_the_groups(folder: Path, style: str) -> None:
    ending = STYLES.about(style)
    done = run_main("run", "l.jsonl", "--by", "accent", "--table", f"t{ending}")
    assert done.returncode == 0, done.stderr
    assert markup.checked_style("--table", f"t{ending}") == style
    for text in (Path(f"t{ending}").read_text(), done.stdout):
        assert "macro mean" in text
        assert all(accent in text for accent in ACCENTS)


def test_the_page_and_the_report_have_the_groups(folder: Path) -> None:
    done = run_main(
        *("run", "l.jsonl", "--by", "speaker", "--html", "p.html"),
        *("--report", "r.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "macro mean" in Path("p.html").read_text()
    assert "macro mean" in run_main("report", "r.json").stdout


@pytest.mark.parametrize(
    ("by", "said"),
    {
        "dialect": "all its hypotheses (found: accent)",
        "s2s": "s2s was read as a column of scores",
        "^s": "the expression has no group",
        "(x)": "does not match it",
        "(": "is not a regular expression",
    }.items(),
)
def test_groups_that_are_not_there_are_refused(
    folder: Path, by: str, said: str
) -> None:
    for road in ("run", "eval"):
        done = run_main(road, "l.jsonl", "--by", by)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr) < 300
