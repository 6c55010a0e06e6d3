"""Word lattices become N-best lists: exact, streamed, and with one line for what is wrong in them."""

from __future__ import annotations

import gzip
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.asr.formats.lattice_paths import NO_WORD, Arcs, Lattice
from rescore.asr.formats.lattices import fewest_errors
from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import NbestList, component_columns, score_columns
from tests.conftest import Run, assert_one_line_error

# HTK Book, chapter on SLF; the fields as HVite and SRILM's lattice-tool -write-htk write them.
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
# kaldi: WriteLattice and WriteCompactLattice in lat/kaldi-lattice.cc.
KALDI = (
    "u1 \n0\t1\t7\t1\t1.5,20\n0\t1\t8\t2\t2.5,18\n1\t2\t9\t0\t0.5,1\n1\t2\t9\t3\n2\t0.25,0.5\n\n"
    "u2 \n0\t1\t7\t3\t1,2\n1\n\n"
)
COMPACT = "u1 \n0\t1\tHELLO\t1.5,20,7_7_7\n0\t1\tHOLLOW\t2.5,18,8_8\n1\t0.25,0.5,9\n\nu2 \n0\t0,1,3\n\n"
OPENFST = "0 1 1 1 1.5\n0 1 2 2 2.5\n1 2 3 3\n2 0.25\n"
SYMBOLS = "<eps> 0\nHELLO 1\nHOLLOW 2\nWORLD 3\n"


def found(path: Path, **options: object) -> list[NbestList]:
    return list(formats.iterate([path], options=ReadOptions(**options)))  # type: ignore[arg-type]


def texts(nbest: NbestList) -> list[tuple[str, object]]:
    return [(one.text, pytest.approx(one.scores["s2s"])) for one in nbest.hypotheses]


def test_slf(tmp_path: Path) -> None:
    (tmp_path / "x.lat").write_text(SLF)
    (nbest,) = found(tmp_path / "x.lat")
    assert nbest.id == "spk-u1"
    hello, hollow = -0.5 * 158 - 10 * 1.5 - 4, -0.5 * 148 - 10 * 3.75 - 4
    assert texts(nbest) == [("HELLO WORLD", hello), ("HOLLOW WORLD", hollow)]
    assert nbest.hypotheses[0].scores == {"s2s": pytest.approx(hello), "am": -158.0, "lm": -1.5}
    assert component_columns(nbest) == ["am", "lm"] and score_columns(nbest) == []
    (scaled,) = found(tmp_path / "x.lat", acoustic_scale=1.0, size=1)
    assert texts(scaled) == [("HELLO WORLD", -158.0 - 15 - 4)]


def test_slf_with_words_on_links_and_other_scores(tmp_path: Path) -> None:
    text = (
        "VERSION=1.1\nbase=10\nlmscale=2 x1scale=3\nstart=5 end=7\nNODES=3 LINKS=3\nI=5\nI=6\nI=7\n"
        'J=0 START=5 END=6 WORD=\\\'cause v=1 a=-1 l=-2 r=-0.5 x1=-0.25\nJ=1 S=6 E=7 W="</s>" a=0 l=0\n'
        "J=2 S=5 E=6 W=caf\\303\\251 a=-9 l=0\n"
    )
    (tmp_path / "a.b.slf").write_text(text)
    (nbest,) = found(tmp_path / "a.b.slf")
    assert nbest.id == "a.b"
    first, second = nbest.hypotheses
    assert first.text == "'cause" and second.text == "caf\u00e9"
    assert first.scores["s2s"] == pytest.approx(math.log(10) * (-1 - 4 - 0.5 - 0.75))
    assert first.scores["pron"] == pytest.approx(-0.5 * math.log(10)) and second.scores["pron"] == 0
    assert component_columns(nbest) == ["am", "lm", "pron", "x1"]


def test_slf_backward_and_probabilities(tmp_path: Path) -> None:
    text = "N=3 L=3\nbase=0 dir=b\nI=0 W=a\nI=1 W=b\nI=2\nJ=0 S=0 E=1 l=0.5\nJ=1 S=1 E=2 l=0.25\nJ=2 S=0 E=2 l=0\n"
    (tmp_path / "x.slf").write_text(text)
    assert texts(found(tmp_path / "x.slf")[0]) == [("a b", math.log(0.125))]


def test_several_slf_in_one_stream(rescore: Run) -> None:
    done = rescore("convert", "-", "-o", "-", input=SLF + SLF.replace("u1", "u2"))
    assert [line["id"] for line in map(json.loads, done.stdout.splitlines()) if "id" in line] == ["spk-u1", "spk-u2"]


