"""Tokens of a Segatron have the positions of their paragraph and sentence, as the
thesis numbers them; training and scoring agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.backends import parse
from rescore.lms.base import DEFAULT, LanguageModel, Question, kind_of
from rescore.lms.config import NetworkConfig
from rescore.lms.networks import Transformer, UniLM
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import CausalLanguageModelling, ContextObjective
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.research.segatron import (
    Segatron,
    SegmentObjective,
    SegmentPositions,
    Segments,
)
from rescore.research.segatron_config import MARK, POSITIONS, SegatronConfig
from tests.conftest import SENTENCES, Run, assert_one_line_error

WITH_MARKS = [*SENTENCES[:100], f"the end.{MARK}"]


@pytest.fixture(scope="module")
def marked() -> Tokenizer:
    """A tokenizer with a token for ends of paragraphs."""
    return train_wordpiece(WITH_MARKS, 300, "folded")


def shape(
    tokenizer: Tokenizer, positions: str, kind: str = "segatron"
) -> SegatronConfig:
    return SegatronConfig(
        kind,
        tokenizer.vocab_size,
        layers=2,
        d_model=16,
        heads=2,
        d_ff=32,
        max_positions=40,
        sentences=5,
        positions=positions,
    )


def window(tokenizer: Tokenizer, sentences: Sequence[str]) -> Tensor:
    """Return sentences as a window (1, n): [BOS] first [EOS] [BOS] second [EOS]."""
    ids = []
    for sentence in tokenizer.encode(sentences):
        ids += [tokenizer.bos, *sentence, tokenizer.eos]
    return torch.tensor([ids])


# Three paragraphs of two sentences, one and one. A word is one token.
FIVE = ["a", f"b{MARK}", f"c{MARK}", "d"]
BY_HAND = {
    #            [BOS] a [EOS] [BOS] b P [EOS] [BOS] c P [EOS] [BOS] d [EOS]
    "both": (
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
        [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2],
    ),
    "sentence": (
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3],
        [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2],
    ),
    "paragraph": (
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 0, 1, 2],
    ),
    "none": (
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    ),
}
"""The indexes of paragraphs, sentences and tokens of this window."""


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_by_hand(marked: Tokenizer, positions: str) -> None:
    config = shape(marked, positions)
    tokens = window(marked, FIVE)
    numbered = Segments(marked, config).numbered(tokens, tokens)
    network = Segatron(config)
    segments = numbered // config.vocab_size
    paragraphs, sentences, places = BY_HAND[positions]
    assert (numbered % config.vocab_size).equal(tokens)
    assert (segments // config.sentences).tolist() == [paragraphs]
    assert (segments % config.sentences).tolist() == [sentences]
    assert network.places(numbered).expand_as(tokens).tolist() == [places]


def test_only_the_end_of_a_line_ends_a_paragraph(marked: Tokenizer) -> None:
    tokens = window(marked, [f"a {MARK} b", f"c{MARK}", "d"])
    config = shape(marked, "both")
    segments = Segments(marked, config).of(tokens)[0].tolist()
    sentences = (tokens[0] == marked.bos).cumsum(0).tolist()
    pairs = sorted(set(zip(sentences, segments, strict=True)))
    assert pairs == [(1, 0), (2, 1), (3, config.sentences)]


def randomised(network: SegmentPositions) -> SegmentPositions:
    """Return a network whose positions of segments have an effect."""
    torch.nn.init.normal_(network.sentence_embedding.weight)
    torch.nn.init.normal_(network.paragraph_embedding.weight)
    return network.eval()


def slow_input(
    network: SegmentPositions, paragraphs: list[list[list[int]]], positions: str
) -> Tensor:
    """Return the input of section 2.3.2, token by token (n, d): the sum of the
    embeddings of a token, of its index, and of its sentence's and paragraph's.
    """
    rows = []
    sentences_before = tokens_before = 0
    for paragraph_index, paragraph in enumerate(paragraphs):
        tokens_of_paragraph = 0
        for sentence_index, sentence in enumerate(paragraph):
            for token_index, token in enumerate(sentence):
                p, s, t = 0, 0, token_index
                if positions == "both":
                    p, s = paragraph_index, sentence_index
                elif positions == "sentence":
                    s = sentences_before
                elif positions == "paragraph":
                    p, t = paragraph_index, tokens_of_paragraph
                else:
                    t = tokens_before
                row = network.token_embedding.weight[token]
                row = row + network.position_embedding.weight[t]
                row = row + network.sentence_embedding.weight[s]
                row = row + network.paragraph_embedding.weight[p]
                rows.append(row)
                tokens_of_paragraph += 1
                tokens_before += 1
            sentences_before += 1
    return torch.stack(rows)


@given(
    st.lists(
        st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=5
    ).filter(lambda paragraphs: sum(map(len, paragraphs)) <= 5),
    st.sampled_from(POSITIONS),
)
def test_the_input_is_the_sum_of_four_embeddings(
    marked: Tokenizer, sizes: list[list[int]], positions: str
) -> None:
    torch.manual_seed(0)
    network = randomised(Segatron(shape(marked, positions)))
    ((mark,), (word,)) = marked.encode([MARK, "a"])
    paragraphs = []
    for lengths in sizes:
        sentences = [[marked.bos, *[word] * n, marked.eos] for n in lengths]
        sentences[-1].insert(-1, mark)
        paragraphs.append(sentences)
    flat = [token for sentences in paragraphs for ids in sentences for token in ids]
    tokens = torch.tensor([flat])
    segments = Segments(marked, shape(marked, positions))
    objective = SegmentObjective(CausalLanguageModelling(), marked, segments)
    example = objective(tokens, torch.tensor([len(flat)]), [0])
    torch.testing.assert_close(
        network.embed(example.tokens)[0], slow_input(network, paragraphs, positions)
    )


def test_positions_of_sentences_alone_are_those_of_context(marked: Tokenizer) -> None:
    config = shape(marked, "sentence")
    torch.manual_seed(0)
    network = randomised(Segatron(config))
    torch.nn.init.zeros_(network.paragraph_embedding.weight)
    usual = UniLM(config.of_kind("unilm", sentences=config.sentences))
    state = network.state_dict()
    del state["paragraph_embedding.weight"]
    usual.load_state_dict(state)
    tokens = window(marked, FIVE)
    lengths = torch.tensor([tokens.shape[1]])
    causal = CausalLanguageModelling()
    ours = SegmentObjective(causal, marked, Segments(marked, config))
    example = ours(tokens, lengths, [0])
    other = ContextObjective(causal, marked)(tokens, lengths, [0])
    assert example.targets.equal(other.targets)
    assert example.predicted.equal(other.predicted)
    torch.testing.assert_close(
        network(example.tokens, lengths), usual(other.tokens, lengths)
    )


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_prediction_knows_no_later_paragraph(
    marked: Tokenizer, positions: str
) -> None:
    """Before a mark is read, nothing tells that the paragraph ends."""
    torch.manual_seed(0)
    config = shape(marked, positions)
    network = randomised(Segatron(config))
    segments = Segments(marked, config)
    objective = SegmentObjective(CausalLanguageModelling(), marked, segments)
    hidden = []
    for text in (["a b", f"a{MARK}", "b"], ["a b", "a b", "b"]):
        tokens = window(marked, text)
        lengths = torch.tensor([tokens.shape[1]])
        example = objective(tokens, lengths, [0])
        hidden.append(network(example.tokens, lengths)[0, :6])  # until the second `a`
    torch.testing.assert_close(*hidden)


def test_long_windows_are_cut(marked: Tokenizer) -> None:
    config = shape(marked, "both")
    segments = Segments(marked, config)
    objective = SegmentObjective(CausalLanguageModelling(), marked, segments)
    tokens = window(marked, ["a b c d e f g h i j"] * 5)
    example = objective(tokens, torch.tensor([tokens.shape[1]]), [0])
    assert tokens.shape[1] == 60 and example.tokens.shape[1] == 40
    assert example.lengths.tolist() == [40] and len(example.targets) == 36
    assert example.targets.max() < config.vocab_size


# --- scoring -------------------------------------------------------------------------


def model(folder: Path, tokenizer: Tokenizer, kind: str, positions: str) -> str:
    """Write a random network; return what --lm names."""
    torch.manual_seed(1)
    network = checkpoint.build(shape(tokenizer, positions, kind))
    assert isinstance(network, SegmentPositions)
    checkpoint.save(folder, randomised(network), tokenizer)
    return f"{kind}:context=2:{folder}"


def load(named: str) -> LanguageModel:
    spec = parse(named)
    return kind_of(spec.kind).load(spec, DEFAULT)


def log_probs(network: Transformer, tokens: Tensor) -> Tensor:
    """Return the log-probability of all tokens at all positions of a window."""
    hidden = network(tokens, torch.tensor([tokens.shape[1]]))
    return (hidden[0] @ network.token_embedding.weight.T).log_softmax(-1)


@pytest.mark.parametrize("positions", POSITIONS)
def test_causal_scores_are_those_of_training(
    tmp_path: Path, marked: Tokenizer, positions: str
) -> None:
    lm = load(model(tmp_path, marked, "segatron", positions))
    network, _ = checkpoint.load(tmp_path)
    segments = Segments(marked, network.config)
    before = (f"a b{MARK}", "c d")
    texts = [f"a c{MARK}", "a d", "a d e", ""]  # they share a beginning
    scores = lm.score([Question(text, before=before) for text in texts])
    for text, score in zip(texts, scores, strict=True):
        tokens = window(marked, [*before, text])
        table = log_probs(network, segments.numbered(tokens, tokens))
        own = len(marked.encode([text])[0]) + 1  # and [EOS]
        slow = []
        for place in range(tokens.shape[1] - own, tokens.shape[1]):
            slow.append(table[place - 1, tokens[0, place]].item())
        assert score.log_probs == pytest.approx(slow, abs=1e-4)
    (alone,) = lm.score([Question("a d")])
    tokens = window(marked, ["a d"])
    table = log_probs(network, tokens)
    slow = [table[place, tokens[0, place + 1]].item() for place in range(3)]
    assert alone.log_probs == pytest.approx(slow, abs=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
def test_masked_scores_are_those_of_training(
    tmp_path: Path, marked: Tokenizer, positions: str
) -> None:
    lm = load(model(tmp_path, marked, "segabert", positions))
    network, _ = checkpoint.load(tmp_path)
    segments = Segments(marked, network.config)
    before, text, after = ("a", f"c d{MARK}"), "a b", (f"e{MARK}", "f")
    (score,) = lm.score([Question(text, before=before, after=after)])
    tokens = window(marked, [*before, text, *after])
    slow = []
    for place in (9, 10):  # of a and b
        shown = tokens.clone()
        shown[0, place] = marked.mask
        table = log_probs(network, segments.numbered(tokens, shown))
        slow.append(table[place, tokens[0, place]].item())
    assert score.tokens == ["a", "b"]
    assert score.log_probs == pytest.approx(slow, abs=1e-4)


def test_the_farthest_neighbours_are_left_out_of_a_long_window(
    tmp_path: Path, marked: Tokenizer
) -> None:
    lm = load(model(tmp_path, marked, "segatron", "both"))
    long = " ".join("abcdefghijklmno")
    near, text = "a b c", "d e f"
    (whole,) = lm.score([Question(text, before=(long, near))])
    (cut,) = lm.score([Question(text, before=(" ".join([long, long]), near))])
    (only,) = lm.score([Question(text, before=(near,))])
    (alone,) = lm.score([Question(text)])
    assert cut.sum == pytest.approx(only.sum, abs=1e-4)
    assert abs(whole.sum - only.sum) > 1e-3 and abs(alone.sum - only.sum) > 1e-3
    both = load(model(tmp_path / "bert", marked, "segabert", "both"))
    question = Question(text, before=(long, near), after=("g h i", long))
    nearest = Question(text, before=(near,), after=("g h i", long))
    scores = both.score([question, nearest])
    assert scores[0].sum == pytest.approx(scores[1].sum, abs=1e-4)


# --- the command ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def text(tmp_path: Path) -> Iterator[None]:
    """A text with documents of 20 lines and paragraphs of three."""
    lines = []
    for number, sentence in enumerate(SENTENCES):
        mark = MARK if number % 3 == 2 else ""
        lines.append(f"{sentence}.{mark}")
        if number % 20 == 19:
            lines.append("")
    (tmp_path / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    NetworkConfig(
        "tta", 400, layers=1, d_model=16, heads=2, d_ff=16, max_positions=64
    ).save(tmp_path / "tiny.json")
    yield


TRAIN = ("--text", "text", "--config", "tiny.json", "--context", "2")
CPU = ("--device", "cpu", "--precision", "float32", "--batch-tokens", "400")


@pytest.mark.parametrize("kind", ["segatron", "segabert"])
def test_it_is_trained_resumed_and_scored_with(
    rescore: Run, tmp_path: Path, kind: str
) -> None:
    train = ("train", "--lm", kind, *TRAIN, *CPU, "--learning-rate", "1e-2")
    first = rescore(*train, "--steps", "4", "--out", "lm")
    assert first.returncode == 0, first.stderr
    last = rescore(*train, "--steps", "30", "--out", "lm", "--resume")
    assert last.returncode == 0, last.stderr
    before, after = (
        float(done.stderr.split("validation loss ")[-1].split()[0])
        for done in (first, last)
    )
    assert after < before - 0.1
    config = json.loads((tmp_path / "lm" / "config.json").read_text())
    assert config["positions"] == "both"
    assert config["sentences"] == (3 if kind == "segatron" else 5)
    other = rescore(
        *train, "--steps", "31", "--out", "lm", "--resume", "--positions", "sentence"
    )
    assert_one_line_error(other, "was made with positions both, not sentence")
    named = ("--lm", f"{kind}:context=2:lm", "--lm", f"{kind}:lm")
    scored = rescore("score", "--text", "text", *named)
    assert scored.returncode == 0, scored.stderr
    rows = [line.split() for line in scored.stdout.splitlines()[1:3]]
    assert [row[0] for row in rows] == [f"{kind}:context=2", kind]
    assert rows[0][3] != rows[1][3]  # log p
    lists = {}
    for number in range(3):
        hypotheses = {
            "hyp_1": {"score": -1, "text": "the old clock"},
            "hyp_2": {"score": -2, "text": "the odd clock"},
        }
        lists[f"talk-{number}"] = {"ref": "the old clock", **hypotheses}
    (tmp_path / "l.json").write_text(json.dumps(lists), encoding="utf-8")
    done = rescore(
        "compare", "l.json", "--lm", f"{kind}:context=1:lm", "--dev", "l.json"
    )
    assert done.returncode == 0 and f"{kind}:context=1" in done.stdout, done.stderr


def test_it_adapts_a_causal_network(rescore: Run, tmp_path: Path) -> None:
    """A network without segments starts as it is on single sentences."""
    tokenizer = ("--size", "400", "--normalize", "folded")
    train = ("train", "--text", "text", *CPU, "--out")
    start = (*train, "uni", "--lm", "unilm", "--config", "tiny.json", *tokenizer)
    assert rescore(*start, "--steps", "0").returncode == 0
    adapt = (*train, "sega", "--lm", "segatron", "--init", "uni", "--context", "2")
    done = rescore(*adapt, "--steps", "0")
    assert done.returncode == 0, done.stderr
    named = ("--lm", "unilm:uni", "--lm", "segatron:sega")
    done = rescore("score", "--text", "text", *named)
    first, second = (line.split()[1:] for line in done.stdout.splitlines()[1:3])
    assert first == second


def test_errors(rescore: Run, tmp_path: Path, marked: Tokenizer) -> None:
    train = ("train", "--lm", "segatron", *TRAIN, *CPU, "--steps", "1")
    without = ("--normalize", "english")
    done = rescore(*train, *without, "--out", "a")
    assert done.returncode == 2 and f"error: the tokenizer has no {MARK}" in done.stderr
    done = rescore(*train, *without, "--out", "b", "--positions", "sentence")
    assert done.returncode == 0, done.stderr
    done = rescore("score", "--text", "text", "--lm", "segatron:context=5:b")
    assert_one_line_error(done, "was trained with --context 2")
    adapt = ("train", "--lm", "segatron", "--text", "text", "--init", "b", *CPU)
    done = rescore(*adapt, "--context", "3", "--positions", "sentence", "--out", "c")
    assert_one_line_error(done, "--context 3: the model reads 2")
    with pytest.raises(UserError, match="positions is 'all'; it must be one of both"):
        replace(shape(marked, "both"), positions="all")


def test_a_model_to_start_from_keeps_its_positions(
    rescore: Run, tmp_path: Path
) -> None:
    train = ("train", "--lm", "segatron", *TRAIN, *CPU, "--steps", "0")
    done = rescore(*train, "--positions", "sentence", "--out", "first")
    assert done.returncode == 0, done.stderr
    again = ("train", "--lm", "segatron", "--text", "text", *CPU, "--steps", "0")
    start = ("--init", "first", "--context", "2")
    done = rescore(*again, *start, "--out", "second")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    assert config["positions"] == "sentence"
