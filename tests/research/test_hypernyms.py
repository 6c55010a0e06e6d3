"""Hypernym classes are those of the thesis' Code 1, and their probability is that of their words together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import CausalLanguageModelling
from rescore.lms.training.vocabulary import train_words
from rescore.research.targets import HypernymClasses, WordNet, class_cross_entropy, classes
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.lms.training.test_loop import FRAMED, LENGTHS, trainer

CHAIN = ["entity", "object", "artifact", "thing", "device", "tool"]
"""A path from the root; under the tool are a hammer and a saw, under the device a clock, under the root a ghost."""


def wordnet(folder: Path) -> Path:
    """WordNet's files: a licence, and lines as wndb(5WN) describes them. `saw` has a shallow sense first."""
    places = {word: f"{number:08}" for number, word in enumerate([*CHAIN, "hammer", "saw", "clock", "ghost"], 1)}
    above = {word: CHAIN[number - 1] for number, word in enumerate(CHAIN) if number}
    above |= {"hammer": "tool", "saw": "tool", "clock": "device", "ghost": "entity"}
    data, index = ["  1 This software and database is being provided"], ["  1 licence"]
    for word, place in places.items():
        pointers = f"001 @ {places[above[word]]} n 0000" if word in above else "000"
        if word == "saw":
            pointers = f"003 ~ 00000001 n 0000 @i {places['tool']} n 0000 #p 00000001 n 0000"
        data.append(f"{place} 06 n 02 {word} 0 the_{word} 0 {pointers} | a gloss @ with signs")
        senses = [places["ghost"], place] if word == "saw" else [place]
        index.append(f"{word} n {len(senses)} 2 @ ~ {len(senses)} 1 {' '.join(senses)}  ")
    for name, lines in (("data", data), ("index", index)):
        (folder / f"{name}.noun").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "noun.exc").write_text("saws_of_old saw\n", encoding="utf-8")
    return folder


def test_what_stands_at_a_depth(tmp_path: Path) -> None:
    found = WordNet(wordnet(tmp_path))
    assert [found.hypernym("hammer", depth) for depth in (1, 2, 6, 7, 8)] == [
        *("00000001", "00000002", "00000006", "00000007"),
        None,
    ]
    assert found.hypernym("saw", 2) == "00000010"  # of the first sense, which is as deep
    assert found.hypernym("saw", 6) == "00000006"  # of the second
    assert found.hypernym("hammers", 6) == found.hypernym("saws_of_old", 6) == "00000006"
    assert found.hypernym("clock", 6) == "00000009" and found.hypernym("verb", 1) is None


def test_rare_nouns_of_one_hypernym_are_a_class(tmp_path: Path) -> None:
    words = ["hammer", "saw", "clock", "ghost", "run"]
    made = train_words([" ".join(words)], 20, "text")
    counts = np.full(made.vocab_size, 1)
    counts[made.encode(["run"])[0]] = 1_000_000
    found = classes(wordnet(tmp_path), made, counts)
    ids = {word: made.encode([word])[0][0] for word in words}
    assert found[ids["hammer"]] == found[ids["saw"]] == min(ids["hammer"], ids["saw"])
    alone = [token for token in range(made.vocab_size) if token not in (ids["hammer"], ids["saw"])]
    assert (found[alone] == alone).all()
    counts[ids["saw"]] = 1000  # now too frequent
    assert classes(tmp_path, made, counts)[ids["saw"]] == ids["saw"]


