"""One network, four masks: every reading of a unified network equals its definition,
one token at a time under a mask that is written out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import (
    ComputeOptions,
    Question,
    capabilities_of,
    checkpoint,
    is_pseudo,
    load,
    without_context,
)
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective
from rescore.lms.training.train import build
from rescore.research import accuracy
from rescore.research.unified import SourceScorer, Unified, objectives
from rescore.research.unified_kind import (
    MIXTURE,
    READINGS,
    Segment,
    UnifiedConfig,
    UnifiedKind,
    UnifiedOptions,
)
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error

SOURCES = ["the old house", "he said so", "yes", "the old clock"]
TARGETS = [text for text in SENTENCES if len(text.split()) <= 8][:6]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS]
SIDES = ["seq2seq", "channel", "bi:source", "bi:channel"]


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> Path:
    """A random network that predicts next tokens."""
    return random_network(tmp_path_factory.mktemp("plain"), tokenizer, config)


@pytest.fixture(scope="module")
def cloze(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> Path:
    """A random network that predicts masked tokens in all readings."""
    folder = tmp_path_factory.mktemp("cloze")
    return random_network(folder, tokenizer, config, cloze=True)


@pytest.fixture(params=["plain", "cloze"])
def folder(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


def random_network(
    folder: Path, tokenizer: Tokenizer, config: NetworkConfig, cloze: bool = False
) -> Path:
    torch.manual_seed(3)
    network = checkpoint.build(config.of_kind("unified", cloze=cloze))
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    checkpoint.save(folder, network, tokenizer)
    return folder


# --- the definition ------------------------------------------------------------------


def log_probs(
    network: Unified, tokens: list[int], segments: list[int], sees: list[list[bool]]
) -> Tensor:
    """Return (n, vocabulary) natural logs: equations 1 to 3 with the mask `sees`.

    Args:
        network: The network, in float64.
        tokens: The ids of the tokens.
        segments: The segment of each token.
        sees: Whether position i sees position j, at [i][j].
    """
    places = [segments[:rank].count(segment) for rank, segment in enumerate(segments)]
    embedded = (
        network.token_embedding(torch.tensor(tokens))
        + network.sentence_embedding(torch.tensor(segments))
        + network.position_embedding(torch.tensor(places))
    )
    hidden = embedded[None] * network.scale
    for block in network.layers():
        hidden = block(hidden, hidden, torch.tensor(sees)[None, None])
    return torch.log_softmax(hidden[0] @ network.token_embedding.weight.T, dim=-1)


def slides(first: int, second: int, reading: str) -> list[list[bool]]:
    """Return the mask of the slides for sequences of two segments: of a bidirectional
    language model everything, of the others the past, of sequence-to-sequence the whole
    source and the past of the target.
    """
    size = first + second
    if reading == "bi":
        return [[True] * size for _ in range(size)]
    if reading == "seq2seq":
        of_source = [[True] * first + [False] * second] * first
        of_target = [
            [True] * first + [place <= own for place in range(second)]
            for own in range(second)
        ]
        return of_source + of_target
    return [[place <= own for place in range(size)] for own in range(size)]


def definition(reading: str, folder: Path, source: str, target: str) -> list[float]:
    """Return the log-probability of each token of the target, each from a sequence of
    its own.
    """
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    assert isinstance(network.config, UnifiedConfig)
    network.double()
    given, ids = tokenizer.encode([source, target])
    if reading == "r2l":
        ids = ids[::-1]
    front = [tokenizer.bos]
    if ":" in reading or reading == "seq2seq":
        front = [tokenizer.bos, *given, tokenizer.eos, tokenizer.bos]
    both_sides = reading.startswith("bi")
    if not both_sides:
        ids = [*ids, tokenizer.eos]
    first_segment = {
        "l2r": Segment.FORWARD,
        "r2l": Segment.BACKWARD,
        "seq2seq": Segment.SOURCE,
    }.get(reading, Segment.BOTH)
    values = []
    for rank, token in enumerate(ids):
        if both_sides:
            own = [*ids[:rank], tokenizer.mask, *ids[rank + 1 :], tokenizer.eos]
        elif network.config.cloze:
            own = [*ids[:rank], tokenizer.mask]
        else:
            own = ids[:rank]
        at = len(front) + rank
        if not both_sides and not network.config.cloze:
            at -= 1
        tokens = [*front, *own]
        second = len(own) + 1 if len(front) > 1 else 0
        first = len(tokens) - second
        segments = [first_segment] * first + [first_segment + 1] * second
        sees = slides(first, second, "bi" if both_sides else reading)
        with torch.no_grad():
            found = log_probs(network, tokens, segments, sees)
        values.append(found[at, token].item())
    return values[::-1] if reading == "r2l" else values


# --- scores --------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["bi", "l2r", "r2l"])
def test_a_sentence_equals_the_definition(reading: str, folder: Path) -> None:
    found = load(f"unified:{reading}:{folder}").score(without_context(TARGETS))
    for text, scores in zip(TARGETS, found, strict=True):
        slow = definition(reading, folder, "", text)
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert len(scores.tokens) == len(slow)


@pytest.mark.parametrize("budget", [None, 60])
@pytest.mark.parametrize("reading", SIDES)
def test_a_pair_equals_the_definition(
    reading: str, budget: int | None, folder: Path
) -> None:
    """Hypotheses share the reading of their source; a single pair does not."""
    lm = load(f"unified:{reading}:{folder}", ComputeOptions(batch_tokens=budget))
    assert capabilities_of(lm).source
    assert is_pseudo(f"unified:{reading}") == reading.startswith("bi")
    found = lm.score([Question(target, source) for source, target in PAIRS])
    for (source, target), scores in zip(PAIRS[::5], found[::5], strict=True):
        sides = (target, source) if "channel" in reading else (source, target)
        slow = definition(READINGS[reading], folder, *sides)
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert (scores.tokens[-1] == "[EOS]") != reading.startswith("bi")
    for (source, target), scores in zip(PAIRS, found, strict=True):
        (alone,) = lm.score([Question(target, source)])
        np.testing.assert_allclose(scores.log_probs, alone.log_probs, atol=1e-4)


def test_a_source_is_read_once(plain: Path) -> None:
    """All hypotheses of a source, and no other source, stand in a tree with it."""
    lm = load(f"unified:seq2seq:{plain}")
    assert isinstance(lm, SourceScorer)
    encoded = lm.encoded([Question(target, source) for source, target in PAIRS])
    trees = [tree for request in lm.requests(encoded) for tree in request.batch.tokens]
    assert len(trees) == len(SOURCES)
    bos = lm.network.before[0]
    assert all((tree == bos).sum() == 1 for tree in trees)


def test_long_sources_and_targets(
    plain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A source is cut; windows of a target stand behind its source."""
    lm = load(f"unified:seq2seq:{plain}")
    positions = checkpoint.load(plain)[0].config.max_positions
    words = ["old", "house", "the"] * positions
    short, longer = " ".join(words[: positions - 2]), " ".join(words)
    cut, whole = lm.score([Question("yes", longer), Question("yes", short)])
    assert cut.sum == pytest.approx(whole.sum, abs=1e-4) and not caplog.text
    known, other = lm.score([Question(longer, "yes"), Question(longer, "he said so")])
    assert "overlapping windows" in caplog.text
    assert len(known.tokens) == len(words) + 1
    assert (known.log_probs < 0).all()
    assert (np.abs(known.log_probs - other.log_probs) > 1e-6).all()


