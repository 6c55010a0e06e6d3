"""What is written is read again: property-based, for every format that is written."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.formats import read_references
from rescore.nbest import Column, Hypothesis, NbestList

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
IDS = TEXTS.filter(lambda text: text != "")
WORDS = st.lists(st.text("abc\u00e4\u4e2d'-", min_size=1, max_size=5), max_size=6).map(" ".join)
KEYS = st.text("abcXYZ019", min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.just(float("-inf"))
COLUMNS = st.dictionaries(IDS, st.builds(Column, TEXTS, TEXTS, TEXTS, TEXTS), max_size=2)


@st.composite
def lists(draw: st.DrawFn) -> list[NbestList]:
    columns = draw(COLUMNS)
    found = []
    for name in draw(st.lists(IDS, min_size=1, max_size=4, unique=True)):
        hypotheses = [
            Hypothesis(
                draw(TEXTS), {"s2s": draw(SCORES), **{key: draw(SCORES) for key in draw(st.sets(KEYS, max_size=2))}}
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
        references = tuple(draw(st.lists(TEXTS, max_size=2)))
        found.append(NbestList(name, hypotheses, references, draw(st.none() | TEXTS.filter(str.strip)), columns))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lists(), st.sampled_from(["l.json", "l.jsonl", "l.json.gz", "l.jsonl.gz"]))
def test_native(tmp_path: Path, nbest: list[NbestList], name: str) -> None:
    formats.write(nbest, str(tmp_path / name))
    again = list(formats.iterate([tmp_path / name]))
    assert again == nbest


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, WORDS, min_size=1, max_size=5), st.sampled_from(["b", "b.trn", "b.txt"]))
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
        assert read_references(tmp_path / name, list(texts)) == {key: (text,) for key, text in texts.items()}
