"""Neighbouring utterances: who has which, and each network among them equals its
definition.
"""

from __future__ import annotations

import ast
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rescore.asr.features import RESPELLED
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.errors import UserError
from rescore.lms import (
    ComputeOptions,
    Question,
    checkpoint,
    load,
    load_all,
    without_context,
)
from rescore.lms.base import Capabilities, WithNeighbours
from rescore.lms.config import NetworkConfig
from rescore.lms.context import ask
from rescore.lms.function import FunctionModel
from rescore.lms.neighbours import recording, with_neighbours
from rescore.lms.tokenizer import Tokenizer
from rescore.nbest import Hypothesis, NbestList
from tests import stages
from tests.conftest import (
    ROOT,
    SENTENCES,
    Run,
    assert_one_line_error,
    networks_with_sentences,
)

SHORT = [" ".join(text.split()[:5]) for text in SENTENCES][:12]
SUM = RunConfig(lm_norm="sum", count_tokens=False)
KINDS = ("tta", "bilm", "unilm")


def one(name: str, text: str) -> NbestList:
    """A list whose 1-best is `text`, not in the first place."""
    return NbestList(
        name,
        [Hypothesis("other", {FIRST_PASS: -2.0}), Hypothesis(text, {FIRST_PASS: -1.0})],
    )


@pytest.mark.parametrize("seed", range(10))
def test_neighbours_are_those_of_the_recording(seed: int) -> None:
    lots = random.Random(seed)
    sizes = [lots.randint(1, 7) for _ in range(5)]
    before, after = lots.randint(0, 4), lots.randint(0, 4)
    lists = [
        one(f"spk{part}-{rank:04}", f"{part} {rank}")
        for part, size in enumerate(sizes)
        for rank in range(size)
    ]
    found = list(with_neighbours(iter(lists), before, after))
    assert [placed.nbest.id for placed in found] == [nbest.id for nbest in lists]
    for placed in found:
        part, rank = map(int, placed.nbest.hypotheses[1].text.split())
        assert placed.before == tuple(
            f"{part} {other}" for other in range(max(0, rank - before), rank)
        )
        assert placed.after == tuple(
            f"{part} {other}"
            for other in range(rank + 1, min(sizes[part], rank + 1 + after))
        )


def test_of_equals_the_own_is_the_neighbour() -> None:
    respelled, own = (Hypothesis(text, {FIRST_PASS: -1.0}) for text in ("new", "own"))
    respelled.origin = RESPELLED
    first, _ = with_neighbours(
        [one("a-1", "x"), NbestList("a-2", [respelled, own])], 0, 1
    )
    assert first.after == ("own",)


def test_only_as_many_lists_are_held_as_are_needed() -> None:
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield one(f"a-{taken}", "x")

    stream = with_neighbours(endless(), 3, 2)
    for number in range(1, 50):
        next(stream)
        assert taken == number + 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("84-121123-0005", "84-121123"),
        ("spk_utt_12", "spk_utt"),
        ("17", ""),
        ("test.generate/3", "test.generate"),
    ],
)
def test_recording(name: str, expected: str) -> None:
    assert recording(name) == expected


@pytest.mark.parametrize("names", [["a-2", "a-1"], ["a-1", "b-1", "a-2"], ["10", "9"]])
def test_other_orders_are_refused(names: list[str]) -> None:
    with pytest.raises(UserError, match="sort the lists by id"):
        list(with_neighbours([one(name, "x") for name in names], 1, 1))


def test_told_where_nobody_has_a_neighbour(caplog: pytest.LogCaptureFixture) -> None:
    list(with_neighbours([one("sw1_0-99", "x"), one("sw1_100-199", "y")], 1, 1))
    assert "--recordings" in caplog.text
    caplog.clear()
    list(with_neighbours([one("a-1", "x"), one("b-1", "y"), one("b-2", "z")], 1, 1))
    assert caplog.text == ""


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> dict[str, Path]:
    """Random networks that read two neighbours on a side."""
    configs = [replace(config, kind=kind).with_neighbours(2) for kind in KINDS]
    return networks_with_sentences(configs, tokenizer, tmp_path_factory)