def test_a_long_pair_from_both_sides(
    plain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of all networks that read a source: a long text is read alone."""
    longer = " ".join(["old", "house"] * 40)
    (found,) = load(f"unified:bi:source:{plain}").score([Question(longer, "yes")])
    assert "scored without the other side, in overlapping windows" in caplog.text
    (alone,) = load(f"unified:bi:{plain}").score([Question(longer)])
    np.testing.assert_allclose(found.log_probs, alone.log_probs, atol=1e-4)


# --- the network ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "reading"),
    [
        (Segment.BOTH, "bi"),
        (Segment.FORWARD, "l2r"),
        (Segment.BACKWARD, "r2l"),
        (Segment.SOURCE, "seq2seq"),
    ],
)
def test_masks_are_those_of_the_slides(
    first: Segment, reading: str, plain: Path
) -> None:
    network = checkpoint.load(plain)[0]
    assert isinstance(network, Unified)
    segments = [first] * 4
    if reading in ("bi", "seq2seq"):
        segments += [Segment(first + 1)] * 3
    shift = torch.tensor(segments) * network.config.vocab_size
    padded = torch.zeros(2, 9, dtype=torch.long)
    padded[0, : len(segments)] = shift + 7
    padded[1] = shift[0] + 7
    size = len(segments)
    (mask, _) = network.visible(padded, torch.tensor([size, 9]))
    assert mask[:size, :size].tolist() == slides(4, size - 4, reading)
    assert not mask[:, size:].any()


def test_padding_and_a_target_change_nothing(plain: Path) -> None:
    network = checkpoint.load(plain)[0]
    size = network.config.vocab_size
    source = torch.tensor([[2, 7, 8, 3]]) + Segment.SOURCE * size
    target = torch.tensor([[2, 9, 11, 3]]) + Segment.TARGET * size
    pair = torch.cat([source, target], dim=1)
    longer = torch.full((1, 10), 6)
    padding = torch.zeros(1, 2, dtype=torch.long)
    batch = torch.cat([torch.cat([pair, padding], dim=1), longer])
    with torch.no_grad():
        alone = network(pair, torch.tensor([8]))
        among = network(batch, torch.tensor([8, 10]))
        without_target = network(source, torch.tensor([4]))
    torch.testing.assert_close(alone[0], among[0, :8], atol=1e-5, rtol=0)
    torch.testing.assert_close(without_target[0], among[0, :4], atol=1e-5, rtol=0)


def test_vectors(plain: Path, cloze: Path) -> None:
    """A reading of sentences has vectors, unless the token is predicted at a [MASK]."""
    for reading in ("bi:intact", "l2r", "r2l"):
        embedder = Embedder([load(f"unified:{reading}:{plain}")])
        together = embedder.sentences(TARGETS)
        for text, vector in zip(TARGETS, together, strict=True):
            assert embedder.sentences([text])[0] == pytest.approx(vector, abs=1e-5)
    for reading in SIDES:
        with pytest.raises(UserError, match="vectors are for single sentences"):
            Embedder([load(f"unified:{reading}:{plain}")])
    with pytest.raises(UserError, match="has no vectors"):
        Embedder([load(f"unified:l2r:{cloze}")])


def config_of(folder: Path) -> UnifiedConfig:
    config = UnifiedConfig.load(folder / "config.json")
    assert isinstance(config, UnifiedConfig)
    return config


# --- training ------------------------------------------------------------------------


def example_of(
    objective: Objective, tokenizer: Tokenizer, texts: list[str], seed: int = 0
) -> Example:
    """Return the example of a sentence or pair, with padding behind it."""
    sentences = [
        [tokenizer.bos, *ids, tokenizer.eos] for ids in tokenizer.encode(texts)
    ]
    tokens = [token for sentence in sentences for token in sentence]
    batch = torch.tensor([[*tokens, tokenizer.pad, tokenizer.pad]])
    return objective(batch, torch.tensor([len(tokens)]), [seed])


@pytest.mark.parametrize("reading", ["bi", "l2r", "r2l"])
def test_the_best_token_has_the_highest_score(reading: str, folder: Path) -> None:
    """`accuracy` asks the network as scoring does."""
    lm = accuracy.predicting(load(f"unified:{reading}:{folder}"))
    network = cast(accuracy.PredictingNetwork, lm.network)
    questions = without_context([*SENTENCES[:3], "the old"])
    vocabulary = torch.arange(network.vocabulary)
    with torch.inference_mode():
        for batch, *_ in lm.requests(lm.encoded(questions)):
            for row, best in enumerate(network.best(batch).tolist()):
                rows = torch.full_like(vocabulary, row)
                scores = network.log_probs(batch, rows, vocabulary)
                assert int(scores.argmax()) == best
    for _, is_end in accuracy.right_tokens(lm, questions):
        assert is_end.sum() == (reading != "bi")


@pytest.mark.parametrize("reading", ["l2r", "r2l", "seq2seq"])
def test_the_loss_of_next_tokens_is_the_score(reading: str, plain: Path) -> None:
    network, tokenizer = checkpoint.load(plain)
    objective = objectives(tokenizer)[reading]
    assert objective.predicts_end
    source, target = PAIRS[0]
    texts = [source, target] if reading == "seq2seq" else [target]
    example = example_of(objective, tokenizer, texts)
    with torch.no_grad():
        hidden = network(example.tokens, example.lengths)
        loss = objective.loss(network, hidden, example).item()
    (scores,) = load(f"unified:{reading}:{plain}").score([Question(target, source)])
    assert loss == pytest.approx(-scores.sum, abs=1e-3)


@pytest.mark.parametrize("reading", ["bi", "bi:source", "l2r", "r2l", "seq2seq"])
def test_the_loss_of_a_masked_token_is_its_score(reading: str, cloze: Path) -> None:
    """One token is masked at a time, at last each. In a pair, tokens of both sides are
    masked.
    """
    network, tokenizer = checkpoint.load(cloze)
    objective = objectives(tokenizer, cloze=True, cap=1)[reading]
    source, target = PAIRS[0]
    paired = reading in ("bi:source", "seq2seq")
    texts = [source, target] if paired else [target]
    (scores,) = load(f"unified:{reading}:{cloze}").score([Question(target, source)])
    log_probs = scores.log_probs[::-1] if reading == "r2l" else scores.log_probs
    begin = 1
    if paired:
        begin += len(tokenizer.encode([source])[0]) + 2
    places = set()
    for seed in range(120):
        example = example_of(objective, tokenizer, texts, seed)
        if not len(example.targets):  # the frame of a pair was drawn
            continue
        ((_, place),) = example.predicted.nonzero().tolist()
        places.add(place)
        assert example.tokens[0, place] % tokenizer.vocab_size == tokenizer.mask
        if place < begin:
            continue
        with torch.no_grad():
            hidden = network(example.tokens, example.lengths)
            loss = objective.loss(network, hidden, example).item()
        assert loss == pytest.approx(-log_probs[place - begin], abs=1e-4)
    own = range(begin, begin + len(log_probs))
    of_source = range(1, begin - 2) if paired else range(0)
    assert places == {*of_source, *own}


def test_shares_of_the_readings() -> None:
    """The slides' setup: a third from both sides, a third sequence to sequence, a sixth
    in each direction.
    """
    shares = {name: MIXTURE.count(name) / len(MIXTURE) for name in MIXTURE}
    assert shares["bi"] + shares["bi:source"] == pytest.approx(1 / 3)
    assert shares["seq2seq"] == pytest.approx(1 / 3)
    assert shares["l2r"] == shares["r2l"] == pytest.approx(1 / 6)
    assert UnifiedOptions().readings == MIXTURE
    assert UnifiedOptions(reading=("l2r", "bi")).readings == ("bi", "l2r")


def test_a_bilm_is_where_it_may_start(
    models: dict[str, Path], tokenizer: Tokenizer
) -> None:
    """The paper starts from BERT: before the first update, the network reads a sentence
    from both sides as that network does.
    """
    options = UnifiedOptions(init=str(models["bilm"]), steps=0)
    network = build(UnifiedKind("unified"), options, tokenizer)
    tokens, lengths = torch.tensor([[2, 7, 8, 9, 3]]), torch.tensor([5])
    with torch.no_grad():
        expected = checkpoint.load(models["bilm"])[0](tokens, lengths)
        torch.testing.assert_close(network(tokens, lengths), expected)


# --- the command line ----------------------------------------------------------------

TRAIN = ("train", "--lm", "unified", "--config", "tiny.json", "--held-out", "6")
TRAIN += ("--batch-tokens", "400", "--device", "cpu", "--precision", "float32")


@pytest.fixture
def texts(tmp_path: Path) -> None:
    """Sixty sentences, the same in other letters, and a small configuration."""
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES[:60]) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(SENTENCES[:60]).upper() + "\n")
    NetworkConfig(
        "tta", 300, layers=1, d_model=16, heads=2, d_ff=32, max_positions=64
    ).save(tmp_path / "tiny.json")


@pytest.mark.usefixtures("texts")
def test_trained_on_pairs(rescore: Run, tmp_path: Path) -> None:
    train = (*TRAIN, "--pairs", "a.txt", "b.txt", "--out", "lm")
    done = rescore(*train, "--steps", "6")
    assert done.returncode == 0, done.stderr
    for name in dict.fromkeys(MIXTURE):
        assert f"  {name}: validation loss" in done.stderr
    assert (
        "| validation perplexity, seq2seq |" in (tmp_path / "lm/README.md").read_text()
    )
    again = rescore(*train, "--steps", "12", "--resume")
    assert again.returncode == 0 and "step 12" in again.stderr, again.stderr
    hypotheses = [{"text": text, "score": -1.0 - n} for n, text in enumerate(TARGETS)]
    records = [
        {"id": source, "src": source, "ref": TARGETS[0], "hyps": hypotheses}
        for source in SOURCES
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "lists.jsonl").write_text(lines)
    lms = [part for name in READINGS for part in ("--lm", f"unified:{name}:lm")]
    compared = rescore("compare", "lists.jsonl", *lms, "--dev", "lists.jsonl")
    assert compared.returncode == 0, compared.stderr
    assert all(f"unified:{name}" in compared.stdout for name in READINGS)
    scored = rescore("score", "lists.jsonl", "--lm", "unified:seq2seq:lower:lm")
    assert scored.returncode == 0, scored.stderr
    found = json.loads(scored.stdout.splitlines()[-1])["hyps"][1]["scores"]
    slow = sum(definition("seq2seq", tmp_path / "lm", SOURCES[-1], TARGETS[1]))
    assert found["unified:seq2seq:lower"] == pytest.approx(slow, abs=1e-3)
    no_source = rescore("score", "--text", "a.txt", "--lm", "unified:seq2seq:lm")
    assert_one_line_error(no_source, "source")


@pytest.mark.usefixtures("texts")
def test_trained_on_consecutive_lines(rescore: Run, tmp_path: Path) -> None:
    """Without pairs, all readings learn from the text, as in the paper."""
    train = (*TRAIN, "--cloze", "--out", "lm", "--steps", "6")
    done = rescore(*train, "--text", "a.txt")
    assert done.returncode == 0, done.stderr
    for name in dict.fromkeys(MIXTURE):
        assert f"  {name}: validation loss" in done.stderr
    assert done.stderr.count("15 % masked") == len(set(MIXTURE))
    config = config_of(tmp_path / "lm")
    assert config.cloze and config.sentences == len(Segment)
    assert config.readings.split() == list(dict.fromkeys(MIXTURE))
    # An adaptation to a task goes on as the network began.
    adapt = (*TRAIN[:3], *TRAIN[5:], "--init", "lm", "--steps", "2")
    tuned = rescore(
        *adapt, "--pairs", "a.txt", "b.txt", "--reading", "seq2seq", "--out", "tuned"
    )
    assert tuned.returncode == 0 and "15 % masked" in tuned.stderr, tuned.stderr
    assert config_of(tmp_path / "tuned") == config
    alone = "\n\n".join(SENTENCES[:60])
    (tmp_path / "alone.txt").write_text(alone, encoding="utf-8")
    apart = rescore(*TRAIN, "--text", "alone.txt", "--steps", "2", "--out", "x")
    assert apart.returncode == 2
    assert "too few windows of 2 consecutive lines" in apart.stderr


@pytest.mark.usefixtures("texts")
def test_trained_for_one_reading(rescore: Run) -> None:
    train = (*TRAIN, "--text", "a.txt", "--out", "lm")
    done = rescore(*train, "--reading", "l2r", "--steps", "2")
    assert done.returncode == 0 and "bi: " not in done.stderr, done.stderr
    assert load("unified:l2r:lm").score([Question("yes")])[0].sum < 0
    with pytest.raises(UserError, match="learned to read l2r only; train it with --re"):
        load("unified:channel:lm")
    other = rescore(*train, "--reading", "r2l", "--steps", "3", "--resume")
    assert_one_line_error(other, "was made with tasks l2r, not r2l")
    pairs = (*TRAIN, "--pairs", "a.txt", "b.txt", "--out", "x")
    assert_one_line_error(
        rescore(*pairs, "--reading", "l2r"), "--reading l2r learns from single sent"
    )
    assert_one_line_error(
        rescore(*pairs, "--reading", "x"), "--reading x: expected one of bi, l2r"
    )


def test_what_is_no_reading(plain: Path, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("yes\n")
    score = ("score", "--text", "text", "--lm")
    none = rescore(*score, f"unified:{plain}")
    assert_one_line_error(none, "expected a reading, bi, l2r, r2l, ", "; found none")
    two = rescore(*score, f"unified:bi:l2r:{plain}")
    assert_one_line_error(two, "--lm unified:bi:l2r", "found bi:l2r")
    intact = rescore(*score, f"unified:l2r:intact:{plain}")
    assert_one_line_error(intact, "intact is for the readings bi, bi:source")


def test_fields_of_the_configuration(config: NetworkConfig, tmp_path: Path) -> None:
    """A field of an earlier version is one again where a kind has it."""
    path = tmp_path / "config.json"
    config.of_kind("unified", cloze=True).save(path)
    assert config_of(tmp_path).cloze
    values = json.loads(path.read_text()) | {"kind": "bilm", "sentences": 1}
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match="cloze belongs to an earlier version"):
        NetworkConfig.load(path)
    with pytest.raises(UserError, match="sentences is 6; a network that reads a sour"):
        config.of_kind("unified", source=True)
    with pytest.raises(UserError, match="kind unilm-bw reads one sentence at a time"):
        config.of_kind("unilm-bw", sentences=2)


def test_sentences_are_not_segments(
    rescore: Run, tmp_path: Path, plain: Path, models: dict[str, Path]
) -> None:
    """A network of segments starts no network of sentences, nor the other way round,
    and masks are learned by all readings or by none.
    """
    (tmp_path / "text").write_text("\n".join(SENTENCES[:40]) + "\n", encoding="utf-8")
    train = ("train", "--text", "text", "--steps", "1", "--out", "out", "--lm")
    done = rescore(*train, "bilm", "--init", plain)
    assert_one_line_error(done, "which has other weights than kind bilm")
    first = ("--init", models["unilm"], "--context", "1")
    done = rescore(*train[:-2], "near", "--lm", "unilm", *first)
    assert done.returncode == 0, done.stderr
    done = rescore(*train, "unified", "--init", "near")
    assert_one_line_error(done, "which has other weights than kind unified")
    done = rescore(*train[:-2], "un", "--lm", "unified", "--init", plain)
    assert done.returncode == 0, done.stderr
    again = ("unified", "--init", "un", "--cloze", "--reading", "l2r")
    assert_one_line_error(rescore(*train, *again), "was trained without it")
