"""An analysis of lists small enough to count by hand, on curves that are known, and as
a command.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from rescore.asr.systems import combined, header_of
from rescore.columns import Column
from rescore.content import content_hash
from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.decision import Choice, Decision
from rescore.metrics import list_statistics, oracle, total, value
from rescore.metrics.mt import Bleu
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Header, Hypothesis, NbestList, ranking
from rescore.reports.analysis import (
    Changes,
    Confusion,
    Depth,
    by_depth,
    outlook,
    render,
)
from rescore.reports.word_errors import WithErrors, aligned, word_errors
from rescore.tuning import FIRST_PASS_ALONE, Weights
from rescore.tuning.record import TunedBy, Tuning
from tests.analyses import analysed, outlook_of
from tests.conftest import Run, assert_one_line_error, write_json


def hypothesis(text: str, s2s: float, lm: float) -> Hypothesis:
    return Hypothesis(text, {"s2s": s2s, "lm": lm})


LISTS = [
    # corrected: "b" for "x"
    NbestList(
        "one", [hypothesis("a x c", -1, -9), hypothesis("a b c", -2, -1)], ("a b c",)
    ),
    # broken: "b" became nothing
    NbestList("two", [hypothesis("a", -3, -1), hypothesis("a b", -1, -9)], ("a b",)),
    # moved, but as wrong as before
    NbestList("three", [hypothesis("y", -1, -9), hypothesis("z", -2, -1)], ("a",)),
    # stays
    NbestList(
        "four",
        [hypothesis("a b c d e f", -1, -1), hypothesis("a", -2, -2)],
        ("a b c d e f",),
    ),
]


HALF = Weights({"s2s": 0.5, "lm": 0.5})


def test_counts_by_hand() -> None:
    found = analysed(ErrorRate(), LISTS, HALF)
    assert found.moves == Changes(moved=3, better=1, worse=1, same=1)
    assert found.by_depth == [
        Depth(1, pytest.approx(100 * 2 / 12)),
        Depth(2, pytest.approx(100 * 1 / 12)),
    ]
    assert found.corrected == [Confusion("b", "x", 1)] and found.broken == [
        Confusion("b", "", 1)
    ]
    assert found.left == [Confusion("a", "z", 1), Confusion("b", "", 1)]
    assert found.worst == [WithErrors("two", 1, 2), WithErrors("three", 1, 1)]
    assert (
        "\nerrors left, reference -> choice: a -> z 1, b -> (nothing) 1\n"
        "most errors: two (1 in 2 words), three (1 in 1 word)\n\nIs it"
    ) in render(found)


def test_the_errors_left_are_the_errors_of_the_wer() -> None:
    """Also insertions, and under the closest of several references."""
    draw = random.Random(0)

    def text() -> str:
        return " ".join(draw.choices("abcd", k=draw.randint(1, 8)))

    lists = []
    for number in range(60):
        references = tuple(text() for _ in range(draw.randint(1, 3)))
        lists.append(NbestList(f"u{number}", [hypothesis(text(), 0, 0)], references))
    texts = [nbest.hypotheses[0].text for nbest in lists]
    metric = ErrorRate()
    counted = word_errors(aligned(metric.words, Dataset(lists), texts))
    statistics = list_statistics(metric, lists)
    counts = sum(rows[0] for rows in statistics)
    assert counted.total() == counts[:3].sum()
    inserted = [count for (word, _), count in counted.items() if not word]
    deleted = [count for (_, heard), count in counted.items() if not heard]
    assert [sum(deleted), sum(inserted)] == list(counts[1:3]) and min(counts) > 0
    analysis = analysed(metric, lists, FIRST_PASS_ALONE)
    frequent = analysis.left
    assert frequent[0].count == max(counted.values()) and len(frequent) == 20
    errors = [int(rows[0][:3].sum()) for rows in statistics]
    worst = sorted(range(60), key=lambda place: -errors[place])[:20]
    assert [one.id for one in analysis.worst] == [f"u{place}" for place in worst]
    assert [one.errors for one in analysis.worst] == [errors[place] for place in worst]


def test_the_closest_reference_counts() -> None:
    lists = [
        NbestList(
            "u",
            [hypothesis("a b c", -1, -9), hypothesis("a b", -2, -1)],
            ("x y z w v u", "a b c"),
        )
    ]
    assert analysed(ErrorRate(), lists, HALF).broken == [Confusion("c", "", 1)]


def test_the_texts_of_the_decision_count() -> None:
    """Minimum Bayes risk: two hypotheses that agree, together, beat the one with the
    best score.
    """
    texts = ("a b c d", "x y z", "x y")
    lists = [
        NbestList(
            "u",
            [hypothesis(text, -1 - rank / 9, 0) for rank, text in enumerate(texts)],
            ("x y z",),
        )
    ]
    mbr = replace(FIRST_PASS_ALONE, decision=Decision("mbr", 1.0))
    assert analysed(ErrorRate(), lists, mbr).moves == Changes(
        moved=1, better=1, worse=0, same=0
    )
    assert "|decide:mbr,1|" in analysed(ErrorRate(), lists, mbr).signature
    assert analysed(ErrorRate(), lists, FIRST_PASS_ALONE).moves.moved == 0


def test_other_metrics_have_no_words() -> None:
    found = analysed(Bleu(tokenise="none"), LISTS, HALF)
    assert found.moves.moved == 3 and not found.corrected and not found.left


def distance(first: list[str], second: list[str]) -> int:
    """The edit distance, by its definition."""
    if not first or not second:
        return len(first) + len(second)
    changed = distance(first[:-1], second[:-1]) + (first[-1] != second[-1])
    return min(
        changed, distance(first[:-1], second) + 1, distance(first, second[:-1]) + 1
    )


def test_what_a_vote_corrects_and_breaks_of_each_system() -> None:
    """Words of a reference differ, so a word is right where a text has it."""
    draw = random.Random(5)
    references = [
        [f"w{n}{place}" for place in range(draw.randrange(1, 6))] for n in range(30)
    ]
    spoken = {
        name: [
            [
                word if draw.random() < 0.8 else f"{name}{word}"
                for word in text
                if draw.random() < 0.9
            ]
            for text in references
        ]
        for name in "abc"
    }
    lists = {
        name: [
            NbestList(
                f"u{n}", [hypothesis(" ".join(text), 0, 0)], (" ".join(reference),)
            )
            for n, (text, reference) in enumerate(zip(texts, references, strict=True))
        ]
        for name, texts in spoken.items()
    }
    for some in lists.values():
        for nbest in some:
            nbest.hypotheses[0].scores.pop("lm")
    voted = list(combined(lists))
    weights = replace(FIRST_PASS_ALONE, decision=Decision("rover", 1.0))
    chosen = [text.split() for text in weights.texts(ErrorRate(), Dataset.of(voted))]
    found = analysed(ErrorRate(), voted, weights)
    assert "corrected, mixture -> choice" in render(found)
    assert [system.name for system in found.systems] == list("abc")
    for system in found.systems:
        own = spoken[system.name]
        words = [
            (word, mine, theirs)
            for reference, mine, theirs in zip(references, own, chosen, strict=True)
            for word in reference
        ]
        assert (
            system.corrected
            == sum(word not in mine and word in theirs for word, mine, theirs in words)
            > 0
        )
        assert (
            system.broken
            == sum(word in mine and word not in theirs for word, mine, theirs in words)
            > 0
        )
        errors = [
            distance(reference, mine)
            for reference, mine in zip(references, own, strict=True)
        ]
        assert system.value == pytest.approx(
            100 * sum(errors) / sum(map(len, references))
        )
        for other, share in zip("abc", system.agreement, strict=True):
            pairs = list(zip(own, spoken[other], strict=True))
            errors = [distance(*pair) for pair in pairs]
            assert share == pytest.approx(
                100 - 100 * sum(errors) / sum(max(map(len, pair)) for pair in pairs)
            )
    rows = [
        line.split()
        for line in render(found).splitlines()
        if line.startswith(("1 a ", "reranked"))
    ]
    assert rows[0][:5] == [
        "1",
        "a",
        f"{found.systems[0].value:.2f}",
        *(str(found.systems[0].corrected), str(found.systems[0].broken)),
    ]
    assert rows[1] == ["reranked", f"{found.outlook.reranked:.2f}"]
    assert not analysed(ErrorRate(), LISTS, HALF).systems


def test_command(rescore: Run, tmp_path: Path) -> None:
    table = {
        one.id: {
            "ref": one.references[0],
            **{
                f"hyp_{rank}": {
                    "text": each.text,
                    "score": each.scores["s2s"],
                    "scores": {"lm": each.scores["lm"]},
                }
                for rank, each in enumerate(one.hypotheses, 1)
            },
        }
        for one in LISTS
    }
    write_json(tmp_path / "lists.json", table)
    write_json(
        tmp_path / "w.json", {"weights": {"s2s": 0.5, "lm": 0.5}, "origin": "given"}
    )
    done = rescore("analyse", "lists.json", "--weights", "w.json", "-o", "a.json")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == json.loads(json.dumps(asdict(analysed(ErrorRate(), LISTS, HALF))))
    assert (
        "better 1, worse 1, as many errors 1" in done.stdout
        and "corrected, first pass -> choice: x -> b 1" in done.stdout
        and "errors left, reference -> choice: a -> z 1" in done.stdout
    )


ONE_BEST = {
    "out.trn": "a x c (u-1)\na b (u-2)\nd d (u-3)\n",
    "out": "u-1 a x c\nu-2 a b\nu-3 d d\n",
    "out.txt": "a x c\na b\nd d\n",
}
"""1-best texts as trn, Kaldi text and plain lines."""
REFERENCES = {"out.trn": "ref.trn", "out": "ref", "out.txt": "ref.txt"}


@pytest.fixture
def one_best(tmp_path: Path) -> None:
    """1-best texts, and references in the same forms."""
    for name, text in ONE_BEST.items():
        (tmp_path / name).write_text(text)
        right = text.replace("x", "b").replace("a b", "a b c", 2).replace("d d", "d")
        (tmp_path / REFERENCES[name]).write_text(right.replace("c c", "c"))


@pytest.mark.parametrize("name", ONE_BEST)
@pytest.mark.usefixtures("one_best")
def test_1_best_texts_have_errors_and_no_choices(
    name: str, rescore: Run, tmp_path: Path
) -> None:
    """As the same texts in lists."""
    given = [name, "--ref", REFERENCES[name]]
    done = rescore("analyse", *given, "-o", "a.json")
    assert done.returncode == 0, done.stderr
    head = rescore("eval", *given, "--report", "r.json")
    assert head.returncode == 0, head.stderr
    lines = done.stdout.splitlines()
    value = json.loads((tmp_path / "r.json").read_text())["systems"][0]["value"]
    assert lines[0] == f"WER {value:.2f}"
    errors = "errors, reference -> text: (nothing) -> d 1, b -> x 1, c -> (nothing) 1"
    assert lines[2] == errors
    assert lines[3].startswith("most errors: ") and lines[3].count("1 in") == 3
    assert lines[5].startswith("next: write N-best lists with your toolkit")
    for absent in ("changed", "oracle", "corrected", "worth", "perfect"):
        assert absent not in done.stdout
    written = json.loads((tmp_path / "a.json").read_text())
    assert [one["errors"] for one in written["worst"]] == [1, 1, 1]
    converted = rescore("convert", *given, "-o", "l.jsonl")
    assert converted.returncode == 0, converted.stderr
    again = rescore("analyse", "l.jsonl", "-o", "b.json")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "b.json").read_text()) == written


@pytest.mark.usefixtures("one_best")
def test_1_best_texts_need_references(rescore: Run) -> None:
    for command in (["analyse"], ["convert", "-o", "l.jsonl"]):
        done = rescore(*command, "out.trn")
        told = "rescore eval out.trn --ref FILE (its errors: rescore analyse)"
        assert_one_line_error(done, "a 1-best text", told)
    command = ["analyse", "out.trn", "--ref", "ref.trn"]
    for options, told in (
        (["--s2s", "lm"], "--s2s needs N-best lists"),
        (["--weights", "w.json"], "no score 'lm' (found: s2s)"),
        (["--scores", "qe.txt"], "a 1-best text, with one text for each utterance"),
    ):
        Path("w.json").write_text('{"weights": {"s2s": 1, "lm": 1}}')
        Path("qe.txt").write_text("-1\n-2\n-3\n")
        assert_one_line_error(rescore(*command, *options), told)


def nbest(
    name: str, reference: str, *texts: str, lm: tuple[float, ...] = ()
) -> NbestList:
    scores = lm or (0.0,) * len(texts)
    return NbestList(
        name,
        [
            Hypothesis(text, {"s2s": -rank, "lm": one})
            for rank, (text, one) in enumerate(zip(texts, scores, strict=True))
        ],
        (reference,),
    )


def test_gains_by_hand() -> None:
    lists = [
        nbest("mended", "a b c", "a x c", "a b c", lm=(0.0, 9.0)),
        nbest("absent", "d e f", "d y f", "d z f"),
        nbest("right", "g h", "g h", "g i"),
        nbest("apart", "j k", "x k", "j y"),
        nbest("deleted", "l m", "l", "q"),
    ]
    found = outlook_of(ErrorRate(), lists, HALF)
    assert found.first_pass == pytest.approx(
        100 * 4 / 12
    ) and found.oracle == pytest.approx(100 * 3 / 12)
    assert found.gain == found.possible == pytest.approx(
        100 / 12
    ) and found.share == pytest.approx(1.0)
    assert (
        found.certain == "no"
        and found.interval[0] == 0.0
        and found.next.startswith("more lists to tune on")
    )
    assert outlook_of(ErrorRate(), lists, FIRST_PASS_ALONE).next.startswith(
        "give --weights FILE of `rescore tune`: "
    )


def test_what_is_certain_is_called_so() -> None:
    lists = [
        nbest(str(index), "a b c", "a x c", "a b c", lm=(0.0, 9.0))
        for index in range(40)
    ]
    found = outlook_of(ErrorRate(), lists, HALF)
    assert found.certain == "yes" and found.interval == (
        pytest.approx(100 / 3),
        pytest.approx(100 / 3),
    )
    assert (
        found.next
        == "more hypotheses, for example by score --recombine 20: this LM works well"
    )
    worse = [
        nbest(str(index), "a b c", "a b c", "a x c", lm=(0.0, 9.0))
        for index in range(40)
    ]
    found = outlook_of(ErrorRate(), worse, HALF)
    assert found.certain == "no" and found.gain < 0 and found.interval[1] < 0


def test_a_p_value_and_an_interval_that_disagree_are_unclear() -> None:
    lists = [
        nbest(str(index), "a b c", "a x c", "a b c", lm=(0.0, 9.0))
        for index in range(40)
    ]
    unclear = replace(outlook_of(ErrorRate(), lists, HALF), p_value=0.2)
    assert (
        unclear.certain
        == "unclear"
        == replace(unclear, p_value=0.01, interval=(-0.1, 3.0)).certain
    )


def test_depth_is_by_score_not_by_place() -> None:
    lists = [
        NbestList(
            "u",
            [Hypothesis("a", {"s2s": -2.0}), Hypothesis("b", {"s2s": -1.0})],
            ("a",),
        )
    ]
    statistics = [ErrorRate().statistics(["a", "b"], [("a",), ("a",)])]
    assert by_depth(ErrorRate(), statistics, lists) == [Depth(1, 100.0), Depth(2, 0.0)]


def test_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    table = {
        f"u{index}": {
            "ref": "a b c",
            **{
                f"hyp_{rank}": {"score": -rank, "text": text}
                for rank, text in enumerate(["a x c", "a b", "b c", "a b c"], 1)
            },
        }
        for index in range(12)
    }
    write_json(tmp_path / "l.json", table)
    done = rescore("analyse", "l.json", "-o", "a.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    start = lines.index("Is it worth it?")
    # there is none yet
    assert lines[start + 1] == "perfect LM    WER 33.33 -> 0.00, 33.33 points"
    found = json.loads((tmp_path / "a.json").read_text())["outlook"]
    assert found["next"].startswith("score the lists")


def test_weights_of_folds_flatter_reranked_lists() -> None:
    """The digest says so, not the number of lists."""
    lists = [
        nbest(str(index), "a b c", "a x c", "a b c", lm=(0.0, 9.0))
        for index in range(4)
    ]
    fold = Choice({"s2s": 1.0})
    tuning = Tuning(
        TunedBy.FOLDS,
        lists=4,
        digest=content_hash(lists),
        folds=2,
        unit="utterance",
        metric="wer",
        value=0.0,
        first_pass=1.0,
        of_folds=(fold, fold),
    )
    weights = replace(HALF, tuning=tuning)
    assert (
        outlook_of(ErrorRate(), lists, weights).flatters
        and not outlook_of(ErrorRate(), lists[1:], weights).flatters
    )
    others = [replace(one, references=("a x c",)) for one in lists]
    assert not outlook_of(ErrorRate(), others, weights).flatters


def test_depth_by_depth_as_by_the_oracle_of_each() -> None:
    random = np.random.default_rng(2)
    lists = [
        NbestList(
            f"{n}",
            [
                Hypothesis("a b c d"[: 2 * size + 1], {"s2s": float(random.normal())})
                for size in random.integers(0, 4, 9)
            ],
            ("a b c d",),
        )
        for n in range(20)
    ]
    for nbest in lists[::3]:
        del nbest.hypotheses[5:]
    for metric in (ErrorRate(), Bleu()):
        statistics = list_statistics(metric, lists)
        ranked = [
            rows[ranking(nbest, nbest.column("s2s"))]
            for rows, nbest in zip(statistics, lists, strict=True)
        ]
        cuts = [[rows[:n] for rows in ranked] for n in range(1, 10)]
        expected = [
            Depth(n, value(metric, total(cut, oracle(metric, cut))))
            for n, cut in enumerate(cuts, 1)
        ]
        assert by_depth(metric, statistics, lists) == expected


MALAY = (
    "saya tidak tahu kenapa mereka belum kembali",
    "kerajaan telah mengumumkan peruntukan tambahan untuk pembangunan",
    "hujan lebat dijangka melanda beberapa kawasan petang ini",
    "pelajar diminta menyerahkan tugasan sebelum tengah hari",
    "harga barangan keperluan meningkat sejak bulan lalu",
)
ENGLISH = (
    "i do not know why they have not come back yet",
    "the old house by the river was sold last week",
    "heavy rain is expected in some places this afternoon",
    "students were asked to hand in their work before noon",
    "the price of bread has gone up since last month",
)
THAI = ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0e04\u0e23\u0e31\u0e1a",) * 20


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize(
    ("texts", "is_known"), [(MALAY, False), (THAI, False), (ENGLISH, True)]
)
def test_no_advice_to_use_a_model_of_another_language(
    texts: tuple[str, ...], is_known: bool, scored: bool
) -> None:
    lists = []
    header = Header(records={"tta": Column("tta", "ab12", "sum", "float32")})
    for number, text in enumerate(texts):
        right = Hypothesis(text, {"s2s": -2.0})
        wrong = Hypothesis(text.partition(" ")[2], {"s2s": -1.0})
        if scored:
            right.scores["tta"] = -1.0
            wrong.scores["tta"] = -9.0
        nbest = NbestList(f"u{number}", [wrong, right], (text,))
        nbest.header = header if scored else Header()
        lists.append(nbest)
    weights = Weights({"s2s": 0.5, "tta": 0.5}) if scored else FIRST_PASS_ALONE
    step = outlook(ErrorRate(), decide(None, Dataset.of(lists), weights)).next
    assert ("their language" in step or "tta does not know" in step) is not is_known


@pytest.mark.parametrize("weights", [FIRST_PASS_ALONE, HALF])
@pytest.mark.parametrize("systems", [(), ("a", "b")])
@pytest.mark.parametrize(
    ("reference", "step"),
    [
        ("a x c", "nothing: the first pass has no errors"),
        ("z", "no list has a better text than the first pass"),
    ],
)
def test_no_advice_for_a_gain_of_nothing(
    reference: str, step: str, systems: tuple[str, ...], weights: Weights
) -> None:
    lists = [replace(LISTS[0], references=(reference,))]
    lists[0].header = header_of(systems)
    outlook = outlook_of(ErrorRate(), lists, weights)
    assert outlook.possible == 0 and step in outlook.next
    assert ("one more system" in outlook.next) == (bool(systems) and reference == "z")


def test_the_p_value_by_speaker_is_that_of_rerank(rescore: Run, tmp_path: Path) -> None:
    """One test for one question, and the signature names it."""
    table = {}
    for index in range(24):
        better = "a b c" if index % 3 else "x x c"
        table[f"s{index // 6}-u{index}"] = {
            "ref": "a b c",
            "hyp_1": {"text": "a x c", "score": -1.0, "scores": {"lm": -2.0}},
            "hyp_2": {"text": better, "score": -1.1, "scores": {"lm": -1.0}},
        }
    write_json(tmp_path / "l.json", table)
    given_weights = {"weights": {"s2s": 1, "lm": 1}, "origin": "given"}
    write_json(tmp_path / "w.json", given_weights)
    given = ["l.json", "--weights", "w.json"]
    figures = set()
    for option in ((), ("--by-speaker",)):
        run = rescore("rerank", *given, *option, "--report", "r.json")
        assert run.returncode == 0, run.stderr
        done = rescore("analyse", *given, *option, "-o", "a.json")
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "a.json").read_text())
        result = json.loads((tmp_path / "r.json").read_text())
        assert found["outlook"]["p_value"] == result["metrics"][0]["p_value"]
        assert ("by=speaker" in found["signature"]) is bool(option)
        figures.add(found["outlook"]["p_value"])
    assert len(figures) == 2
