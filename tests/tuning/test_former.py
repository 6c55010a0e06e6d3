"""Weights files of former versions are read as they were meant."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rescore.decision import Choice
from rescore.errors import UserError
from rescore.files import parsed
from rescore.tuning import TunedBy, Tuning, Weights
from rescore.tuning.former import SCHEMAS, of_signature
from tests.conftest import ROOT

RELEASED = ROOT / "tests" / "data" / "released"
TUNINGS = (
    Tuning(TunedBy.TEXTS),
    Tuning(TunedBy.GIVEN),
    Tuning(TunedBy.CARD),
    Tuning(TunedBy.CARD, forced=True),
    Tuning(TunedBy.DEV, lists=8, digest="2-40b69153"),
    Tuning(TunedBy.DEV, lists=8, digest="be7d7370", forced=True),
    Tuning(TunedBy.DEV, lists=8, digest="2-40b69153").in_folds(5, "speaker", {}),
    Tuning(TunedBy.DEV, lists=8, digest="2-40b69153").in_folds(
        5, "utterance", {"cut": "0:3", "bagging": "no"}
    ),
)


def read(tmp_path: Path, values: dict[str, Any]) -> Weights:
    (tmp_path / "w.json").write_text(json.dumps(values), encoding="utf-8")
    return Weights.load(tmp_path / "w.json")


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_a_file_of_a_former_version_has_the_same_record(version: str) -> None:
    path = RELEASED / version / "weights.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    assert values["schema"] in SCHEMAS
    weights = Weights.load(path)
    tuning = weights.tuning
    assert weights.weights == values["weights"]
    for name in ("metric", "value", "first_pass", "low", "high", "settings"):
        assert getattr(tuning, name) == values["tuned_for"][name]
    assert tuning.lists == values["tuned_for"]["utterances"]
    assert tuning.source == "dev.jsonl"
    assert str(tuning) == "tuned on dev.jsonl"
    assert tuning.columns["tta"].fingerprint == values["columns"]["tta"]["fingerprint"]
    assert tuning.options is not None and tuning.options.bagging
    assert tuning.unproven is not None
    assert tuning.unproven.weights == values["unproven"]["weights"]


UNREAD = ("utterances", "plateau", "condition", "boost", "voted")
"""Keys of objects that are not read today."""


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_damage_is_told_by_the_keys_of_the_file(version: str, tmp_path: Path) -> None:
    """Whatever is damaged, the message names the file, and the key that is damaged."""
    path = RELEASED / version / "weights.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    damage = [{"x": 1}]
    for key, value in whole.items():
        with pytest.raises(UserError) as caught:
            read(tmp_path, {**whole, key: damage})
        told = str(caught.value)
        assert key in told or key.startswith("condition") or key == "excluded_in"
        assert "w.json: " in told and "tuning." not in told
        for name in value if isinstance(value, dict) else ():
            if name in UNREAD:
                continue
            with pytest.raises(UserError) as caught:
                read(tmp_path, {**whole, key: {**value, name: damage}})
            told = str(caught.value)
            # messages leave out the names of columns
            assert f"w.json: {key}.{name}" in told or f"w.json: {key}[...]" in told


def test_nothing_of_the_second_schema_is_lost(tmp_path: Path) -> None:
    """A file of today, with its record beside the weights, is the same weights."""
    path = RELEASED / "0.3.0" / "weights.json"
    weights = Weights.load(path)
    of_fold = Choice({"s2s": 0.5, "tta": 0.5}, frozenset({"respelled"}))
    weights = replace(weights, tuning=replace(weights.tuning, of_folds=(of_fold,)))
    today = json.loads(weights.to_json())
    tuning = today.pop("tuning")
    former = {**today, "schema": SCHEMAS[1], "fold_weights": tuning.pop("of_folds")}
    for name in ("columns", "options", "unproven", "toolkit"):
        former[name] = tuning.pop(name)
    names = ("metric", "settings", "value", "first_pass", "low", "high", "with_all")
    former["tuned_for"] = {name: tuning.pop(name) for name in names}
    former["tuned"] = tuning
    assert read(tmp_path, former) == weights
    assert {*tuning, *names} | {"columns", "options", "unproven", "toolkit"} == {
        entry.name for entry in fields(Tuning)
    } - {"of_folds"}


def test_weights_of_conditions_are_named(tmp_path: Path) -> None:
    values = json.loads((RELEASED / "0.2.0" / "weights.json").read_text("utf-8"))
    with pytest.raises(UserError, match=r"w\.json: .*--condition.*tune again"):
        read(tmp_path, values | {"condition": "speaker"})


def test_a_file_of_a_later_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="schema is 'rescore/weights/9'"):
        read(tmp_path, {"weights": {"s2s": 1}, "schema": "rescore/weights/9"})


@pytest.mark.parametrize("tuning", TUNINGS, ids=lambda tuning: tuning.signature)
def test_the_signature_of_a_tuning_is_read(tuning: Tuning) -> None:
    again = parsed(of_signature(tuning.signature), Tuning, "signature")
    assert again == tuning
