"""Law: the weight of a model's card decides lists whose first-pass scores are like the
scores that it was tuned on; for other lists there is an error that says what to do. The
card of a network that hardly learned has no weight, an adapted network keeps the weight
of its parent, and a weight that was not tuned on lists is applied with a warning.
"""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rescore import formats
from rescore.columns import Column, Role
from rescore.dataset import FEWEST, Dataset
from rescore.given import NARROW
from rescore.lms.backends import kind_of, shipped_models
from rescore.lms.cards import recommended_weight, weight_of, weight_spread
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.training import loop, train
from rescore.lms.training.loop import Trainer
from rescore.lms.training.spent import Spent
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import KINDS
from tests.conftest import SENTENCES, Run, assert_one_line_error

CARDS = sorted(
    folder.parent.name
    for folder in shipped_models().glob("*/README.md")
    if "recommended_weight" in folder.read_text(encoding="utf-8")
)
ADVICE = ("--dev LISTS", "--folds 5", "--weight NUMBER")


def some_lists(kind: str, number: int = FEWEST) -> list[NbestList]:
    """Return lists whose scores are `ranks`, or sums with a deviation in nats."""
    draw = random.Random(3)
    lists = []
    for index in range(number):
        words = SENTENCES[index].split()
        hypotheses = []
        for place in range(4):
            score = -math.log(place + 1)
            if kind != "ranks":
                # of (0, 1, 2, 3) the deviation is the root of 5/4
                score = -place * float(kind) / math.sqrt(1.25)
            text = " ".join(draw.sample(words, len(words)))
            hypotheses.append(Hypothesis(text, {"s2s": score}))
        lists.append(NbestList(f"u{index}", hypotheses, (" ".join(words),)))
    return lists


def test_every_card_says_what_its_weight_was_tuned_on() -> None:
    assert CARDS
    for name in CARDS:
        assert 0 < recommended_weight(name) < 1
        assert weight_spread(name)


def test_facts_of_a_set() -> None:
    assert Dataset(some_lists("ranks")).is_order_only
    assert not Dataset(some_lists("0.5")).is_order_only
    assert Dataset(some_lists("0.5")).spread == pytest.approx(0.5)
    assert Dataset(some_lists("0.5", FEWEST - 1)).spread is None
    alone = [NbestList("u", [Hypothesis("a", {"s2s": 0.0})])]
    assert not Dataset(alone).is_order_only and Dataset(alone).spread is None


ROADS = {
    "run": ("run", "l.jsonl"),
    "short": ("l.jsonl",),
}


@pytest.mark.parametrize("kind", ["ranks", "narrow", "like", "wide"])
@pytest.mark.parametrize(("road", "name"), [("run", "tta-small"), ("short", "unilm")])
def test_a_weight_is_applied_to_scores_like_its_own(
    name: str, road: str, kind: str, rescore: Run
) -> None:
    spread = weight_spread(name) or 0.0
    wanted = {
        "ranks": "ranks",
        "narrow": str(0.99 * spread / NARROW),
        "like": str(1.01 * spread / NARROW),
        "wide": str(20 * spread),
    }
    formats.write(some_lists(wanted[kind]), "l.jsonl")
    done = rescore(*ROADS[road], "--lm", name)
    if kind in ("like", "wide"):
        assert done.returncode == 0, done.stderr
        return
    assert_one_line_error(done, *ADVICE)
    assert f"{recommended_weight(name):g} of {name}" in done.stderr
    given = rescore(*ROADS[road], "--lm", name, "--weight", "0.1")
    assert given.returncode == 0, given.stderr


@pytest.mark.parametrize("column", ["lm", "lm_score", "NGRAM", "ctc", "film"])
def test_a_first_pass_with_a_language_model(column: str, rescore: Run) -> None:
    lists = some_lists("2")
    records = {column: Column("espnet2", "", "", "", Role.COMPONENT)}
    for nbest in lists:
        nbest.header = nbest.header.with_records(records)
        for hypothesis in nbest.hypotheses:
            hypothesis.scores[column] = -1.0
    is_model = column not in ("ctc", "film")
    assert bool(Dataset(lists).first_pass_lm) is is_model
    formats.write(lists, "l.jsonl")
    done = rescore("run", "l.jsonl", "--lm", "tta-small")
    assert (done.returncode == 2) is is_model, done.stderr
    if is_model:
        assert_one_line_error(done, f"(column {column})", *ADVICE)


