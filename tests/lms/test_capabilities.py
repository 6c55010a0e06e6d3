"""What models and their kinds say of themselves; nobody has to import PyTorch to ask a
kind.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rescore.lms import (
    Capabilities,
    Question,
    TokenScores,
    capabilities_of,
    is_pseudo,
    load,
)
from rescore.lms.backends import Recased
from rescore.lms.base import Wrapped
from rescore.lms.cache import Cached
from rescore.parts import KINDS

NETWORKS = [name for name in KINDS.names if KINDS[name].is_network]
READINGS = {"bilm": ("", "intact:"), "unified": ("bi:", "bi:intact:", "l2r:", "r2l:")}
"""How else than usually networks of a kind can read a sentence."""


@pytest.mark.parametrize("kind", NETWORKS)
def test_models_are_as_their_kind_says(kind: str, models: dict[str, Path]) -> None:
    for option in READINGS.get(kind, ("",)):
        found = capabilities_of(load(f"{kind}:{option}{models[kind]}"))
        assert found.pseudo == is_pseudo(f"{kind}:{option.rstrip(':')}"), option
        assert found.vectors and not found.source and found.context == (0, 0)


class Plain:
    """A model of a user's."""

    name = model = "plain"
    precision, fingerprint = "float64", "0" * 64

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        return []


class Reader(Plain):
    reads_source, context = True, (1, 2)


def test_models_without_the_attribute() -> None:
    assert capabilities_of(Plain()) == Capabilities()
    assert capabilities_of(Reader()) == Capabilities(source=True, context=(1, 2))


def test_wrappers_pass_on_what_a_model_reads(
    tmp_path: Path, models: dict[str, Path]
) -> None:
    for lm in (Reader(), load(f"tta:{models['tta']}")):
        inner = capabilities_of(lm)
        for wrapped in (
            Cached(lm, tmp_path),
            Recased(lm, "lower"),
            Wrapped(lm, model="a@b"),
        ):
            cached = isinstance(wrapped, Cached)
            expected = Capabilities(
                pseudo=inner.pseudo,
                source=inner.source,
                context=inner.context,
                cached=cached,
            )
            assert capabilities_of(wrapped) == expected, wrapped  # type: ignore[arg-type]


def test_kinds_cost_no_pytorch() -> None:
    code = (
        "import sys; from rescore.lms import is_pseudo; from rescore.parts import"
        " KINDS\nassert is_pseudo('tta') and all(KINDS[name].options is not None for"
        " name in KINDS.names)\nfrom rescore.cli.main import main\nsys.argv ="
        " ['rescore', 'train', '--lm', 'tta', '--help-all']\ntry: main()\nexcept"
        " SystemExit: pass\nassert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "--context" in done.stdout, done.stderr