def definition(
    kind: str, folder: Path, before: list[str], text: str, after: list[str]
) -> list[float]:
    """A token at a time, the whole window each time, with positions written out."""
    network, tokenizer = checkpoint.load(folder)
    size = tokenizer.vocab_size
    window, own = [], range(0)
    for number, sentence in enumerate([*before, text, *after]):
        ids = tokenizer.encode([sentence])[0]
        if number == len(before):
            own = range(len(window) + 1, len(window) + 1 + len(ids))
        window += [
            token + number * size for token in (tokenizer.bos, *ids, tokenizer.eos)
        ]
    values = []
    with torch.no_grad():
        for place in [*own, own.stop] if kind == "unilm" else own:
            tokens, at = torch.tensor([window]), place
            if kind == "unilm":
                tokens, at = tokens[:, :place], place - 1
            elif kind == "bilm":
                tokens[0, place] += tokenizer.mask - window[place] % size
            else:  # a T-TA may not see the token: any other one gives the same
                tokens[0, place] += (7 if window[place] % size != 7 else 8) - window[
                    place
                ] % size
            hidden = network(tokens, torch.tensor([tokens.shape[1]]))[0, at]
            values.append(
                (hidden @ network.token_embedding.weight.T)
                .log_softmax(-1)[window[place] % size]
                .item()
            )
    return values


QUESTIONS = [
    (SHORT[:2], SHORT[2], SHORT[3:5]),
    (SHORT[:2], SHORT[5], SHORT[3:5]),
    ([], SHORT[2], SHORT[6:7]),
    (SHORT[7:8], SHORT[2], []),
    (SHORT[8:10], SHORT[10] + " zzz", []),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [None, 60])