def test_ranks_in_a_scored_file_are_ranks(rescore: Run) -> None:
    """The scores of a file without scores are ranks, however often it is written."""
    lists = some_lists("ranks")
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores = {}
    rows = ["id,text"]
    for nbest in lists:
        rows += [f"{nbest.id},{hypothesis.text}" for hypothesis in nbest.hypotheses]
    Path("l.csv").write_text("\n".join([*rows, ""]))
    assert rescore("convert", "l.csv", "--s2s", "rank", "-o", "l.jsonl").returncode == 0
    for line in ("l.csv --s2s rank", "l.jsonl"):
        done = rescore("run", *line.split(), "--lm", "tta-small")
        assert done.returncode == 2 and "the rank, not a score" in done.stderr


def test_a_card_with_a_bad_spread_is_refused(tmp_path: Path, rescore: Run) -> None:
    formats.write(some_lists("2"), "l.jsonl")
    for source in (shipped_models() / "tta-small").iterdir():
        target = tmp_path / "lm" / source.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    card = tmp_path / "lm" / "README.md"
    text = card.read_text(encoding="utf-8")
    for value in ("0", "nan", "wide", "-1"):
        changed = text.replace("weight_spread: 1.2", f"weight_spread: {value}")
        card.write_text(changed, encoding="utf-8")
        done = rescore("run", "l.jsonl", "--lm", "tta:lm")
        assert done.returncode == 2 and "weight_spread is" in done.stderr, done.stderr


NETWORKS = [name for name in KINDS.shipped if isinstance(kind_of(name), NeuralKind)]

NEEDED = {
    "electra": "--generator tta-small",
    "segatron": "--positions sentence",
    "segabert": "--positions sentence",
}
"""Options that the training of a kind needs."""
READINGS = {"unified": "unified:bi"}
"""The value of --lm of a kind that has several readings."""


def write_inputs(kind: str) -> None:
    """Write a text and the size of a network."""
    Path("text.txt").write_text("\n".join(SENTENCES))
    config = NetworkConfig(
        kind, 400, layers=2, d_model=16, heads=2, d_ff=32, max_positions=24
    )
    config.save(Path("tiny.json"))