def test_the_probability_of_a_class_is_that_of_its_words() -> None:
    torch.manual_seed(0)
    hidden, embeddings = torch.randn(37, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    bias = torch.randn(11, requires_grad=True)
    of = torch.tensor([0, 1, 2, 1, 4, 2, 1, 7, 8, 9, 10])
    targets = of[torch.randint(0, 11, (37,))]
    probabilities = (hidden @ embeddings.T + bias).softmax(-1)
    slow = -sum(probabilities[row, of == target].sum().log() for row, target in enumerate(targets))
    fast = class_cross_entropy(of, hidden, embeddings, targets, rows=5, bias=bias)
    torch.testing.assert_close(fast, slow)
    for one, other in zip(
        torch.autograd.grad(fast, (hidden, embeddings, bias)),
        torch.autograd.grad(slow, (hidden, embeddings, bias)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_classes_come_before_words(tokenizer: Tokenizer) -> None:
    """Constant pacing: in 80 % of the steps of the first 12 %, and in none behind."""
    of = np.arange(tokenizer.vocab_size)
    of[8] = 7
    curriculum, example = HypernymClasses(of), CausalLanguageModelling()(FRAMED, LENGTHS, [0])
    changed = [curriculum(example, done, [0, step]) for done in (0.0, 0.119) for step in range(300)]
    assert 0.75 < np.mean([example.loss is not None for example in changed]) < 0.85
    assert {tuple(one.targets.tolist()) for one in changed} == {(7, 7, 9, 3, 5, 3), (7, 8, 9, 3, 5, 3)}
    assert all((one.targets[1] == 7) == (one.loss is not None) for one in changed)
    assert all(curriculum(example, 0.12, [0, step]) is example for step in range(50))


def test_command(rescore: Run, tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    replace(config).save(tmp_path / "tiny.json")
    train = ["train", "--lm", "unilm", "--config", "tiny.json", "--text", "text", "--tokenizer", "tokenizer.json"]
    train += ["--out", "lm", "--hypernyms"]
    assert_one_line_error(rescore(*train, "absent", "--steps", "2"), "absent/data.noun: cannot be read", "wordnet-base")
    (tmp_path / "broken").mkdir()
    for name in ("data.noun", "index.noun", "noun.exc"):
        (tmp_path / "broken" / name).write_text("what is this\n", encoding="utf-8")
    assert_one_line_error(rescore(*train, "broken", "--steps", "2"), "not WordNet's files")
    wordnet(tmp_path)
    done = rescore(*train, ".", "--steps", "2")
    assert done.returncode == 0 and "--hypernyms . changes nothing" in done.stderr
    (tmp_path / "text").write_text("\n".join(["run run run run run run"] * 4_000 + ["hammer", "saw"]), encoding="utf-8")
    train_words(["run hammer saw"], 20, "text").save(tmp_path / "tokenizer.json")  # of 24,002 tokens two are rare
    train[train.index("lm")] = "lm2"
    done = rescore(*train, ".", "--steps", "5", "--held-out", "5")
    assert "changes nothing" not in done.stderr
    assert done.returncode == 0 and "2 tokens in the classes of 1 hypernym" in done.stderr, done.stderr
    judge = ["train", "--lm", "electra", "--generator", "tta", "--hypernyms", ".", "--out", "x"]
    assert_one_line_error(
        rescore(*judge), "--hypernyms is for tta, bilm, unilm, unilm-bw, lstm, lstm-bw, permutation, unified; it does"
    )


def test_words_are_learned_in_the_end(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig) -> None:
    settings = {"steps": 150, "batch_tokens": 500, "learning_rate": 1e-2, "dropout": 0.0}
    made = trainer(tmp_path, tokenizer, replace(config, kind="unilm"), settings, repeats=5)
    of = np.arange(tokenizer.vocab_size)
    of[100:200] = 100
    made._curriculum = HypernymClasses(of)
    made.validate(lambda line: None)
    before = made.progress.validation_loss
    after = made.run(lambda line: None).validation_loss
    assert before is not None and after is not None and after < before - 0.5


def test_the_paths_of_the_thesis() -> None:
    """Figure 3.2: iron and magnesium are metallic elements at depth 6, a desk is an instrumentality."""
    folder = Path("/usr/share/wordnet")
    if not (folder / "data.noun").exists():
        pytest.skip("needs WordNet: apt-get install wordnet-base")
    found = WordNet(folder)
    metal, instrumentality = "14625458", "03575240"
    assert [found.hypernym(word, 6) for word in ("iron", "magnesium", "desk")] == [metal, metal, instrumentality]
    with pytest.raises(UserError, match="cannot be read"):
        WordNet(folder / "absent")
