"""A linear classifier on frozen vectors: what it is given, what it can learn, and what
it cannot.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.lms import load
from rescore.options import OptionValues
from rescore.research.probe import classify, pair_features
from rescore.research.probe_tasks import PROBES, Examples, Side, read_examples
from rescore.research.vector_options import VectorOptions
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.research.test_words_in_context import ANSWERS, ROWS

pytest.importorskip("sklearn")

HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score"
PARTS = ("TRAIN", "TRIAL", "TEST")


def write_sick(path: Path, parts: bool = True, number: int = 60) -> Path:
    """Pairs that are entailed where both sentences are the same."""
    rows = [HEAD + "\tSemEval_set" if parts else HEAD]
    for place, first in enumerate(SENTENCES[:number]):
        same = place % 2 == 0
        second = first if same else SENTENCES[(place + 7) % 60]
        label = "ENTAILMENT" if same else "NEUTRAL"
        row = f"{place}\t{first}\t{second}\t{label}\t3"
        rows.append(f"{row}\t{PARTS[place // 2 % 3]}" if parts else row)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_features_of_a_pair() -> None:
    first = np.array([[1.0, 2.0]])
    second = np.array([[3.0, -1.0]])
    expected = [[1.0, 2.0, 3.0, -1.0, 2.0, 3.0, 3.0, -2.0]]
    assert pair_features(first, second).tolist() == expected


def test_a_classifier_learns_what_is_there_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 400, 5))
    features = pair_features(first, second)
    near = np.where(np.abs(first - second)[:, 0] < 1, "T", "F")
    found = classify(features[:300], near[:300], features[300:])
    assert (found == near[300:]).mean() > 0.9
    lots = random.choice(["T", "F"], 400)
    found = classify(features[:300], lots[:300], features[300:])
    assert 0.35 < (found == lots[300:]).mean() < 0.65


def test_scale_and_place_of_features_do_not_matter() -> None:
    random = np.random.default_rng(2)
    features = random.normal(size=(60, 3))
    labels = np.where(features[:, 0] + random.normal(size=60) > 0, "T", "F")
    plain = classify(features[:40], labels[:40], features[40:])
    moved = features * np.array([1e3, 1e-3, 5.0]) + 7
    constant = np.concatenate([moved, np.ones((60, 1))], axis=1)
    found = classify(constant[:40], labels[:40], constant[40:])
    assert np.array_equal(found, plain)


def test_the_given_part_is_tested(tmp_path: Path) -> None:
    examples = read_examples("sick", write_sick(tmp_path / "s"))
    assert examples.tested is not None
    assert np.flatnonzero(examples.tested).tolist()[:4] == [4, 5, 10, 11]
    assert examples.labels[:2] == ["ENTAILMENT", "NEUTRAL"]
    assert examples.first.texts[0] == examples.second.texts[0] == SENTENCES[0]
    assert examples.trained == 40
    without = read_examples("sick", write_sick(tmp_path / "t", parts=False))
    assert without.tested is None
    assert np.sum(without.parts(), axis=0).tolist() == [1] * 60
    assert without.trained == 9 * 60


def test_pairs_are_consecutive_lines_of_a_document(tmp_path: Path) -> None:
    documents = [SENTENCES[:20], SENTENCES[20:29], [SENTENCES[29]], SENTENCES[30:60]]
    text = "\n\n".join("\n".join(document) for document in documents)
    (tmp_path / "text").write_text(text, encoding="utf-8")
    examples = read_examples("order", tmp_path / "text")
    in_order = []
    for first, second, label in zip(
        examples.first.texts, examples.second.texts, examples.labels, strict=True
    ):
        swapped = label == "swapped"
        in_order.append((second, first) if swapped else (first, second))
    starts = [*range(0, 20, 2), *range(20, 28, 2), *range(30, 60, 2)]
    assert in_order == [(SENTENCES[start], SENTENCES[start + 1]) for start in starts]
    assert examples.labels.count("swapped") in (14, 15)
    assert examples.tested is not None
    assert examples.tested.tolist() == [False] * 23 + [True] * 6
    few = read_examples("order", tmp_path / "text", OptionValues(examples=10))
    assert len(few.labels) == 10


def test_a_task_from_outside(tmp_path: Path) -> None:
    class Letters:
        Options = PROBES["sick"]().Options

        def examples(self, path: Path, options: object) -> Examples:
            words = path.read_text(encoding="utf-8").split()
            return Examples(Side(words), Side(words), [word[0] for word in words])

    (tmp_path / "t").write_text("ant bee " * 10, encoding="utf-8")
    PROBES.register("letters", Letters, "first letters")
    try:
        assert read_examples("letters", tmp_path / "t").labels == ["a", "b"] * 10
    finally:
        PROBES.remove("letters")


def test_the_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    write_sick(tmp_path / "s.txt")
    tta = ("--lm", f"tta:{models['tta']}")
    lms = (*tta, "--lm", f"unilm:{models['unilm']}")
    task = ("probe", "sick", "s.txt", *lms, "--pooling", "last")
    done = rescore(*task, "-o", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "20 pairs tested; percent; the most frequent class 50.0" in done.stdout
    found, other = json.loads((tmp_path / "figures.json").read_text())
    assert [found["name"], other["name"]] == ["tta", "unilm"]
    assert found["interval"][0] <= found["accuracy"] <= found["interval"][1]
    examples = read_examples("sick", tmp_path / "s.txt")
    options = VectorOptions(pooling="last")
    embedder = Embedder([load(f"tta:{models['tta']}")], options)
    features = pair_features(
        embedder.sentences(examples.first.texts).astype(float),
        embedder.sentences(examples.second.texts).astype(float),
    )
    labels = np.array(examples.labels)
    tested = examples.parts()[0]
    right = classify(features[~tested], labels[~tested], features[tested])
    accuracy = 100 * (right == labels[tested]).mean()
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["signature"].startswith(
        "acc:sick|examples:60|kind:context|layer:last|pooling:last|lm:tta=tta@"
    )
    library = f"|scikit-learn:{version('scikit-learn')}"
    assert found["signature"].endswith(library)


def test_the_other_tasks(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "w").write_text(ROWS * 2, encoding="utf-8")
    (tmp_path / "g").write_text(ANSWERS * 2, encoding="utf-8")
    (tmp_path / "text").write_text("\n".join(SENTENCES[:60]), encoding="utf-8")
    lm = ("--lm", f"tta:{models['tta']}")
    done = rescore("probe", "wic", "w", "--gold", "g", *lm)
    assert "40 pairs tested" in done.stdout, done.stderr
    assert "100.0" in done.stdout  # the same two pairs again and again
    done = rescore("probe", "order", "text", "--examples", "20", *lm)
    assert "4 pairs tested" in done.stdout, done.stderr
    assert "acc:order|examples:20|" in done.stdout


SICK_OF_THREE = f"{HEAD}\n1\ta\tb\tNEUTRAL\t3\n2\ta\tb\n"
SICK_OF_ONE_CLASS = (
    f"{HEAD}\tSemEval_set\n1\ta\tb\tNEUTRAL\t3\tTRAIN\n2\ta\tb\tNEUTRAL\t3\tTEST\n"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sick", "g"), "g: expected SICK, with a header line"),
        (("sick", "short"), "line 3: has 3 columns, the header line 5"),
        (("sick", "one"), "one: all training examples have the same class"),
        (("sick", "few"), "few: 6 pairs, and no test part; at least 10"),
        (("wic", "s"), "s: has no answers (T or F); give their file with --gold FILE"),
        (("order", "g"), "g: 0 pairs of consecutive lines; at least 10"),
        (("sick", "s", "--gold", "g"), "--gold does not apply to sick"),
        (("sick", "s", "--examples", "20"), "--examples does not apply to sick"),
        (("wic", "w", "--examples", "20"), "--examples does not apply to wic"),
        (
            ("order", "s", "--examples", "9"),
            "--examples 9: expected a whole number from 10 on",
        ),
        (("colour", "s"), "'colour' is not one of sick, wic, order"),
    ],
    ids=" ".join,
)
def test_errors(
    rescore: Run,
    models: dict[str, Path],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    write_sick(tmp_path / "s")
    write_sick(tmp_path / "few", parts=False, number=6)
    (tmp_path / "short").write_text(SICK_OF_THREE, encoding="utf-8")
    (tmp_path / "one").write_text(SICK_OF_ONE_CLASS, encoding="utf-8")
    (tmp_path / "g").write_text("T\n", encoding="utf-8")
    (tmp_path / "w").write_text(ROWS, encoding="utf-8")
    done = rescore("probe", *arguments, "--lm", f"tta:{models['tta']}")
    assert_one_line_error(done, message)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    features = np.eye(4)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        classify(features, np.array(["T", "F", "T", "F"]), features)