@pytest.mark.parametrize("few", [2, 3])
@pytest.mark.parametrize("kind", NETWORKS)
def test_few_updates(
    kind: str, few: int, rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two updates are too few, or enough."""
    monkeypatch.setattr(loop, "FEW_UPDATES", few)
    write_inputs(kind)
    line = f"train --lm {kind} --text text.txt --out lm --steps 2 --held-out 20"
    size = "--config tiny.json --batch-tokens 300 --device cpu"
    needed = NEEDED.get(kind, "").split()
    done = rescore(*line.split(), *size.split(), *needed)
    assert done.returncode == 0, done.stderr
    card = Path("lm", "README.md").read_text(encoding="utf-8")
    is_recommended = few <= 2
    assert ("\nrecommended_weight: 0.3\n" in card) is is_recommended
    assert ("| none, because" in card) is not is_recommended
    formats.write(some_lists("2"), "l.jsonl")
    done = rescore("run", "l.jsonl", "--lm", f"{READINGS.get(kind, kind)}:lm")
    if is_recommended:
        assert done.returncode == 0, done.stderr
        assert "give --dev LISTS or --folds 5 to tune it" in done.stderr
    else:
        assert_one_line_error(done, "no recommended_weight", "--dev")


@pytest.mark.parametrize("few", [1, 2])
@pytest.mark.parametrize("parent", ["0.41", "0", None])
def test_an_adapted_network_keeps_the_weight_of_its_parent(
    parent: str | None, few: int, rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "FEW_UPDATES", 10**6)
    write_inputs("tta")
    size = "--batch-tokens 300 --device cpu --held-out 20 --steps 1"
    line = "train --lm tta --text text.txt --config tiny.json --out base"
    assert rescore(*line.split(), *size.split()).returncode == 0
    base = Path("base", "README.md")
    card = base.read_text(encoding="utf-8")
    assert weight_of(Path("base")) is None
    if parent is not None:
        head = f"---\nrecommended_weight: {parent}\nweight_spread: 1.5"
        base.write_text(card.replace("---", head, 1), encoding="utf-8")
    monkeypatch.setattr(loop, "FEW_UPDATES", few)
    line = "train --lm tta --text text.txt --init base --out mine"
    assert rescore(*line.split(), *size.split()).returncode == 0
    weight = weight_of(Path("mine"))
    card = Path("mine", "README.md").read_text(encoding="utf-8")
    assert weight_spread("tta:mine") is None
    if parent is not None:
        assert weight == float(parent)
        assert "the weight of base, which the network started from" in card
    else:
        assert weight == (0.3 if few == 1 else None)


@pytest.mark.parametrize("name", CARDS)
def test_a_tuned_weight_needs_no_warning(name: str, rescore: Run) -> None:
    formats.write(some_lists("20", 2), "l.jsonl")
    done = rescore("run", "l.jsonl", "--lm", name)
    assert done.returncode == 0, done.stderr
    assert "to tune it" not in done.stderr


@pytest.fixture
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves by a twentieth of a second whenever a training looks at it."""
    monkeypatch.setattr(loop.time, "monotonic", itertools.count(0.0, 0.05).__next__)


@pytest.mark.usefixtures("quick_clock")
@pytest.mark.parametrize("few", [1, 10**6])
def test_few_updates_by_the_clock(
    few: int, rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "FEW_UPDATES", few)
    write_inputs("tta")
    line = "train --lm tta --text text.txt --out lm --minutes 0.02 --held-out 20"
    size = "--config tiny.json --batch-tokens 300 --device cpu"
    done = rescore(*line.split(), *size.split())
    assert done.returncode == 0, done.stderr
    assert ("too few for a useful model; " in done.stderr) is (few > 1)


def a_trainer(options: SimpleNamespace, is_done: bool) -> Trainer:
    """A trainer after one update, which are few."""
    trainer = SimpleNamespace(
        options=options,
        progress=SimpleNamespace(step=1),
        is_done=is_done,
        are_few=lambda updates: True,
        spent=Spent(60, reading=1, validation=1, updates=58, threads=1),
    )
    return cast("Trainer", trainer)


@pytest.mark.parametrize("config", ["small", "base", "mine.json"])
def test_a_small_configuration_is_no_advice_to_those_who_have_it(
    config: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = SimpleNamespace(minutes=1.0, start=None, out="lm", config=config)
    train._warn_of_few_updates(a_trainer(options, is_done=True))
    assert "give more --minutes, or" in caplog.text
    assert ("or --config small" in caplog.text) is (config != "small")


@pytest.mark.parametrize("is_done", [True, False])
def test_more_minutes_are_no_advice_to_an_adaptation_that_stopped_itself(
    is_done: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options = SimpleNamespace(minutes=10.0, start="tta", out="lm", config="small")
    train._warn_of_few_updates(a_trainer(options, is_done))
    assert ("give more --minutes" in caplog.text) is is_done


@pytest.mark.usefixtures("quick_clock")
@pytest.mark.parametrize("few", [1, 10**6])
def test_all_lines_of_an_adaptation_agree_on_few_updates(
    few: int, rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An advice about the length of the training, or about the learning rate."""
    write_inputs("tta")
    size = "--batch-tokens 300 --device cpu --held-out 20"
    line = "train --lm tta --text text.txt --config tiny.json --out base --steps 1"
    assert rescore(*line.split(), *size.split()).returncode == 0
    monkeypatch.setattr(loop, "FEW_TO_ADAPT", few)
    # the number for a network that starts from random weights says nothing here
    monkeypatch.setattr(loop, "FEW_UPDATES", 10**6 // few)
    monkeypatch.setattr(loop, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "PATIENCE", 10**6)
    line = "train --lm tta --text text.txt --init base --out mine --minutes 0.02"
    done = rescore(*line.split(), *size.split(), "--learning-rate", "1e-30")
    assert done.returncode == 0, done.stderr
    assert "of at most 300 tokens fit into --minutes 0.02" in done.stderr
    assert ("too few to learn from; " in done.stderr) is (few > 1)
    assert ("too few to show what the text can teach" in done.stderr) is (few > 1)
    assert "nothing gained: mine has the weights of base" in done.stderr
    assert ("try a lower --learning-rate" in done.stderr) is (few == 1)
