"""A3T's training: masks, the loss, and what tones teach."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rescore.errors import UserError
from rescore.lms import load as load_lm
from rescore.research.a3t.alignment import Ctm
from rescore.research.a3t.fitting import shuffled_batches
from rescore.research.a3t.network import A3tNetwork, Batch
from rescore.research.a3t.scoring import reconstructed
from rescore.research.a3t.training import (
    Reader,
    load,
    masked_frames,
    masked_loss,
    middle_third,
)
from rescore.research.a3t.utterances import read_utterances
from tests.conftest import Run, assert_one_line_error
from tests.research.a3t.conftest import SIZES
from tests.research.a3t.test_network import CONFIG, example

BATCH = ("--steps", "2", "--batch-frames", "400", "--d-model", "16")


def test_masks_are_whole_units() -> None:
    """At least the share that is asked for, in spans of at most a third."""
    one = example([1, 2, 3, 1, 2, 3], 60)
    shares = []
    for seed in range(20):
        hidden = masked_frames(one, 0.5, random.Random(seed))
        own = [float(hidden[one.owners == unit].float().mean()) for unit in range(1, 7)]
        assert set(own) <= {0.0, 1.0} and 3 <= sum(own) <= 4
        shares.append(own)
    assert len({tuple(own) for own in shares}) > 5
    assert middle_third(one).nonzero()[:, 0].tolist() == list(range(20, 40))
    assert middle_third(example([1], 10)).all()


@pytest.mark.parametrize(
    ("loss", "error"), [("l1", torch.Tensor.abs), ("l2", torch.Tensor.square)]
)
def test_the_loss_is_of_masked_frames_before_and_behind_the_post_net(
    loss: str, error: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Equation 4.1, frame by frame."""
    torch.manual_seed(1)
    network = A3tNetwork(CONFIG).eval()
    one = example([1, 2, 3], 40)
    hidden = torch.arange(40) % 7 < 3
    with torch.inference_mode():
        first, refined = network(Batch.of([one]), hidden[None])
        total = 0.0
        for place in hidden.nonzero()[:, 0].tolist():
            for made in (first, refined):
                total += float(error(made[0, place] - one.frames[place]).mean())
        expected = total / int(hidden.sum())
        value = masked_loss(network, Batch.of([one]), hidden[None], loss)
    assert float(value) == pytest.approx(expected)


def test_batches_have_each_utterance_once() -> None:
    lengths = [30, 10, 20, 10, 40, 100]
    batches = shuffled_batches(lengths, 60, random.Random(0))
    assert sorted(place for batch in batches for place in batch) == list(range(6))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or longest * len(batch) <= 60
    assert batches != shuffled_batches(lengths, 60, random.Random(1))


@pytest.mark.long
def test_it_learns_to_say_what_is_masked(a3t: Path, tones: Path) -> None:
    """It beats the mean of the other frames, and the reversed text is worse."""
    network = load(a3t)
    reader = Reader(network.config, Ctm(tones / "letters.ctm"))
    utterances = read_utterances([str(tones / "wav")], [tones / "text"])[:20]
    errors = {"own": 0.0, "mean": 0.0, "wrong": 0.0}
    for one in reader.examples(utterances):
        hidden = middle_third(one)
        truth = one.frames[hidden]
        (own,) = reconstructed(network, [one], [hidden])
        errors["own"] += float((own[hidden] - truth).abs().mean())
        mean = one.frames[~hidden].mean(0)
        errors["mean"] += float((mean - truth).abs().mean())
        shifted = one.units % 3 + 1
        other = type(one)(one.frames, shifted, one.owners)
        (wrong,) = reconstructed(network, [other], [hidden])
        errors["wrong"] += float((wrong[hidden] - truth).abs().mean())
    assert errors["own"] < 0.7 * errors["mean"]
    assert errors["own"] < 0.7 * errors["wrong"]


def test_variants_of_the_thesis(rescore: Run, tones: Path, ctc: Path) -> None:
    """Each leaves out a part; with a lexicon the network reads phones."""
    Path("lexicon").write_text("a AH\nb B IY\nc S IY\n")
    lines = (tones / "text").read_text().splitlines()
    spelled = [
        " ".join([line.split()[0], *"".join(line.split()[1:])]) for line in lines
    ]
    Path("text").write_text("\n".join(spelled) + "\n")
    done = rescore(
        *("train", "--lm", "a3t", "--audio", tones / "wav", "--text", "text", *SIZES),
        *("--align", f"ctc:{ctc}", *BATCH, "--lexicon", "lexicon", "--loss", "l2"),
        *("--no-alignment", "--no-conformer", "--no-post-net", "--out", "o"),
    )
    assert done.returncode == 0, done.stderr
    config = load(Path("o")).config
    assert config.units == ("AH", "B", "IY", "S")
    assert not (config.alignment or config.conformer or config.post_net)
    assert load_lm("a3t:o").name == "a3t"  # the CTC model is there, too


def test_what_cannot_be_trained(rescore: Run, tones: Path, ctc: Path) -> None:
    Path("words.ctm").write_text("u0 1 0.0 0.5 x\n")
    Path("lexicon").write_text("a AH\n")
    wav = ("--audio", tones / "wav", "--text", tones / "text")
    times = ("--align", tones / "letters.ctm")
    common = ("train", "--lm", "a3t", *wav, *SIZES, *BATCH, "--out", "o")
    for arguments, message in (
        (("--align", "words.ctm"), "words.ctm: utterance u0 is 'x' there, but"),
        (("--align", "none"), "none: no such file"),
        (("--align", "ctc:none"), "none/config.json: cannot be read"),
        ((*times, "--lexicon", "lexicon"), "words not in it, such as"),
        ((*times, "--aligner", tones / "letters.ctm"), "letters.ctm: expected ctc:DIR"),
        ((*times, "--heads", "3"), "--d-model 16: is odd, or cannot be divided among"),
    ):
        assert_one_line_error(rescore(*common, *arguments), message)
    assert not Path("o").exists()
    done = rescore(*common, *times)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UserError, match="no CTC model that aligns hypotheses; train"):
        load_lm("a3t:o")
    with pytest.raises(UserError, match="describes no model of kind a3t"):
        load_lm(f"a3t:{ctc}")
