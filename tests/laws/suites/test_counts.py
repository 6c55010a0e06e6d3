"""Law: the docs say how many cases of other tools are tried and how many are equal, as
the tables of cases have them.
"""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.laws.suites import (
    test_jiwer,
    test_kenlm,
    test_mbrs,
    test_sacrebleu,
    test_sctk,
)
from tests.laws.suites.suite import Suite

SUITES = [
    test_sctk.SUITE,
    test_jiwer.SUITE,
    test_sacrebleu.SUITE,
    test_mbrs.SUITE,
    test_kenlm.SUITE,
]


@pytest.mark.parametrize("suite", SUITES, ids=[suite.tool for suite in SUITES])
def test_docs_have_the_numbers(suite: Suite) -> None:
    page = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    assert f"| {suite.tool} | {suite.tried} | {suite.equal} |" in page


@pytest.mark.parametrize("suite", SUITES, ids=[suite.tool for suite in SUITES])
def test_each_difference_is_a_case_with_one_reason(suite: Suite) -> None:
    names = suite.names_of_different()
    assert set(names) <= set(suite.cases)
    assert len(names) == len(set(names))


def test_each_file_of_cases_is_counted() -> None:
    folder = ROOT / "tests" / "laws" / "suites"
    files = {path.stem for path in folder.glob("test_*.py")} - {"test_counts"}
    assert {f"test_{name}" for name in ("sctk", "jiwer", "sacrebleu", "mbrs")} < files
    assert len(files) == len(SUITES)