def test_kaldi_archives(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text(SYMBOLS)
    (tmp_path / "lat.1").write_text(KALDI)
    one, two = found(tmp_path / "lat.1")
    expected = [("HELLO WORLD", -22.25), ("HOLLOW WORLD", -21.25), ("HELLO", -23.75), ("HOLLOW", -22.75)]
    assert (one.id, two.id) == ("u1", "u2")
    assert texts(one) == sorted(expected, key=lambda pair: -pair[1]) and texts(two) == [("WORLD", -3.0)]
    assert one.hypotheses[0].scores == {"s2s": -21.25, "lm": -2.75, "am": -18.5}
    scaled = found(tmp_path / "lat.1", acoustic_scale=0.1)[0]
    assert scaled.hypotheses[0].text == "HELLO WORLD"
    assert scaled.hypotheses[0].scores["s2s"] == pytest.approx(-1.75 - 2.05)


def test_compact_archives_with_an_empty_hypothesis(tmp_path: Path) -> None:
    (tmp_path / "lat.txt.gz").write_bytes(gzip.compress(COMPACT.encode()))
    one, two = found(tmp_path / "lat.txt.gz")
    assert texts(one) == [("HOLLOW", -21.25), ("HELLO", -22.25)]
    assert texts(two) == [("", -1.0)] and component_columns(two) == ["lm", "am"]


@pytest.mark.parametrize(
    "text",
    [OPENFST, "0 1 1 1.5\n0 1 2 2.5\n1 2 3\n2 0.25\n", "0 1 x HELLO 1.5\n0 1 x HOLLOW 2.5\n1 2 x WORLD 0\n2 0.25\n"],
    ids=["transducer", "acceptor", "words"],
)
def test_openfst(text: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "symbols").write_text(SYMBOLS)
    (tmp_path / "lats").mkdir()
    for name in ("u-1.fst.txt", "u-2.fst.txt"):
        (tmp_path / "lats" / name).write_text(text)
    done = rescore("convert", "lats", "--symbols", "symbols", "-o", "-")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["u-1", "u-2"]
    assert [(one["text"], one["score"]) for one in lines[0]["hyps"]] == [
        ("HELLO WORLD", -1.75),
        ("HOLLOW WORLD", -2.75),
    ]


def test_silence_and_subwords_make_no_other_text(tmp_path: Path) -> None:
    lines = "0 1 \u2581he x 1\n0 1 \u2581hello x 3\n1 2 llo x 1\n1 3 !SIL x 0\n2 3 <eps> x 0.5\n1 3 llo x 9\n3\n"
    transducer = "\n".join(
        " ".join([*(cells := line.split())[:2], "x", cells[2], *cells[4:]]) for line in lines.splitlines()[:-1]
    )
    (tmp_path / "x").write_text(transducer + "\n3\n")
    (nbest,) = found(tmp_path / "x")
    assert texts(nbest) == [("he", -1.0), ("hello", -2.5), ("hellollo", -4.5)]


def test_a_pipe_is_read_lattice_by_lattice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(COMPACT + "u3 \nbroken\n\n")
    lists = formats.iterate([tmp_path / "x"])
    assert [next(lists).id, next(lists).id] == ["u1", "u2"]
    with pytest.raises(UserError, match="line 10: expected the number of a state"):
        next(lists)


CYCLE = "0 1 a a 1\n1 0 a a 1\n1 2 a a\n2\n"
ERRORS = {
    "cycle": (CYCLE, "there is a cycle through state 1; lattices are acyclic"),
    "loop": ("0 1 a a 1\n1 1 a a 1\n1\n", "there is a cycle through state 1"),
    "no final state": ("0 1 a a 1\n1 2 a a 1\n", "no final state; truncated?"),
    "no path": ("0 1 a a 1\n2 3 a a 1\n3\n", "no path from the start to a final state"),
    "unreachable by cost": ("0 1 a a inf\n1\n", "no path from the start to a final state"),
    "unknown symbol": ("0 1 1 9 1\n1\n", "label 9 is not in words.txt"),
    "nan": ("0 1 a a nan\n1\n", "line 1: score is nan"),
    "minus infinity": ("0 1 a a 1\n0 1 a b -inf\n1\n", "line 2: score is -inf"),
    "two kinds of weights": ("0 1 a a 1\n1 2 b b 1,2\n2\n", "weights of one cost and of two"),
    "no state": ("0 1 a a 1\n1 b a a 1\n1\n", "line 2: expected the number of a state, found 'b'"),
    "long line": ("0 1 a a 1\n1 2 a a 1 1\n1\n", "line 2: expected `start end label"),
    "truncated archive": (KALDI[:-1], "utterance u2: no empty line after this lattice"),
    "empty lattice": (COMPACT + "u3 \n\n", "utterance u3: no final state"),
    "binary": ("u1 \0B\xd6\xfd", "binary archive; write it as text with: lattice-copy"),
    "slf: links missing": (SLF.rpartition("J=4")[0], "the header announces 5 links, but there are 4; truncated?"),
    "slf: a line cut": (SLF.rpartition("S=3")[0], "line 17: a link without S=; truncated?"),
    "slf: no links": (SLF.partition("J=0")[0], "the header announces 5 links, but there are 0"),
    "slf: node missing": (SLF.replace("I=3", "I=9"), "node 3, which is not in the file"),
    "slf: cycle": (SLF.replace("J=4 S=3 E=4", "J=4 S=3 E=0"), "there is a cycle"),
    "slf: inner cycle": (SLF.replace("S=0 E=2", "S=2 E=1").replace("S=2 E=3", "S=3 E=2"), "a cycle through state"),
    "slf: two ends": (SLF.replace("J=3 S=2 E=3", "J=3 S=1 E=3"), "2 nodes have no links out of them"),
    "slf: nan": (SLF.replace("l=-0.75", "l=nan"), "line 16: l: score is nan"),
    "slf: base": (SLF.replace("acscale", "base=-1\nacscale"), "base is -1"),
    "slf: probability": (SLF.replace("acscale", "base=0\nacscale"), "probability is -100.0, which is negative"),
    "slf: no number": (SLF.replace("l=-0.75", "l=x"), "line 16: l: score is 'x', not a number"),
    "slf: sub-lattice": (SLF.replace("W=WORLD", "L=numbers"), "sub-lattices cannot be read"),
    "slf: no field": (SLF.replace("l=-0.75", "l=-0.75 z"), "but 'z' is none"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(name: str, rescore: Run, tmp_path: Path) -> None:
    text, message = ERRORS[name]
    (tmp_path / "words.txt").write_text(SYMBOLS)
    (tmp_path / "x.lat").write_text(text, encoding="latin-1")
    assert_one_line_error(rescore("convert", "x.lat", "--format", "lattice"), message)


def test_symbols_are_asked_for(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(OPENFST)
    assert_one_line_error(rescore("convert", "x"), "words are numbers; give their symbol table with --symbols")
    (tmp_path / "empty.slf").write_text("\n")
    assert_one_line_error(rescore("convert", "empty.slf", "--format", "lattice"), "is empty")


def test_lists_of_srilm_are_no_lattices(tmp_path: Path) -> None:
    (tmp_path / "u1").write_text("0 0 2 a b\n-1 -2 1 c\n")
    assert [one.text for one in found(tmp_path / "u1")[0].hypotheses] == ["a b", "c"]


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, int, str, float]]:
    """Arcs of small acyclic graphs from state 0; scores are exact in binary."""
    states = draw(st.integers(2, 6))
    arcs = []
    for _ in range(draw(st.integers(1, 14))):
        source = draw(st.integers(0, states - 2))
        target = draw(st.integers(source + 1, states - 1))
        arcs.append((source, target, draw(st.sampled_from(["", "a", "b"])), draw(st.integers(-6, 2)) / 4))
    return [*arcs, (0, states - 1, draw(st.sampled_from(["", "a", "b"])), -1.0)]


def paths(arcs: list[tuple[int, int, str, float]], end: int, at: int = 0) -> Iterator[tuple[tuple[str, ...], float]]:
    """All paths to the end: words and score."""
    if at == end:
        yield (), 0.0
    for source, target, word, score in arcs:
        if source == at:
            for words, rest in paths(arcs, end, target):
                yield ((word, *words) if word else words), score + rest


def build(arcs: list[tuple[int, int, str, float]], names: list[int] | None = None) -> Lattice:
    """The lattice with a further column, which counts words; states may be renamed."""
    made, end = Arcs(), max(target for _, target, _, _ in arcs)
    names = names or list(range(end + 1))
    for source, target, word, score in arcs:
        made.add(names[source], names[target], word, {"x": score, "n": 2.0 * bool(word)})
    return Lattice("here", made, names[0], names[end], {"x": 1.0})


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
    sequences = build(arcs, names).best(size)
    assert [one.score for one in sequences] == sorted(best.values(), reverse=True)[:size]
    assert len({one.words for one in sequences}) == len(sequences)
    for one in sequences:
        assert best[one.words] == one.score and one.columns == {"x": one.score, "n": 2.0 * len(one.words)}


def distance(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, wanted in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != wanted))
    return row[-1]


@settings(max_examples=200)
@given(graphs(), st.lists(st.sampled_from("abc"), max_size=6))
def test_the_fewest_errors_are_those_of_all_paths(
    arcs: list[tuple[int, int, str, float]], reference: list[str]
) -> None:
    end = max(target for _, target, _, _ in arcs)
    fewest = min(distance(words, tuple(reference)) for words, _ in paths(arcs, end))
    assert build(arcs).fewest_errors(reference, str.split) == fewest


def random_graph(seed: int, states: int, arcs: int, words: int) -> list[tuple[int, int, str, float]]:
    draw = random.Random(seed)
    made = [(state, state + 1, str(draw.randint(0, words)), -draw.random()) for state in range(states - 1)]
    for _ in range(arcs - len(made)):
        source = draw.randrange(states - 1)
        target = min(states - 1, source + draw.randint(1, 4))
        made.append((source, target, str(draw.randint(0, words)), -draw.random()))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_as_kaldifst(seed: int, tmp_path: Path) -> None:
    """The N best of the lattice without epsilons and determinised are the N best different word sequences."""
    kaldifst = pytest.importorskip("kaldifst")
    arcs = random_graph(seed, states=12, arcs=60, words=4)
    lines = (
        "".join(f"{source} {target} {word} {word} {-score:.6f}\n" for source, target, word, score in arcs) + "11 0.5\n"
    )
    fst = kaldifst.compile(lines)
    kaldifst.rmepsilon(fst)
    paths_of_best = kaldifst.shortest_path(kaldifst.determinize(fst, delta=1e-7), n=50)
    theirs = []
    for path in kaldifst.convert_nbest_to_vector(paths_of_best):
        _, words, _, weight = kaldifst.get_linear_symbol_sequence(path)
        theirs.append((" ".join(f"w{word}" for word in words), -weight.value))
    (tmp_path / "words.txt").write_text("<eps> 0\n" + "".join(f"w{number} {number}\n" for number in range(1, 5)))
    (tmp_path / "x.fst").write_text(lines)
    (nbest,) = found(tmp_path / "x.fst", size=50)
    theirs.sort(key=lambda pair: -pair[1])
    assert len(theirs) == 50
    assert [one.scores["s2s"] for one in nbest.hypotheses] == pytest.approx([score for _, score in theirs], abs=1e-4)
    assert [one.text for one in nbest.hypotheses] == [text for text, _ in theirs]


@pytest.mark.parametrize("scored", [True, False], ids=["scores", "ties"])
def test_a_large_lattice_takes_seconds(scored: bool) -> None:
    arcs = random_graph(1, states=2_000, arcs=30_000, words=500)
    began = time.process_time()
    lattice = build([(source, target, word, score * scored) for source, target, word, score in arcs])
    assert len(lattice.best(100)) == 100
    assert time.process_time() - began < 10
    assert NO_WORD not in lattice.words


def test_fewest_errors_of_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(COMPACT)
    references = {"u1": ("hello you", "hello"), "u2": ("yes",)}
    counted = fewest_errors(Source(tmp_path / "x"), ReadOptions(), references, lambda text: text.lower().split())
    assert counted == {"u1": (0, 1), "u2": (1, 1)}


@pytest.fixture
def compact(tmp_path: Path) -> None:
    """Lattices whose best list of one hypothesis has more errors than the lattice."""
    (tmp_path / "lats").mkdir()
    (tmp_path / "lats" / "lat.1").write_text(COMPACT)
    (tmp_path / "ref").write_text("u1 hello you\nu2 yes\n")


@pytest.mark.usefixtures("compact")
def test_the_oracle_of_lattices_is_reported(rescore: Run, tmp_path: Path) -> None:
    done = rescore("lats", "--ref", "ref", "--nbest-size", "1", "--report", "r.json")
    (measured,) = json.loads((tmp_path / "r.json").read_text())["metrics"]
    assert measured["oracle"] == pytest.approx(100.0) and measured["lattice_oracle"] == pytest.approx(200 / 3)
    assert ["lattice", "oracle", "66.67"] in [line.split() for line in done.stdout.splitlines()]
    assert rescore("convert", "lats", "--ref", "ref", "-o", "l.jsonl").returncode == 0
    assert "lattice" not in rescore("l.jsonl").stdout  # the lists alone
    assert "lattice oracle" not in rescore("lats", "--ref", "ref", "--metric", "cer").stdout


@pytest.mark.usefixtures("compact")
def test_the_weights_of_both_scores_are_tuned(rescore: Run) -> None:
    done = rescore("tune", "lats", "--ref", "ref", "--components")
    assert done.returncode == 0 and json.loads(done.stdout)["weights"].keys() == {"s2s", "am", "lm"}