def test_equals_the_definition(
    kind: str, folders: dict[str, Path], budget: int | None
) -> None:
    lm = load(f"{kind}:context=2:{folders[kind]}", ComputeOptions(batch_tokens=budget))
    asked = [
        (before, text, [] if kind == "unilm" else after)
        for before, text, after in QUESTIONS
    ]
    results = lm.score(
        [
            Question(text, None, tuple(before), tuple(after))
            for before, text, after in asked
        ]
    )
    tokenizer = Tokenizer.load(folders[kind] / "tokenizer.json")
    for (before, text, after), found in zip(asked, results, strict=True):
        assert found.log_probs.tolist() == pytest.approx(
            definition(kind, folders[kind], before, text, after), abs=1e-4
        )
        pieces = tokenizer.pieces([text])[0]
        assert found.tokens == [*pieces, *(["[EOS]"] if kind == "unilm" else [])]
        assert found.unknown == tuple(
            place for place, piece in enumerate(pieces) if piece == "[UNK]"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_alone_or_too_long_it_is_scored_as_ever(
    kind: str, folders: dict[str, Path]
) -> None:
    plain, lm = (
        load(f"{kind}{option}:{folders[kind]}") for option in ("", ":context=1")
    )
    long = " ".join(SENTENCES[:6])
    found = lm.score([*without_context(SHORT[:2]), Question(long, before=(SHORT[2],))])
    expected = plain.score(without_context([*SHORT[:2], long]))
    assert [one.sum for one in found] == pytest.approx(
        [one.sum for one in expected], abs=1e-4
    )
    assert plain.fingerprint != lm.fingerprint and lm.name == f"{kind}:context=1"


def test_positions_of_sentences_start_at_zero(
    config: NetworkConfig, tokenizer: Tokenizer, model: Path
) -> None:
    """A model that has read single sentences scores them the same before it learns to
    read several.
    """
    network, _ = checkpoint.load(model)
    torch.manual_seed(5)
    wider = checkpoint.build(config.with_neighbours(1))
    wider.load_state_dict(wider.state_dict() | network.state_dict())
    ids = tokenizer.encode(SHORT[:1])[0]
    tokens, lengths = (
        torch.tensor([[tokenizer.bos, *ids, tokenizer.eos]]),
        torch.tensor([len(ids) + 2]),
    )
    assert torch.allclose(
        network(tokens, lengths), wider.eval()(tokens, lengths), atol=1e-6
    )


def test_lists_are_scored_among_their_neighbours(folders: dict[str, Path]) -> None:
    lists = [one(f"a-{rank}", text) for rank, text in enumerate(SHORT[:5])] + [
        one("b-0", SHORT[5])
    ]
    both = load_all(
        [f"tta:context=2:{folders['tta']}", f"unilm:context=1:{folders['unilm']}"]
    )
    scored = list(stages.scored(lists, both, SUM))
    third = scored[3].hypotheses[1].scores
    assert third["tta:context=2"] == pytest.approx(
        sum(definition("tta", folders["tta"], SHORT[1:3], SHORT[3], SHORT[4:5])),
        abs=1e-4,
    )
    assert third["unilm:context=1"] == pytest.approx(
        sum(definition("unilm", folders["unilm"], SHORT[2:3], SHORT[3], [])), abs=1e-4
    )
    (single,) = load(f"tta:{folders['tta']}").score(without_context([SHORT[5]]))
    assert scored[5].hypotheses[1].scores["tta:context=2"] == pytest.approx(
        single.sum, abs=1e-4
    )


@pytest.mark.parametrize("most", [1, 3, 5])
@pytest.mark.parametrize("number", range(7))
def test_a_question_has_the_nearest_neighbours(number: int, most: int) -> None:
    class Reader(FunctionModel):
        """A model that reads texts before the sentence."""

        capabilities = Capabilities(context=(most, 0))

    lm = Reader(lambda sentences: [0.0 for _ in sentences])
    before = tuple(f"line {place}" for place in range(number))
    placed = WithNeighbours(one("u", "text"), before)
    (question,) = ask(lm, placed, ["text"])
    assert question.before == before[max(0, number - most) :]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_model_reads_its_own_neighbours(
    order: tuple[int, int], folders: dict[str, Path], rescore: Run, tmp_path: Path
) -> None:
    """In one command, whichever comes first; also with names of one model."""
    hypotheses = [
        [{"text": text, "score": -1}, {"text": "other", "score": -2}]
        for text in SHORT[:5]
    ]
    lines = [
        {"id": f"a-{rank}", "ref": "x", "hyps": some}
        for rank, some in enumerate(hypotheses)
    ]
    (tmp_path / "lists.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    lms = [f"tta:context={number}:{folders['tta']}" for number in (1, 2)]
    done = rescore(
        "score",
        "lists.jsonl",
        *(part for which in order for part in ("--lm", lms[which])),
    )
    assert done.returncode == 0, done.stderr
    third = next(
        json.loads(line) for line in done.stdout.splitlines() if '"a-2"' in line
    )["hyps"][0]["scores"]
    for number, before, after in (
        (1, SHORT[1:2], SHORT[3:4]),
        (2, SHORT[:2], SHORT[3:5]),
    ):
        expected = sum(definition("tta", folders["tta"], before, SHORT[2], after))
        assert third[f"tta:context={number}"] == pytest.approx(expected, abs=1e-4)


def test_control_characters_are_text(folders: dict[str, Path]) -> None:
    """Nothing in a text ends it: U+001F and U+001E are characters that the tokenizer
    takes for blanks.
    """
    texts = [f"{SHORT[0]}\x1f{SHORT[1]}", f"{SHORT[2]}\x1e", f"\x1f{SHORT[3]}"]
    lists = [one(f"a-{rank}", text) for rank, text in enumerate(texts)]
    plain, recased = (
        f"tta:{case}context=1:{folders['tta']}" for case in ("", "lower:")
    )
    (scored,) = list(stages.scored(lists, load_all([plain]), SUM))[1:2]
    expected = sum(definition("tta", folders["tta"], texts[:1], texts[1], texts[2:]))
    assert scored.hypotheses[1].scores["tta:context=1"] == pytest.approx(
        expected, abs=1e-4
    )
    (lower,) = list(stages.scored(lists, [load(recased)], SUM))[1:2]
    assert lower.hypotheses[1].scores["tta:lower:context=1"] == pytest.approx(
        expected, abs=1e-4
    )


@pytest.mark.parametrize("name", ["a-²", "a-" + "9" * 5000, "a-٣"])
def test_numbers_of_any_kind_end_ids(name: str) -> None:
    found = list(with_neighbours([one("a-1", "x"), one(name, "y")], 1, 0))
    assert [placed.before for placed in found] == [(), ("x",)]


def test_shipped_models_are_of_their_kind(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "a-1", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    done = rescore(
        "score", "l.jsonl", "--lm", "tta:context=1", "--lm", "tta-small:context=1"
    )
    assert_one_line_error(done, "tta:context=1", "was trained on single sentences")
    assert_one_line_error(
        rescore("score", "l.jsonl", "--lm", "tta-small:context=1"),
        "on single sentences",
    )


def test_on_the_command_line(
    folders: dict[str, Path], model: Path, rescore: Run, tmp_path: Path
) -> None:
    lines = [
        {
            "id": f"a-{rank}",
            "ref": text,
            "hyps": [{"text": text, "score": -1}, {"text": "other", "score": -2}],
        }
        for rank, text in enumerate(SHORT[:4])
    ]
    lists = tmp_path / "lists.jsonl"
    lists.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = rescore("score", lists, "--lm", f"tta:context=1:{folders['tta']}")
    assert done.returncode == 0, done.stderr
    second = next(
        json.loads(line) for line in done.stdout.splitlines() if '"a-1"' in line
    )
    expected = sum(definition("tta", folders["tta"], SHORT[:1], SHORT[1], SHORT[2:3]))
    assert second["hyps"][0]["scores"]["tta:context=1"] == pytest.approx(
        expected, abs=1e-4
    )
    assert "before" not in second and "after" not in second

    (tmp_path / "utt2spk").write_text("a-0 x\na-1 y\na-2 y\na-3 y\n")
    apart = ("score", lists, "--lm", f"tta:context=1:{folders['tta']}", "--recordings")
    done = rescore(*apart, "utt2spk")
    assert done.returncode == 0, done.stderr
    second = next(
        json.loads(line) for line in done.stdout.splitlines() if '"a-1"' in line
    )
    expected = sum(definition("tta", folders["tta"], [], SHORT[1], SHORT[2:3]))
    assert second["hyps"][0]["scores"]["tta:context=1"] == pytest.approx(
        expected, abs=1e-4
    )
    (tmp_path / "utt2spk").write_text("a-0 x\na-1 y\na-2\n")
    assert_one_line_error(
        rescore(*apart, "utt2spk"),
        "utt2spk: utterance a-2 is not in it, or has no recording behind it",
    )
    (tmp_path / "utt2spk").write_text("a-0 x\na-1 y\na-2 x\n")
    assert_one_line_error(rescore(*apart, "utt2spk"), "a-2: comes after a-1")
    (tmp_path / "utt2spk").write_text("a-0 x\na-1 x\n")
    assert_one_line_error(rescore(*apart, "utt2spk"), "utterance a-2 is not in it")

    text = tmp_path / "text"
    text.write_text(f"{SHORT[0]}\n{SHORT[1]}\n\n{SHORT[2]}\n")
    out = tmp_path / "ppl.json"
    done = rescore(
        "score", "--text", text, "--lm", f"tta:context=2:{folders['tta']}", "-o", out
    )
    assert done.returncode == 0, done.stderr
    parts = [([], SHORT[0], [SHORT[1]]), ([SHORT[0]], SHORT[1], []), ([], SHORT[2], [])]
    total = sum(sum(definition("tta", folders["tta"], *part)) for part in parts)
    assert json.loads(out.read_text())[0]["log_prob"] == pytest.approx(total, abs=1e-3)

    assert_one_line_error(
        rescore("score", lists, "--lm", f"tta:context=1:{model}"),
        "context=1, but it was trained on single sentences",
    )
    assert_one_line_error(
        rescore("score", lists, "--lm", f"tta:context=3:{folders['tta']}"),
        "was trained with --context 2",
    )
    pairs = tmp_path / "pairs"
    pairs.write_text(f"1\t{SHORT[0]}\t{SHORT[1]}\n", encoding="utf-8")
    assert_one_line_error(
        rescore("similarity", pairs, "--lm", f"tta:context=1:{folders['tta']}"),
        "vectors are for single sentences",
    )
    assert_one_line_error(
        rescore("score", lists, "--lm", "tta:context=x"),
        "expected a number from 1 to 99",
    )
    assert_one_line_error(
        rescore("score", lists, "--lm", f"ngram:context=1:{tmp_path}"),
        "context=1 is not an option of ngram",
    )


def test_one_function_knows_the_recording_of_a_list() -> None:
    """No other function takes an id apart or prefers the key of a list."""
    definitions = [
        f"{path.name}:{node.name}"
        for path in (ROOT / "rescore").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name in ("recording", "recording_of")
    ]
    assert sorted(definitions) == [
        "neighbours.py:recording",
        "neighbours.py:recording_of",
    ]
