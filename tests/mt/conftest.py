"""Lists that several test modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_json
from tests.mt.test_lexical_training import pairs


@pytest.fixture
def translations(tmp_path: Path) -> Path:
    lists = {}
    for number, (source, target) in enumerate(pairs(12, seed=8)):
        worse = {"score": -1, "text": "falsch " + target}
        lists[f"u{number}"] = {
            "ref": target,
            "src": source,
            "hyp_1": worse,
            "hyp_2": {"score": -1.1, "text": target},
        }
    return write_json(tmp_path / "l.json", lists)
