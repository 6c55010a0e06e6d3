"""Masked models that read more than the text: a source before it, or neighbours
around it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.lms import (
    ComputeOptions,
    Question,
    capabilities_of,
    checkpoint,
    load,
    without_context,
)
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import MaskedLanguageModelling, SourceObjective
from rescore.research.vectors import Embedder
from tests.conftest import (
    SENTENCES,
    Run,
    assert_one_line_error,
    networks_with_sentences,
)

SHORT = [" ".join(text.split()[:5]) for text in SENTENCES][:12]
KINDS = ("tta", "bilm")
WORDS = ("the", "old", "clock", "on", "wall")


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> dict[str, Path]:
    """Random networks that read a source."""
    configs = [replace(config, kind=kind, sentences=2, source=True) for kind in KINDS]
    return networks_with_sentences(configs, tokenizer, tmp_path_factory)


def definition(kind: str, folder: Path, source: str, target: str) -> list[float]:
    """A token at a time, written out: embeddings of token, place and side; who sees
    whom.
    """
    network, tokenizer = checkpoint.load(folder)
    ids = [
        [tokenizer.bos, *some, tokenizer.eos]
        for some in tokenizer.encode([source, target])
    ]
    size = len(ids[0]) + len(ids[1])
    places = torch.tensor([*range(len(ids[0])), *range(len(ids[1]))])
    sides = torch.tensor([0] * len(ids[0]) + [1] * len(ids[1]))
    values = []
    with torch.no_grad():
        beside = network.position_embedding(places) + network.sentence_embedding(sides)
        for index in range(len(ids[0]) + 1, size - 1):
            tokens = torch.tensor(ids[0] + ids[1])
            wanted = tokens[index].item()
            if kind == "bilm":
                tokens[index] = tokenizer.mask
            memory = (network.token_embedding(tokens) + beside)[None]
            visible = torch.ones(1, 1, size, size, dtype=torch.bool)
            hidden = memory
            if kind == "tta":
                visible = visible & ~torch.eye(size, dtype=torch.bool)
                hidden = beside[None]
            for block in network.layers():
                hidden = block(hidden, memory if kind == "tta" else hidden, visible)
            values.append(
                (hidden[0, index] @ network.token_embedding.weight.T)
                .log_softmax(-1)[wanted]
                .item()
            )
    return values


@pytest.mark.parametrize("budget", [None, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_definition(
    kind: str, folders: dict[str, Path], budget: int | None
) -> None:
    pairs = [
        (source, target)
        for source in (SHORT[0], SHORT[1], "yes")
        for target in SHORT[2:6]
    ]
    for option in ("", "channel:"):
        lm = load(
            f"{kind}:{option}{folders[kind]}", ComputeOptions(batch_tokens=budget)
        )
        assert capabilities_of(lm).source
        found = lm.score([Question(target, source) for source, target in pairs])
        for (source, target), scores in zip(pairs, found, strict=True):
            given, wanted = (target, source) if option else (source, target)
            expected = definition(kind, folders[kind], given, wanted)
            assert scores.log_probs.tolist() == pytest.approx(expected, abs=1e-4)
    assert lm.fingerprint != load(f"{kind}:{folders[kind]}").fingerprint


@settings(max_examples=25)
@given(st.data())
def test_a_prediction_knows_the_source_and_not_its_token(
    folders: dict[str, Path], data: st.DataObject
) -> None:
    """Token i of the target changes all predictions but that at i; a token of the
    source changes all.
    """
    tokenizer = Tokenizer.load(folders["tta"] / "tokenizer.json")
    known = [word for word in WORDS if len(tokenizer.encode([word])[0]) == 1]
    sentence = st.lists(st.sampled_from(known), min_size=2, max_size=8)
    source, target = data.draw(sentence), data.draw(sentence)
    network, _ = checkpoint.load(folders["tta"])

    def hidden(one: list[str], other: list[str]) -> torch.Tensor:
        ids = [
            [tokenizer.bos, *some, tokenizer.eos]
            for some in tokenizer.encode([" ".join(one), " ".join(other)])
        ]
        tokens = torch.tensor(
            [[*ids[0], *(token + tokenizer.vocab_size for token in ids[1])]]
        )
        with torch.no_grad():
            return network(tokens, torch.tensor([tokens.shape[1]]))[
                0, len(ids[0]) + 1 : -1
            ]

    def changed(words: list[str], place: int) -> list[str]:
        word = data.draw(
            st.sampled_from([word for word in known if word != words[place]])
        )
        return [*words[:place], word, *words[place + 1 :]]

    before = hidden(source, target)
    place = data.draw(st.integers(0, len(target) - 1))
    difference = (before - hidden(source, changed(target, place))).abs().amax(dim=1)
    assert difference[place] < 1e-6
    assert all(
        difference[other] > 1e-6 for other in range(len(target)) if other != place
    )
    place = data.draw(st.integers(0, len(source) - 1))
    assert (before - hidden(changed(source, place), target)).abs().amax(
        dim=1
    ).min() > 1e-6


def test_what_cannot_be_asked(
    folders: dict[str, Path], models: dict[str, Path]
) -> None:
    lm = load(f"tta:{folders['tta']}")
    with pytest.raises(UserError, match="reads the source"):
        lm.score(without_context(["yes"]))
    with pytest.raises(UserError, match="vectors are for single sentences"):
        Embedder([lm])
    with pytest.raises(UserError, match="reads no source; train one with --pairs"):
        load(f"tta:channel:{models['tta']}")
    with pytest.raises(UserError, match="was trained on single sentences"):
        load(f"tta:context=1:{folders['tta']}")
    with pytest.raises(UserError, match="channel and context exclude each other"):
        load(f"tta:channel:context=1:{folders['tta']}")
    for wrong in ({"sentences": 3}, {"sentences": 1}, {"kind": "unilm"}):
        with pytest.raises(UserError, match="source"):
            replace(NetworkConfig.load(folders["tta"] / "config.json"), **wrong)


def test_what_is_long_is_scored_all_the_same(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    long = " ".join(["clock"] * 40)
    channel = load(f"tta:channel:{folders['tta']}")
    one, other = channel.score(
        [Question(text, long) for text in ("yes", "the old clock")]
    )
    assert (
        one.sum == other.sum
        and "long texts are scored without the other side" in caplog.text
    )
    cut, whole = load(f"tta:{folders['tta']}").score(
        [Question("yes", long), Question(long, "yes")]
    )
    assert cut.sum < 0 and len(whole.tokens) >= 40 and (whole.log_probs < 0).all()


def test_the_target_alone_is_masked_and_predicted(tokenizer: Tokenizer) -> None:
    """Row by row as the masked objective of the targets alone says, the sources before
    them as they are.
    """
    bos, eos, size = tokenizer.bos, tokenizer.eos, tokenizer.vocab_size
    pairs = [([11, 12, 13], [21, 22]), ([14], [23, 24, 25, 26]), ([15, 16], [27])]
    rows = [[bos, *one, eos, bos, *other, eos] for one, other in pairs]
    tokens = torch.full((3, max(map(len, rows))), tokenizer.pad)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    masked = MaskedLanguageModelling(tokenizer)
    example = SourceObjective(masked, tokenizer)(
        tokens, torch.tensor([len(row) for row in rows]), [1]
    )
    targets = iter(example.targets.tolist())
    for place, (one, other) in enumerate(pairs):
        shown, start = example.tokens[place].tolist(), len(one) + 2
        assert shown[:start] == [bos, *one, eos]
        own = [token - size for token in shown[start : len(rows[place])]]
        predicted = example.predicted[place].tolist()
        assert (
            sum(predicted) == 1
            and sum(predicted[start + 1 : start + 1 + len(other)]) == 1
        )
        at = predicted.index(True) - start
        assert own[at] == tokenizer.mask and next(targets) == other[at - 1]
        assert [token for where, token in enumerate(own) if where != at] == [
            token for where, token in enumerate([bos, *other, eos]) if where != at
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_trained_by_the_command(
    kind: str, rescore: Run, tmp_path: Path, models: dict[str, Path]
) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SHORT) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(text[::-1] for text in SHORT) + "\n")
    (tmp_path / "c.txt").write_text("\n".join(SENTENCES[:40]) + "\n")
    train = (
        "train",
        "--lm",
        kind,
        "--init",
        models[kind],
        "--held-out",
        "2",
        "--batch-tokens",
        "200",
        "--steps",
        "4",
    )
    train += ("--device", "cpu", "--pairs", "a.txt", "b.txt")
    done = rescore(*train, "--out", "lm")
    assert (
        done.returncode == 0 and "pairs of at most 22 tokens a side" in done.stderr
    ), done.stderr
    assert "pairs: validation loss" not in done.stderr  # the pairs are all there is
    lm = load(f"{kind}:{tmp_path / 'lm'}")
    one, other = lm.score([Question("yes", "no"), Question("yes", "the old clock")])
    assert one.sum != other.sum
    done = rescore(*train, "--text", "c.txt", "--out", "both")
    assert done.returncode == 0, done.stderr
    assert (
        f"  {kind}: validation loss" in done.stderr
        and "  pairs: validation loss" in done.stderr
    )
    assert_one_line_error(
        rescore(*train, "--out", "x", "--context", "1"),
        "--context and --pairs exclude each other",
    )
    again = (
        "train",
        "--lm",
        kind,
        "--init",
        "lm",
        "--steps",
        "1",
        "--text",
        "c.txt",
        "--out",
        "y",
    )
    assert_one_line_error(rescore(*again), "reads a source; give --pairs")
    unilm = ("train", "--lm", "unilm", "--pairs", "a.txt", "b.txt", "--out", "z")
    assert_one_line_error(
        rescore(*unilm), "unilm takes no --pairs; give it to --lm tta or bilm"
    )
