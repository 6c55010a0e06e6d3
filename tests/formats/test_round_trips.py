"""What is written is read again: property-based, for every format that is written."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.columns import Column
from rescore.errors import UserError
from rescore.formats import read_references
from rescore.nbest import Header, Hypothesis, NbestList

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
IDS = TEXTS.filter(lambda text: text != "")
WORDS = st.lists(st.text("abc\u00e4\u4e2d'-", min_size=1, max_size=5), max_size=6).map(
    " ".join
)
KEYS = st.text("abcXYZ019", min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.just(float("-inf"))
COLUMNS = st.dictionaries(
    IDS, st.builds(Column, TEXTS, TEXTS, TEXTS, TEXTS), max_size=2
)


@st.composite
def lists(draw: st.DrawFn) -> list[NbestList]:
    header = Header(records=draw(COLUMNS), translates=draw(st.booleans()))
    found = []
    for name in draw(st.lists(IDS, min_size=1, max_size=4, unique=True)):
        hypotheses = [
            Hypothesis(
                draw(TEXTS),
                {
                    "s2s": draw(SCORES),
                    **{key: draw(SCORES) for key in draw(st.sets(KEYS, max_size=2))},
                },
                rank=draw(st.none() | st.integers(0, 9)),
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
        references = tuple(draw(st.lists(TEXTS, max_size=2)))
        found.append(
            NbestList(
                name,
                hypotheses,
                references,
                draw(st.none() | TEXTS.filter(str.strip)),
                header,
            )
        )
    return found


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lists(), st.sampled_from(["l.json", "l.jsonl", "l.json.gz", "l.jsonl.gz"]))
def test_native(tmp_path: Path, nbest: list[NbestList], name: str) -> None:
    formats.write(nbest, str(tmp_path / name))
    again = list(formats.iterate([tmp_path / name]))
    assert again == nbest


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.dictionaries(KEYS, WORDS, min_size=1, max_size=5),
    st.sampled_from(["b", "b.trn", "b.txt"]),
)
def test_texts(tmp_path: Path, texts: dict[str, str], name: str) -> None:
    if name == "b.txt" and not any(texts.values()):
        return  # a file of empty lines is no text
    best = [(NbestList(key, [Hypothesis(text)]), text) for key, text in texts.items()]
    with formats.opened(str(tmp_path / name)) as file:
        formats.write_best(name, best, file)
    if name == "b.txt":
        lines = (tmp_path / name).read_text(encoding="utf-8").split("\n")[:-1]
        assert lines == list(texts.values())
    else:
        assert read_references(tmp_path / name, list(texts)) == {
            key: (text,) for key, text in texts.items()
        }


class Told(logging.Handler):
    """What writers say that they lose."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


MARKED = st.sampled_from(
    ["a@@ b", "x <eos>", "&lt; y", "a | b", "{ a", 'caf\u00e9, "so"']
)
SAID = WORDS.filter(bool) | MARKED
ORDINARY = st.floats(-1e6, 0, allow_subnormal=False) | st.just(float("-inf"))
WRITERS = [
    name for name in formats.FORMATS.names if hasattr(formats.FORMATS[name], "write")
]


@st.composite
def sets(draw: st.DrawFn) -> list[NbestList]:
    """Lists as tools have them: all with the same columns, with references and sources
    or without.
    """
    ids = (
        [str(number) for number in range(1, 4)]
        if draw(st.booleans())
        else ["u-1", "u-2", "v"]
    )
    names = draw(
        st.lists(
            st.sampled_from(["am", "lm", "sum", "tta", "x.y"]), max_size=3, unique=True
        )
    )
    columns = {"tta": Column("tta", "ab12", "sum", "float32")} if "tta" in names else {}
    references, sources, same = (
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(st.integers(0, 3)),
    )
    found = []
    for name in ids[: draw(st.integers(1, 3))]:
        hypotheses = [
            Hypothesis(
                draw(SAID),
                {"s2s": draw(ORDINARY), **{key: draw(ORDINARY) for key in names}},
            )
            for _ in range(same or draw(st.integers(1, 3)))
        ]
        texts = tuple(
            draw(st.lists(SAID, min_size=references, max_size=references, unique=True))
        )
        found.append(
            NbestList(
                name,
                hypotheses,
                texts,
                draw(WORDS.filter(bool)) if sources else None,
                Header(records=columns),
            )
        )
    return found


@pytest.mark.parametrize("name", WRITERS)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(given_lists=sets())
def test_convert_loses_only_what_it_says(
    name: str, tmp_path: Path, given_lists: list[NbestList]
) -> None:
    target = tmp_path / f"{len(list(tmp_path.iterdir()))}.{name}"
    told = Told()
    logging.getLogger("rescore").addHandler(told)
    try:
        formats.write(given_lists, str(target), name)
    except UserError:  # it cannot hold such lists, and says so
        assert not target.exists()
        return
    finally:
        logging.getLogger("rescore").removeHandler(told)
    beside: dict[str, Any] = {
        key: path
        for key, ending in (("references", "ref"), ("sources", "src"))
        if (path := target.with_name(f"{target.name}.{ending}")).exists()
    }
    again = list(formats.read([target], format_name=name, **beside))
    again.sort(key=lambda one: [nbest.id for nbest in given_lists].index(one.id))
    assert len(again) == len(given_lists)
    for before, after in zip(given_lists, again, strict=True):
        compare(before, after, told.text)


def compare(before: NbestList, after: NbestList, told: str) -> None:
    """Everything is there again, but for what was reported as lost."""
    assert len(after.hypotheses) == len(before.hypotheses)
    if "toolkit marks" not in told:
        assert [one.text for one in after.hypotheses] == [
            one.text for one in before.hypotheses
        ]
    if "not written: references" not in told and ", references" not in told:
        assert after.references == before.references or "toolkit marks" in told
    elif "references after the first" in told:
        assert after.references == before.references[:1] or "toolkit marks" in told
    assert after.source == before.source or "sources" in told
    for ours, theirs in zip(before.hypotheses, after.hypotheses, strict=True):
        assert same(ours.scores["s2s"], theirs.scores["s2s"])
        for column in ours.scores.keys() - {"s2s"}:
            assert f"column {column}" in told or same(
                ours.scores[column], theirs.scores[column]
            ), column
    known = before.header.records
    assert (
        after.header.records == known
        or "which models" in told
        or "column tta" in told
        or not known
    )


def same(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
