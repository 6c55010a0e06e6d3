"""Law 3: what says nothing changes nothing.

The order of lists, their ids, the form of their file, columns without a weight, copies
of hypotheses, and the batch in which a text is scored change neither a figure nor a
signature, for every metric, every decision, and every way to tune.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import signal
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from rescore.asr.mixture import Mixture
from rescore.lms import load, without_context
from rescore.lms.base import ComputeOptions
from rescore.lms.training import loop
from rescore.metrics import significance
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.parts import DECISIONS, METRICS
from tests.conftest import OF_TEXTS, SENTENCES, WORDS, Run, fewer_samples
from tests.lms.training.test_loop import TRAIN, tiny

Lists = list[dict[str, Any]]


def some_lists(seed: int, number: int = 14) -> Lists:
    """Return lists with short references, some of which are equal."""
    draw = random.Random(seed)
    lists = []
    for index in range(number):
        words = ["the", draw.choice(WORDS[:3]), "old", draw.choice(WORDS[:2])]
        hyps = []
        for place in range(5):
            heard = list(words)
            heard[draw.randrange(4)] = draw.choice([*WORDS[:4], "an", "oh"])
            if draw.random() < 0.4:
                heard.append("by")
            scores = {"a": -round(9 * draw.random(), 3), "b": -round(draw.random(), 3)}
            hyps.append(
                {"text": " ".join(heard), "score": -place - 0.25, "scores": scores}
            )
        reference = " ".join(words)
        entry = {"id": f"u{index:02}", "ref": reference, "src": reference, "hyps": hyps}
        lists.append(entry)
    return lists


# --- what says nothing ---------------------------------------------------------------


def packed(lists: Lists, path: Path) -> list[Path]:
    place = path.with_suffix(".jsonl.gz")
    place.write_bytes(gzip.compress(as_lines(lists).encode()))
    return [place]


def in_parts(lists: Lists, path: Path) -> list[Path]:
    paths = []
    for number, part in enumerate((lists[:5], lists[5:])):
        place = path.with_suffix(f".{number}.jsonl")
        place.write_text(as_lines(part))
        paths.append(place)
    return paths


def as_lines(lists: Lists) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in lists)


def with_bytes(change: Callable[[bytes], bytes]) -> Callable[[Lists, Path], list[Path]]:
    """Return a writer of a file whose bytes are changed."""

    def write(lists: Lists, path: Path) -> list[Path]:
        path.write_bytes(change(as_lines(lists).encode()))
        return [path]

    return write


def with_lists(change: Callable[[Lists], Lists]) -> Callable[[Lists, Path], list[Path]]:
    """Return a writer of changed lists."""

    def write(lists: Lists, path: Path) -> list[Path]:
        path.write_text(as_lines(change(lists)))
        return [path]

    return write


def shuffled(lists: Lists) -> Lists:
    return random.Random(3).sample(lists, len(lists))


def renamed(lists: Lists) -> Lists:
    """Return lists with ids that sort otherwise."""
    changed = []
    for entry in lists:
        digest = sha256(entry["id"].encode()).hexdigest()[:10]
        changed.append(entry | {"id": f"x{digest}"})
    return changed


UNWEIGHTED = {
    "ctc": {
        "model": "toolkit",
        "fingerprint": "",
        "norm": "sum",
        "precision": "",
        "role": "component",
    }
}
"""The record of a column that has no weight unless --components is given."""


def of_hypotheses(change: Callable[[Lists], Lists]) -> Callable[[Lists], Lists]:
    """Return a change of lists that changes the hypotheses of each."""

    def changed(lists: Lists) -> Lists:
        kept = []
        for entry in lists:
            kept.append(entry | {"hyps": change(entry["hyps"]), "columns": UNWEIGHTED})
        return kept

    return changed


def with_unweighted(hyps: Lists) -> Lists:
    """Return hypotheses with a column that differs between copies."""
    changed = []
    for place, hyp in enumerate(hyps):
        scores = hyp["scores"] | {"ctc": -float(place % 3)}
        changed.append(hyp | {"scores": scores})
    return changed


def with_copies(hyps: Lists) -> Lists:
    """Return hypotheses with copies, some of which differ in a column without a
    weight.
    """
    again = [hyp | {"scores": hyp["scores"] | {"ctc": -9.0}} for hyp in hyps[:3]]
    first = [hyp | {"scores": hyp["scores"] | {"ctc": -1.0}} for hyp in hyps]
    return [*first, *again, hyps[0] | {"scores": first[0]["scores"]}]


CHANGES = {
    "order of lists": with_lists(shuffled),
    "ids": with_lists(renamed),
    "ids and order": with_lists(lambda lists: renamed(shuffled(lists))),
    "order of hypotheses": with_lists(of_hypotheses(shuffled)),
    "column without weight": with_lists(of_hypotheses(with_unweighted)),
    "copies": with_lists(of_hypotheses(with_copies)),
    "packed": packed,
    "in parts": in_parts,
    "CRLF": with_bytes(lambda content: content.replace(b"\n", b"\r\n")),
    "BOM": with_bytes(lambda content: b"\xef\xbb\xbf" + content),
}
"""Changes that say nothing."""
ALONE = ("packed", "in parts", "CRLF", "BOM", "order of lists", "ids")
"""Changes that readers undo, and parts of another change: two commands show them."""
TEST = ("TEST",)
DEV = ("--dev", "DEV")
TUNED = ("run", *TEST, *DEV)
COMMANDS: dict[str, Sequence[str]] = {
    "run": TUNED,
    "no bagging": (*TUNED, "--no-bagging"),
    "weights": ("run", *TEST, "--weight", "0.3", "--weight", "0.2"),
    "bonus": (*TUNED, "--word-bonus", "tune"),
    "folds": ("run", *TEST, "--folds", "3"),
    "given samples": ("run", *TEST, "--decide", "mbr", "--scale", "0"),
}
for decision in DECISIONS.shipped:
    COMMANDS[decision] = (*TUNED, "--decide", decision)
    if DECISIONS[decision].uses_posteriors:
        COMMANDS[f"{decision} of samples"] = (
            *("run", *TEST, *DEV, "--decide", decision, "--scale", "0"),
        )
for metric in OF_TEXTS:
    if metric != "comet":  # it needs a model
        COMMANDS[f"eval {metric}"] = ("eval", *TEST, "--metric", metric)
CASES = [
    (name, change)
    for name in COMMANDS
    for change in CHANGES
    if change not in ALONE or name in ("run", "folds")
]


def results(rescore: Run, command: Sequence[str], files: dict[str, list[Path]]) -> Any:
    """Return the figures, intervals and signatures of a command."""
    arguments: list[str | Path] = []
    for word in command:
        if word == "DEV":
            first, *rest = files["DEV"]
            arguments.append(first)
            for path in rest:
                arguments += ["--dev", path]
        else:
            arguments += files.get(word, [word])
    if "--metric" in command and "words" in options_of(command[-1]):
        arguments += ["--words", "words"]
    done = rescore(*arguments, "--report", "report.json")
    assert done.returncode == 0, done.stderr
    report = json.loads(Path("report.json").read_text())
    kept = []
    for system in report if isinstance(report, list) else [report]:
        for row in system.get("metrics", system.get("systems")):
            for name in ("name", "seconds"):
                row.pop(name, None)
            kept.append(row)
        for name in ("signature", "weights", "changed", "oracles"):
            kept.append(system.get(name))
    return kept


def without_means(kept: list[Any]) -> list[Any]:
    """Return results without the means of samples: a copy of a sample is a sample."""
    rest = copy.deepcopy(kept)
    for row in rest:
        if isinstance(row, dict):
            row.pop("mean_of_samples", None)
    return rest


def options_of(metric: str) -> set[str]:
    return set(METRICS[metric].Options.__dataclass_fields__)


BEFORE: dict[str, Any] = {}
"""The results of each command on the lists as they are."""


@pytest.mark.parametrize(("command", "change"), CASES)
def test_what_says_nothing_changes_nothing(
    rescore: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    change: str,
) -> None:
    fewer_samples(monkeypatch)
    monkeypatch.setattr(significance, "SAMPLES", 40)
    (tmp_path / "words").write_text("gardener\nold\n")
    lists = {"TEST": some_lists(1), "DEV": some_lists(2, 20)}
    if command not in BEFORE:
        plain = {}
        for name, entries in lists.items():
            path = tmp_path / f"{name.lower()}.jsonl"
            path.write_text(as_lines(entries))
            plain[name] = [path]
        BEFORE[command] = results(rescore, COMMANDS[command], plain)
    if "samples" in command and change == "copies":
        pytest.skip("a sample that was drawn twice counts twice")
    files = {}
    for name, entries in lists.items():
        files[name] = CHANGES[change](entries, tmp_path / f"{name.lower()}.jsonl")
    before, after = BEFORE[command], results(rescore, COMMANDS[command], files)
    if change == "copies":
        before, after = without_means(before), without_means(after)
    assert after == before


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-4), ("int8", 0.02)])
@pytest.mark.parametrize("kind", ["tta", "bilm", "unilm"])
def test_scores_do_not_depend_on_the_batch(
    models: dict[str, Path], kind: str, precision: str, error: float
) -> None:
    """Neither on its size, nor on the texts beside a text, nor on threads.

    With int8, the last digit of a float32 number may move it by one step.
    """
    questions = without_context(SENTENCES[:12])
    every = []
    try:
        for tokens, threads in ((20, 1), (400, 1), (400, 2)):
            torch.set_num_threads(threads)
            computing = ComputeOptions(precision=precision, batch_tokens=tokens)
            lm = load(f"{kind}:{models[kind]}", computing)
            every.append([scores.sum for scores in lm.score(questions)])
            (alone,) = lm.score(questions[:1])
            assert alone.sum == pytest.approx(every[-1][0], abs=error)
    finally:
        torch.set_num_threads(1)
    for scores in every[1:]:
        assert scores == pytest.approx(every[0], abs=error)


def test_a_scale_of_zero_leaves_texts_of_others_impossible() -> None:
    """0 * -inf is 0 where a column has the weight 0; a text that a system did not write
    has no share of its vote.
    """
    hypotheses = [Hypothesis("a", {"x": -1.0}), Hypothesis("b", {"y": -2.0})]
    nbest = NbestList("u", hypotheses, header=Header())
    scores = Mixture({"x": 1.0, "y": 0.0}, {"x": 0.0}).scores(nbest)
    assert scores == [0.0, -float("inf")]


@pytest.mark.usefixtures("heeded")
def test_a_training_that_was_interrupted_gives_the_same_weights(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adaptation validates, and keeps the best weights, at the same steps."""
    tiny(tmp_path)
    base = (*TRAIN, "--text", "text.txt", "--out", "base", "--steps", "0")
    assert rescore(*base).returncode == 0
    adapt = (*TRAIN[:3], "--batch-tokens", "300", "--device", "cpu", "--init", "base")
    adapt = (*adapt, "--text", "text.txt", "--steps", "23", "--learning-rate", "0.05")
    assert rescore(*adapt, "--out", "whole").returncode == 0
    update = loop.Trainer.update

    def interrupted(trainer: loop.Trainer, *batch: Any) -> Any:
        if trainer.progress.step in (6, 13):
            signal.raise_signal(signal.SIGINT)
        return update(trainer, *batch)

    monkeypatch.setattr(loop.Trainer, "update", interrupted)
    for more in ((), ("--resume",)):
        assert rescore(*adapt, "--out", "parts", *more).returncode == 130
    monkeypatch.setattr(loop.Trainer, "update", update)
    assert rescore(*adapt, "--out", "parts", "--resume").returncode == 0
    whole, parts = (
        (tmp_path / name / "model.safetensors").read_bytes()
        for name in ("whole", "parts")
    )
    assert whole == parts
