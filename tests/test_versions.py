"""Bounds of versions stand in pyproject.toml; what else names one says the same."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.test_links import pages

PROJECT: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PROJECT["project"]
BOUND = re.compile(r"^([A-Za-z0-9-]+)(?:\[[^\]]*\])?>=([0-9.]+)")
NAMED = re.compile(r"\b([a-z0-9-]+)(?:\[[^\]]*\])?>=([0-9][0-9.]*[0-9])")


def requirements() -> list[str]:
    """What is required, of the package and of its extras."""
    return [
        *PROJECT["dependencies"],
        *chain.from_iterable(PROJECT["optional-dependencies"].values()),
    ]


def lowest() -> dict[str, set[str]]:
    """The lower bounds of each package."""
    bounds: dict[str, set[str]] = {}
    for requirement in requirements():
        match = BOUND.match(requirement)
        if match:
            bounds.setdefault(match[1].lower(), set()).add(match[2])
    return bounds


def test_a_package_has_one_lower_bound() -> None:
    several = {name: found for name, found in lowest().items() if len(found) > 1}
    assert not several


def test_every_requirement_has_a_lower_bound() -> None:
    for requirement in requirements():
        ours = requirement.startswith("rescore[")
        assert ours or requirement == "regex" or ">=" in requirement, requirement


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_the_same(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    python = PROJECT["requires-python"].removeprefix(">=")
    assert set(re.findall(r"Python (3\.\d+) or later", text)) <= {python}
    bounds = lowest()
    for name, version in NAMED.findall(text):
        assert version in bounds.get(name, {version}), f"{name}>={version}"


def test_the_lowest_torch_of_the_makefile_is_the_bound() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    torch = re.search(r"^LOWEST_TORCH \?= (\S+)$", makefile, re.MULTILINE)
    assert torch is not None
    (bound,) = lowest()["torch"]
    assert torch[1].startswith(f"{bound}.")
