"""Word lattices become N-best lists: exact, streamed, and with one line for what is
wrong in them.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.columns import Role
from rescore.errors import UserError
from rescore.formats.source import ReadOptions
from rescore.nbest import NbestList
from tests.conftest import Run, assert_one_line_error

# HTK Book, chapter on SLF; the fields as HVite and SRILM's lattice-tool -write-htk
# write them.
SLF = """VERSION=1.0
UTTERANCE=data/spk-u1.mfc
lmname=bigram
lmscale=10.00 wdpenalty=-2.00
acscale=0.5
# a comment
N=5 L=5
I=0 t=0.00 W=!NULL
I=1 t=0.50 W=HELLO v=1
I=2 t=0.50 W=HOLLOW v=1
I=3 t=0.90 W=WORLD v=1
I=4 t=1.00 W=!NULL
J=0 S=0 E=1 a=-100.0 l=-1.0
J=1 S=0 E=2 a=-90.0 l=-3.0
J=2 S=1 E=3 a=-50.0 l=-0.5
J=3 S=2 E=3 a=-50.0 l=-0.75
J=4 S=3 E=4 a=-8.0 l=0.0
"""


def found(path: Path, **options: object) -> list[NbestList]:
    return list(formats.iterate([path], options=ReadOptions(**options)))  # type: ignore[arg-type]


def texts(nbest: NbestList) -> list[tuple[str, object]]:
    return [(one.text, pytest.approx(one.scores["s2s"])) for one in nbest.hypotheses]


def test_slf(tmp_path: Path) -> None:
    (tmp_path / "x.lat").write_text(SLF)
    (nbest,) = found(tmp_path / "x.lat")
    assert nbest.id == "data/spk-u1.mfc"
    hello, hollow = -0.5 * 158 - 10 * 1.5 - 4, -0.5 * 148 - 10 * 3.75 - 4
    assert texts(nbest) == [("HELLO WORLD", hello), ("HOLLOW WORLD", hollow)]
    assert nbest.hypotheses[0].scores == {
        "s2s": pytest.approx(hello),
        "am": -158.0,
        "lm": -1.5,
    }
    assert (
        nbest.columns(Role.COMPONENT) == ["am", "lm"] and nbest.columns(Role.LM) == []
    )
    (scaled,) = found(tmp_path / "x.lat", acoustic_scale=1.0, size=1)
    assert texts(scaled) == [("HELLO WORLD", -158.0 - 15 - 4)]


def test_slf_with_words_on_links_and_other_scores(tmp_path: Path) -> None:
    text = (
        "VERSION=1.1\nbase=10\nlmscale=2 x1scale=3\nstart=5 end=7\nNODES=3"
        " LINKS=3\nI=5\nI=6\nI=7\nJ=0 START=5 END=6 WORD=\\'cause v=1 a=-1 l=-2 r=-0.5"
        ' x1=-0.25\nJ=1 S=6 E=7 W="</s>" a=0 l=0\nJ=2 S=5 E=6 W=caf\\303\\251 a=-9'
        " l=0\n"
    )
    (tmp_path / "a.b.slf").write_text(text)
    (nbest,) = found(tmp_path / "a.b.slf")
    assert nbest.id == "a.b"
    first, second = nbest.hypotheses
    assert first.text == "'cause" and second.text == "caf\u00e9"
    assert first.scores["s2s"] == pytest.approx(math.log(10) * (-1 - 4 - 0.5 - 0.75))
    assert (
        first.scores["pron"] == pytest.approx(-0.5 * math.log(10))
        and second.scores["pron"] == 0
    )
    assert nbest.columns(Role.COMPONENT) == ["am", "lm", "pron", "x1"]


def test_slf_with_words_at_the_beginning_of_links(tmp_path: Path) -> None:
    text = (
        "N=3 L=2\nbase=2 dir=b\nI=0 W=a\nI=1 W=b\nI=2\nJ=0 S=0 E=1 l=-1\nJ=1 S=1 E=2"
        " l=-2\n"
    )
    (tmp_path / "x.slf").write_text(text)
    assert texts(found(tmp_path / "x.slf")[0]) == [("a b", -3 * math.log(2))]


def test_several_slf_in_one_stream(rescore: Run) -> None:
    done = rescore("convert", "-", "-o", "-", input=SLF + SLF.replace("u1", "u2"))
    assert [
        line["id"] for line in map(json.loads, done.stdout.splitlines()) if "id" in line
    ] == ["data/spk-u1.mfc", "data/spk-u2.mfc"]


def test_a_stream_is_read_lattice_by_lattice(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(
        SLF + SLF.replace("u1", "u2") + "UTTERANCE=u3\nI=0\nbroken\n"
    )
    lists = formats.iterate([tmp_path / "x"])
    assert [next(lists).id, next(lists).id] == ["data/spk-u1.mfc", "data/spk-u2.mfc"]
    with pytest.raises(UserError, match="line 37: expected fields NAME=VALUE"):
        next(lists)


def test_a_packed_lattice_with_an_empty_text(tmp_path: Path) -> None:
    silent = SLF.replace("W=HELLO", "W=!SIL").replace("W=WORLD", "W=<sil>")
    (tmp_path / "x.lat.gz").write_bytes(gzip.compress(silent.encode()))
    (nbest,) = found(tmp_path / "x.lat.gz")
    assert [one.text for one in nbest.hypotheses] == ["", "HOLLOW"]


def test_silence_and_subwords_make_no_other_text(tmp_path: Path) -> None:
    arcs = [
        (0, 1, "\u2581he", -1.0),
        (0, 1, "\u2581hello", -3.0),
        (1, 2, "llo", -1.0),
        (1, 3, "!SIL", 0.0),
        (2, 3, "<s>", -0.5),
        (1, 3, "llo", -9.0),
    ]
    (tmp_path / "x.slf").write_text(written(arcs))
    (nbest,) = found(tmp_path / "x.slf")
    assert texts(nbest) == [("he", -1.0), ("hello", -2.5), ("hellollo", -4.5)]


ERRORS = {
    "links missing": (
        SLF.rpartition("J=4")[0],
        "the header announces 5 links, but there are 4; truncated?",
    ),
    "a line cut": (SLF.rpartition("S=3")[0], "line 17: a link without S=; truncated?"),
    "no links": (
        SLF.partition("J=0")[0],
        "the header announces 5 links, but there are 0",
    ),
    "node missing": (SLF.replace("I=3", "I=9"), "node 3, which is not in the file"),
    "cycle": (SLF.replace("J=4 S=3 E=4", "J=4 S=3 E=0"), "there is a cycle"),
    "inner cycle": (
        SLF.replace("S=0 E=2", "S=2 E=1").replace("S=2 E=3", "S=3 E=2"),
        "a cycle through node",
    ),
    "two ends": (
        SLF.replace("J=3 S=2 E=3", "J=3 S=1 E=3"),
        "2 nodes have no links out of them",
    ),
    "nan": (SLF.replace("l=-0.75", "l=nan"), "line 16: l: score is nan"),
    "base": (SLF.replace("acscale", "base=-1\nacscale"), "base is -1"),
    "probability": (
        SLF.replace("acscale", "base=0\nacscale"),
        "base is 0; expected more than 1",
    ),
    "no number": (
        SLF.replace("l=-0.75", "l=x"),
        "line 16: l: score is 'x', not a number",
    ),
    "sub-lattice": (SLF.replace("W=WORLD", "L=numbers"), "sub-lattices cannot be read"),
    "minus infinity": (
        SLF.replace("a=-8.0", "a=-inf"),
        "no path from the start to the end",
    ),
    "empty": ("\n", "no links"),
    "no field": (SLF.replace("l=-0.75", "l=-0.75 z"), "but 'z' is none"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(name: str, rescore: Run, tmp_path: Path) -> None:
    text, message = ERRORS[name]
    (tmp_path / "x.lat").write_text(text)
    assert_one_line_error(rescore("convert", "x.lat", "--format", "lattice"), message)


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, int, str, float]]:
    """Arcs of small acyclic graphs from state 0; scores are exact in binary."""
    states = draw(st.integers(2, 6))
    arcs = []
    for _ in range(draw(st.integers(1, 14))):
        source = draw(st.integers(0, states - 2))
        target = draw(st.integers(source + 1, states - 1))
        arcs.append(
            (
                source,
                target,
                draw(st.sampled_from(["", "a", "b"])),
                draw(st.integers(-6, 2)) / 4,
            )
        )
    return [*arcs, (0, states - 1, draw(st.sampled_from(["", "a", "b"])), -1.0)]


def paths(
    arcs: list[tuple[int, int, str, float]], end: int, at: int = 0
) -> Iterator[tuple[tuple[str, ...], float]]:
    """All paths to the end: words and score."""
    if at == end:
        yield (), 0.0
    for source, target, word, score in arcs:
        if source == at:
            for words, rest in paths(arcs, end, target):
                yield ((word, *words) if word else words), score + rest


def written(
    arcs: list[tuple[int, int, str, float]], names: list[int] | None = None
) -> str:
    """The arcs as SLF, with a further column that counts words; states may be
    renamed.
    """
    end = max(target for _, target, _, _ in arcs)
    names = names or list(range(end + 1))
    lines = [f"lmscale=1 start={names[0]} end={names[end]}\n"]
    for number, (source, target, word, score) in enumerate(arcs):
        count = 2.0 * bool(word)
        lines.append(
            f"J={number} S={names[source]} E={names[target]} W={word or '!NULL'}"
            f" l={score!r} x1={count}\n"
        )
    return "".join(lines)


@settings(max_examples=300)
@given(graphs(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_best_are_those_of_all_paths(
    arcs: list[tuple[int, int, str, float]], size: int, shuffler: random.Random
) -> None:
    end = max(target for _, target, _, _ in arcs)
    best: dict[tuple[str, ...], float] = {}
    for words, score in paths(arcs, end):
        best[words] = max(score, best.get(words, -math.inf))
    names = list(range(end + 1))
    shuffler.shuffle(names)
    shuffler.shuffle(arcs)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.slf").write_text(written(arcs, names))
        (nbest,) = found(Path(folder) / "x.slf", size=size)
    assert [one.scores["s2s"] for one in nbest.hypotheses] == sorted(
        best.values(), reverse=True
    )[:size]
    sequences = [tuple(one.text.split()) for one in nbest.hypotheses]
    assert len(set(sequences)) == len(sequences)
    for words, one in zip(sequences, nbest.hypotheses, strict=True):
        score = best[words]
        assert one.scores == {
            "s2s": score,
            "am": 0.0,
            "lm": score,
            "x1": 2.0 * len(words),
        }


def random_graph(
    seed: int, states: int, arcs: int, words: int
) -> list[tuple[int, int, str, float]]:
    draw = random.Random(seed)
    made = [
        (state, state + 1, str(draw.randint(0, words)), -draw.random())
        for state in range(states - 1)
    ]
    for _ in range(arcs - len(made)):
        source = draw.randrange(states - 1)
        target = min(states - 1, source + draw.randint(1, 4))
        made.append((source, target, str(draw.randint(0, words)), -draw.random()))
    return made


@pytest.mark.parametrize("scored", [True, False], ids=["scores", "ties"])
def test_a_large_lattice_takes_seconds(scored: bool, tmp_path: Path) -> None:
    arcs = random_graph(1, states=2_000, arcs=30_000, words=500)
    (tmp_path / "x.slf").write_text(
        written([(*arc, score * scored) for *arc, score in arcs])
    )
    began = time.process_time()
    (nbest,) = found(tmp_path / "x.slf")
    assert len(nbest.hypotheses) == 100
    assert time.process_time() - began < 10


def test_the_weights_of_both_scores_are_tuned(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "u1.lat").write_text(SLF)
    (tmp_path / "ref").write_text("spk-u1 hollow world\n")
    done = rescore("tune", "u1.lat", "--ref", "ref", "--components")
    assert done.returncode == 0 and json.loads(done.stdout)["weights"].keys() == {
        "s2s",
        "am",
        "lm",
    }
