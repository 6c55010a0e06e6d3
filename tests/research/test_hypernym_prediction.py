"""Steps of class prediction are those of the thesis' equation 3.2, and a training goes
from classes to tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import UnilmKind
from rescore.lms.networks import BiLM, Network, Transformer, UniLM
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import (
    CausalLanguageModelling,
    ContextObjective,
    Example,
    LanguageAutoencoding,
    MaskedLanguageModelling,
    Objective,
)
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.parts import KINDS
from rescore.research.hypernym_prediction import (
    ClassPrediction,
    EmbeddedClasses,
    HypernymCurriculum,
    SummedClasses,
    predicts_tokens,
)
from rescore.research.hypernyms import Pacing
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.research.test_hypernyms import Nouns

VOCABULARY = 12
OF = np.array([-1, -1, -1, -1, -1, 0, 1, 0, -1, 1, 2, -1])
"""The classes of tokens: two classes of two tokens, and one of one token."""
CLASSES = 3
TOKENS = torch.tensor([[2, 7, 8, 9, 5, 3], [2, 10, 11, 3, 0, 0]])
LENGTHS = torch.tensor([6, 4])


SMALL = NetworkConfig(
    "unilm", VOCABULARY, layers=2, d_model=16, heads=2, d_ff=16, max_positions=20
)


def replaced(tokens: Tensor) -> Tensor:
    """Return tokens with class h as the token VOCABULARY + h."""
    of = torch.from_numpy(OF)
    return torch.where(of[tokens] < 0, tokens, VOCABULARY + of[tokens])


def equation_3_2(network: Network, embeddings: Tensor, bias: Tensor | None) -> Tensor:
    """Return the loss of class prediction, word by word: all tokens with a class are
    replaced in the text, and the softmax runs over classes and tokens without class.

    Args:
        network: A network that has the classes behind its tokens.
        embeddings: (tokens and classes, d).
        bias: (tokens and classes,).
    """
    tokens = replaced(TOKENS)
    hidden = network(tokens, LENGTHS)
    possible = [word for word in range(VOCABULARY) if OF[word] < 0]
    possible += range(VOCABULARY, VOCABULARY + CLASSES)
    total = torch.zeros(())
    for row, length in enumerate(LENGTHS.tolist()):
        for place in range(length - 1):
            x = hidden[row, place]
            scores = {}
            for word in possible:
                score = x @ embeddings[word]
                scores[word] = score if bias is None else score + bias[word]
            below = torch.stack(list(scores.values())).exp().sum()
            total = total - (scores[int(tokens[row, place + 1])].exp() / below).log()
    return total


@pytest.mark.parametrize("output_bias", [False, True])
def test_a_step_is_equation_3_2(output_bias: bool) -> None:
    torch.manual_seed(0)
    small = replace(SMALL, output_bias=output_bias)
    network = UniLM(small)
    prediction = EmbeddedClasses(OF, small, seed=1)
    head = prediction.head
    if output_bias:
        assert network.output_bias is not None and head.bias is not None
        torch.nn.init.normal_(network.output_bias)
        torch.nn.init.normal_(head.bias)
    step = ClassPrediction(CausalLanguageModelling(), prediction)
    example = step(TOKENS, LENGTHS, [0])
    ours = step.loss(network, step.hidden(network, example), example)
    ours.backward()
    larger = UniLM(replace(small, vocab_size=VOCABULARY + CLASSES))
    state = network.state_dict()
    table = torch.cat([network.token_embedding.weight, head.weight]).detach()
    state["token_embedding.weight"] = table
    bias = None
    if output_bias:
        state["output_bias"] = torch.cat([network.output_bias, head.bias]).detach()
    larger.load_state_dict(state)
    if output_bias:
        bias = larger.output_bias
    slow = equation_3_2(larger, larger.token_embedding.weight, bias)
    slow.backward()
    torch.testing.assert_close(ours, slow)
    gradient = larger.token_embedding.weight.grad
    assert gradient is not None
    torch.testing.assert_close(
        network.token_embedding.weight.grad, gradient[:VOCABULARY]
    )
    torch.testing.assert_close(head.weight.grad, gradient[VOCABULARY:])
    first, other = network.blocks[0], larger.blocks[0]
    for one, same in zip(first.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, same.grad)
    # A token with a class is neither read nor predicted: its embedding learns nothing.
    assert not network.token_embedding.weight.grad[torch.from_numpy(OF >= 0)].any()


def test_masked_tokens_and_windows_are_replaced_too(tokenizer: Tokenizer) -> None:
    """What an objective masks or numbers stays so: only embeddings are others."""
    torch.manual_seed(0)
    size = tokenizer.vocab_size
    of = np.full(size, -1)
    of[[20, 21]] = 0
    masked = MaskedLanguageModelling(tokenizer, 0.5)
    objective = ContextObjective(masked, tokenizer)
    small = replace(SMALL, kind="bilm", vocab_size=size, sentences=3)
    network: Transformer = BiLM(small)
    step = ClassPrediction(objective, EmbeddedClasses(of, small, seed=1))
    bos, eos = tokenizer.bos, tokenizer.eos
    texts = [[bos, 20, 30, 31, eos, bos, 32, word, eos] for word in (20, 21)]
    lengths = torch.tensor([9])
    hidden = []
    for text in texts:
        example = step(torch.tensor([text]), lengths, [4])
        assert (example.tokens % size == tokenizer.mask).any()
        hidden.append(step.hidden(network, example))
    torch.testing.assert_close(*hidden)


def test_the_probability_of_a_class_is_that_of_its_tokens() -> None:
    torch.manual_seed(0)
    small = replace(SMALL, output_bias=True)
    network = UniLM(small)
    torch.nn.init.normal_(network.output_bias)
    step = ClassPrediction(CausalLanguageModelling(), SummedClasses(OF))
    tokens, lengths = TOKENS.repeat(100, 1), LENGTHS.repeat(100)
    example = step(tokens, lengths, [0])
    hidden = step.hidden(network, example)
    ours = step.loss(network, hidden, example)
    logits = hidden[example.predicted] @ network.output_weight.T + network.output_bias
    slow = torch.zeros(())
    for row, target in zip(logits.softmax(-1), example.targets.tolist(), strict=True):
        members = [target] if OF[target] < 0 else np.flatnonzero(OF[target] == OF)
        slow = slow - row[list(members)].sum().log()
    torch.testing.assert_close(ours, slow, rtol=1e-5, atol=0)
    parameters = list(network.parameters())[:8]
    for one, other in zip(
        torch.autograd.grad(ours, parameters, retain_graph=True),
        torch.autograd.grad(slow, parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_classes_come_before_tokens() -> None:
    """Constant pacing: in 80 % of the steps of the first 12 %, and in none behind."""
    inner = CausalLanguageModelling()
    prediction = SummedClasses(OF)
    objective = HypernymCurriculum(inner, prediction, Pacing(False, 0.12, 0.8), seed=3)
    steps = [objective.at(step / 5000) for step in range(600)]
    of_classes = [isinstance(step, ClassPrediction) for step in steps]
    assert 0.75 < np.mean(of_classes) < 0.85
    assert of_classes == [
        isinstance(objective.at(step / 5000), ClassPrediction) for step in range(600)
    ]
    assert all(objective.at(step / 5000) is inner for step in range(600, 5001))
    other = HypernymCurriculum(inner, prediction, Pacing(False, 0.12, 0.8), seed=4)
    assert of_classes != [
        isinstance(other.at(step / 5000), ClassPrediction) for step in range(600)
    ]


class TwoLosses(LanguageAutoencoding):
    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        return 2 * super().loss(network, hidden, example)


def test_objectives_that_predict_tokens(tokenizer: Tokenizer) -> None:
    causal = CausalLanguageModelling()
    assert predicts_tokens(causal)
    assert predicts_tokens(ContextObjective(causal, tokenizer))
    assert not predicts_tokens(TwoLosses())
    assert not predicts_tokens(ContextObjective(TwoLosses(), tokenizer))
    step = ClassPrediction(causal, SummedClasses(OF))
    assert not predicts_tokens(ContextObjective(step, tokenizer))


# --- the command ---------------------------------------------------------------------

TRAIN = ("--config", "tiny.json", "--tokenizer", "tokenizer.json", "--text", "text")
CPU = ("--device", "cpu", "--precision", "float32", "--batch-tokens", "300")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    """A text, and a WordNet that has its nouns: clocks and walls are artifacts."""
    nouns = Nouns(["entity", "artifact", "clock", "wall", "door", "garden"])
    nouns.above = {1: [0], 2: [1], 3: [1], 4: [1], 5: [0]}
    nouns.senses = {noun: [synset] for synset, noun in enumerate(nouns.first)}
    (tmp_path / "wordnet").mkdir()
    nouns.write(tmp_path / "wordnet")
    text = "\n".join(SENTENCES)
    (tmp_path / "text").write_text(text, encoding="utf-8")
    train_wordpiece(SENTENCES, 2000).save(tmp_path / "tokenizer.json")
    NetworkConfig(
        "tta", 2000, layers=1, d_model=16, heads=2, d_ff=16, max_positions=40
    ).save(tmp_path / "tiny.json")
    yield


CLASSES_OF = ("--hypernyms", "wordnet", "--hypernym-depth", "2")


@pytest.mark.parametrize(
    "kind", ["tta", "bilm", "unilm", "unilm-bw", "lstm", "permutation"]
)
def test_it_trains_each_kind_that_predicts_tokens(
    rescore: Run, tmp_path: Path, kind: str
) -> None:
    frequency = ("--hypernym-frequency", "100000", "--hypernym-share", "1")
    train = ("train", "--lm", kind, *TRAIN, *CPU, *CLASSES_OF, *frequency)
    done = rescore(*train, "--steps", "6", "--out", "lm", "-v")
    assert done.returncode == 0, done.stderr
    assert "4 tokens in 2 hypernyms, 1 of them of several tokens" in done.stderr
    with safe_open(tmp_path / "lm.state" / "training.safetensors", "pt") as file:
        before = file.get_tensor(f"head.{kind}.weight")
    model = load_file(tmp_path / "lm" / "model.safetensors")
    vocabulary = Tokenizer.load(tmp_path / "tokenizer.json").vocab_size
    assert len(model["token_embedding.weight"]) == vocabulary  # no classes in it
    again = rescore(*train, "--steps", "12", "--out", "lm", "--resume")
    assert again.returncode == 0, again.stderr
    with safe_open(tmp_path / "lm.state" / "training.safetensors", "pt") as file:
        assert not torch.equal(file.get_tensor(f"head.{kind}.weight"), before)
    scored = rescore("score", "--text", "text", "--lm", f"{kind}:lm")
    assert scored.returncode == 0 and f"{kind} " in scored.stdout
    other = rescore(
        *train, "--hypernym-rate", "0.5", "--steps", "13", "--out", "lm", "--resume"
    )
    assert other.returncode == 2 and "made with hypernym-rate none" in other.stderr


def test_without_steps_of_classes_a_training_is_as_without_the_lesson(
    rescore: Run, tmp_path: Path
) -> None:
    train = ("train", "--lm", "unilm", *TRAIN, *CPU, "--steps", "6")
    assert rescore(*train, "--out", "without").returncode == 0
    lesson = (*CLASSES_OF, "--hypernym-frequency", "9999")
    never = rescore(*train, "--out", "never", *lesson, "--hypernym-rate", "0")
    always = rescore(*train, "--out", "always", *lesson, "--hypernym-share", "0.5")
    assert never.returncode == always.returncode == 0, always.stderr
    weights = {}
    for name in ("without", "never", "always"):
        model = load_file(tmp_path / name / "model.safetensors")
        weights[name] = model["token_embedding.weight"]
    assert torch.equal(weights["without"], weights["never"])
    assert not torch.equal(weights["without"], weights["always"])


def test_words_are_learned_in_the_end(rescore: Run) -> None:
    """After steps of both forms of class prediction the loss of tokens is low."""
    long = ("--steps", "100", "--learning-rate", "1e-2", "--dropout", "0")
    train = ("train", "--lm", "unilm", *TRAIN, *CPU, *CLASSES_OF, *long)
    losses = []
    for classes in ("embedded", "summed"):
        paced = ("--hypernym-frequency", "9999", "--hypernym-pacing", "linear")
        done = rescore(*train, *paced, "--hypernym-classes", classes, "--out", classes)
        assert done.returncode == 0, done.stderr
        losses.append(float(done.stderr.split("validation loss ")[-1].split()[0]))
    assert max(losses) < 6.5  # the logarithm of the vocabulary's size is 7.3
    assert losses[0] != losses[1]


class TwoLossesKind(UnilmKind):
    """A kind whose loss is no plain softmax."""

    def objective(self, tokenizer: Tokenizer, options: object) -> Objective:
        return TwoLosses()


def test_errors(rescore: Run, tmp_path: Path) -> None:
    train: Sequence[str] = ("train", "--lm", "unilm", *TRAIN, "--steps", "1")
    done = rescore(*train, "--out", "x", "--hypernyms", "absent")
    assert_one_line_error(done, "absent/index.noun: cannot be read", "wordnet-base")
    done = rescore(*train, "--out", "x", "--hypernym-depth", "4")
    assert_one_line_error(done, "--hypernym-depth needs --hypernyms")
    labels = ("--lm", "electra", "--generator", "lm", *CLASSES_OF)
    tta = rescore("train", "--lm", "tta", *TRAIN, "--steps", "0", "--out", "lm")
    assert tta.returncode == 0, tta.stderr
    done = rescore("train", *TRAIN, "--out", "x", *labels)
    assert_one_line_error(done, "--hypernyms is not for --lm electra")
    data = tmp_path / "wordnet" / "data.noun"
    lines = data.read_text(encoding="utf-8")
    circle = lines.replace("@ 00000000 n 0000", "@ 00000001 n 0000", 1)
    data.write_text(circle, encoding="utf-8")
    done = rescore(*train, "--out", "x", *CLASSES_OF, "--hypernym-frequency", "99")
    assert_one_line_error(done, "a synset is its own hypernym")
    data.write_text(lines, encoding="utf-8")
    done = rescore(*train, "--out", "y", *CLASSES_OF)
    assert done.returncode == 0 and "changes little: no two rare tokens" in done.stderr
    KINDS.register("two-losses", TwoLossesKind, "with another loss")
    try:
        done = rescore("train", "--lm", "two-losses", *TRAIN, "--out", "z", *CLASSES_OF)
    finally:
        KINDS.remove("two-losses")
    assert_one_line_error(done, "--hypernyms is not for --lm two-losses")
