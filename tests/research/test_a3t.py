"""A3T: the network of the thesis, its sounds, alignments, training and scores; on sounds that the tests make."""

from __future__ import annotations

import math
import random
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from rescore.errors import UserError
from rescore.lms import Question, load
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t.alignment import Ctm, divided, owners, widened
from rescore.research.a3t.network import A3tConfig, A3tNetwork, Batch, Example
from rescore.research.a3t.training import loss_of, masked_frames
from tests.conftest import ROOT, Run, assert_one_line_error
from tests.large.speech_models import build_ctc

RATE = 8_000
DIGITS = runpy.run_path(str(ROOT / "examples" / "digits" / "distortion.py"))
middle_third, mel_cepstral_distortion = DIGITS["middle_third"], DIGITS["mel_cepstral_distortion"]
PITCH = {"a": 300, "b": 700, "c": 1_500}
"""The tone of each letter."""
CONFIG = A3tConfig(
    units=("a", "b", "c"), rate=RATE, mels=20, d_model=16, layers=1, heads=2, alignment=True, post_net=True,
    mean=0.0, deviation=1.0,
)  # fmt: skip


def spoken(text: str, path: Path, seed: int = 0) -> list[tuple[float, float]]:
    """A recording with a tone of 150 to 250 ms for each letter, and their spans."""
    chance = random.Random(seed)
    waves, spans, at = [], [], 0.0
    for letter in text:
        size = chance.uniform(0.15, 0.25)
        waves.append(0.3 * np.sin(2 * np.pi * PITCH[letter] * np.arange(int(size * RATE)) / RATE))
        spans.append((at, at + size))
        at += size
    soundfile.write(path, np.concatenate(waves), RATE)
    return spans


def test_mel_cepstral_distortion_is_the_formula() -> None:
    """10 / ln 10 sqrt(2 sum of squared differences of cepstra 1 to 13), as a mean over frames, without loudness."""
    one, other = torch.randn(2, 5, 20, generator=torch.Generator().manual_seed(0)).double()
    expected = []
    for a, b in zip(one.tolist(), other.tolist(), strict=True):
        total = 0.0
        for order in range(1, DIGITS["CEPSTRA"] + 1):
            cosines = [math.cos(math.pi * order * (band + 0.5) / 20) for band in range(20)]
            difference = 2 / 20 * sum(c * (x - y) for c, x, y in zip(cosines, a, b, strict=True))
            total += difference**2
        expected.append(10 / math.log(10) * math.sqrt(2 * total))
    assert mel_cepstral_distortion(one, other) == pytest.approx(sum(expected) / 5)
    assert mel_cepstral_distortion(one, one + 3) == pytest.approx(0, abs=1e-9)
    for bands in 20, 80:  # a ripple of 1 neper in one cepstrum: its root mean square, in decibel
        ripple = torch.cos(3 * math.pi * (torch.arange(bands) + 0.5) / bands)[None]
        decibel = 20 / math.log(10) * ripple.square().mean().sqrt()
        assert mel_cepstral_distortion(ripple, torch.zeros(1, bands)) == pytest.approx(float(decibel), rel=1e-6)


def test_frames_belong_to_the_nearest_letter() -> None:
    found = owners([(0.1, 0.2), (0.4, 0.5)], 60, 0.0125).tolist()
    assert found[0] == 0 and found[8] == 1 and found[16] == 1 and found[19] == 1  # 19: 37.5 ms behind it
    assert found[25] == 0 and found[32] == found[40] == 2 and found[59] == 0
    assert owners([], 3, 0.1).tolist() == [0, 0, 0]
    assert divided([((0.0, 1.0), "ab"), ((1.0, 1.5), "c")]) == [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)]
    found = widened([(1.0, 1.1), (1.3, 1.4), (3.0, 3.1)])
    assert np.array(found) == pytest.approx(np.array([(0.75, 1.2), (1.2, 1.65), (2.75, 3.35)]))


def example(letters: list[int], frames: int, seed: int = 0) -> Example:
    torch.manual_seed(seed)
    places = torch.arange(frames) * len(letters) // frames + 1
    return Example(torch.randn(frames, CONFIG.mels), torch.tensor(letters), places)


def test_batches_and_hidden_frames() -> None:
    """An utterance is reconstructed alike alone and in a batch, and what is masked is not seen."""
    torch.manual_seed(1)
    network = A3tNetwork(CONFIG).eval()
    short, long = example([1, 2], 30), example([3, 1, 2, 2, 3], 70, 2)
    masks = [torch.arange(len(one.frames)) % 20 < 10 for one in (short, long)]
    with torch.inference_mode():
        together = network(Batch.of([short, long]), torch.nn.utils.rnn.pad_sequence(masks, batch_first=True))[1]
        alone = network(Batch.of([short]), masks[0][None])[1]
        assert torch.allclose(together[0, :30], alone[0], atol=1e-5)
        changed = replace(short, frames=torch.where(masks[0][:, None], short.frames + 5, short.frames))
        assert torch.allclose(network(Batch.of([changed]), masks[0][None])[1], alone, atol=1e-6)
        other = replace(short, letters=torch.tensor([1, 3]))
        assert not torch.allclose(network(Batch.of([other]), masks[0][None])[1], alone, atol=1e-4)


def test_alignment_embeddings_are_all_that_alignments_change() -> None:
    torch.manual_seed(1)
    one = example([1, 2, 3], 40)
    moved = replace(one, owners=one.owners.roll(5))
    hidden = torch.arange(40)[None] < 20
    for alignment in True, False:
        network = A3tNetwork(replace(CONFIG, alignment=alignment)).eval()
        with torch.inference_mode():
            same = torch.allclose(network(Batch.of([one]), hidden)[1], network(Batch.of([moved]), hidden)[1])
        assert same != alignment


def test_the_loss_is_of_masked_frames_before_and_after_the_post_net() -> None:
    torch.manual_seed(1)
    network, one = A3tNetwork(CONFIG).eval(), example([1, 2, 3], 40)
    hidden = torch.arange(40)[None] % 7 < 3
    with torch.inference_mode():
        first, refined = network(Batch.of([one]), hidden)
        places = hidden[0].nonzero()[:, 0].tolist()
        errors = [
            float((result[0, place] - one.frames[place]).abs().mean())
            for result in (first, refined)
            for place in places
        ]
        assert float(loss_of(network, Batch.of([one]), hidden)) == pytest.approx(2 * sum(errors) / len(errors))


def test_masks_are_spans_of_letters() -> None:
    one = example([1, 2, 3, 1, 2, 3], 60)
    for seed in range(20):
        hidden = masked_frames(one, 0.5, random.Random(seed))
        shares = [float(hidden[one.owners == letter].float().mean()) for letter in range(1, 7)]
        assert set(shares) <= {0.0, 1.0} and sum(shares) >= 3
    assert middle_third(one).nonzero()[:, 0].tolist() == list(range(20, 40))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty strings of tones, with text and times."""
    folder = tmp_path_factory.mktemp("tones")
    chance, lines, scp, ctm = random.Random(3), [], [], []
    for number in range(40):
        text = "".join(chance.choices("abc", k=chance.randint(3, 6)))
        spans = spoken(text, folder / f"u{number}.wav", number)
        lines.append(f"u{number} {' '.join(text)}\n")
        scp.append(f"u{number} {folder}/u{number}.wav\n")
        ctm += [
            f"u{number} 1 {start:.3f} {end - start:.3f} {letter}\n"
            for letter, (start, end) in zip(text, spans, strict=True)
        ]
    for name, content in ("text", lines), ("wav.scp", scp), ("ctm", ctm):
        (folder / name).write_text("".join(content))
    return folder


SIZES = ("--d-model", "24", "--layers", "1", "--mels", "20", "--batch-frames", "400", "--learning-rate", "1e-2")


def test_it_learns_to_say_what_is_masked(rescore: Run, data: Path, tmp_path: Path) -> None:
    """Trained on tones, it beats the mean of other frames, and its score equals the slow definition for each frame."""
    (tmp_path / "ctc").mkdir()
    build_ctc("hubert", tmp_path / "ctc")
    given = ("--audio", data, "--text", data / "text", "--align", data / "ctm", "--aligner", "hf-ctc:ctc")
    done = rescore("train", "--lm", "a3t", *given, *SIZES, "--steps", "120", "--out", "a3t")
    assert done.returncode == 0, done.stderr
    assert "40 utterances" in done.stderr and "step 120 of 120" in done.stderr
    lm = load(f"a3t:{tmp_path / 'a3t'}")
    lm.aligner = Ctm.read(data / "ctm")  # type: ignore[attr-defined]  # a random CTC model aligns nothing
    text = "".join((data / "text").read_text().splitlines()[0].split()[1:])
    spans = Ctm.read(data / "ctm").spans(Audio("", name="u0"), text)
    lm.aligner = type("Known", (), {"spans": lambda self, audio, said: spans})()  # type: ignore[attr-defined]
    audio = Audio(str(data / "u0.wav"), name="u0")
    right, nothing = lm.score([Question(text, audio=audio), Question(text, audio=NO_AUDIO)])
    assert right.tokens == [*text, "<silence>"] and nothing.sum == 0
    assert lm.score([Question(text, audio=audio)])[0].sum == pytest.approx(right.sum, abs=1e-4)
    network, one = lm.network, lm.example(audio, text)  # type: ignore[attr-defined]
    turns = [(frame // 32) % 2 for frame in range(len(one.frames))]  # 0.4 s are 32 frames
    errors = []
    for place, turn in enumerate(turns):
        hidden = torch.tensor([other == turn for other in turns])
        with torch.inference_mode():
            made = network(Batch.of([one]), hidden[None])[1][0, place]
        errors.append(float((made - one.frames[place]).abs().mean()))
    assert right.sum == pytest.approx(-sum(errors) / len(errors), abs=1e-4)
    learned, mean = [], []
    for line in (data / "text").read_text().splitlines()[:10]:
        name, said = line.split(maxsplit=1)
        lm.aligner = Ctm.read(data / "ctm")  # type: ignore[attr-defined]
        one = lm.example(Audio(str(data / f"{name}.wav"), name=name), said)  # type: ignore[attr-defined]
        hidden = middle_third(one)
        made = lm.reconstructed([one], [hidden])[0]  # type: ignore[attr-defined]
        learned.append(float((made - one.frames)[hidden].abs().mean()))
        mean.append(float((one.frames[~hidden].mean(0) - one.frames[hidden]).abs().mean()))
    assert sum(learned) < 0.75 * sum(mean)
    plain = rescore(
        "train", "--lm", "a3t", *given, *SIZES, "--steps", "2", "--no-alignment", "--no-post-net", "--out", "b"
    )
    assert plain.returncode == 0, plain.stderr
    assert len(load(f"a3t:{tmp_path / 'b'}").fingerprint) == 64


def test_what_cannot_be_trained(rescore: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "ctm").write_text("u0 1 0.0 0.5 x\n")
    (tmp_path / "bad").write_text("u0 1 0.0\n")
    (tmp_path / "text").write_text("nobody a b\n")
    common = ("--lm", "a3t", "--audio", data, "--out", "o", "--steps", "1")
    for arguments, message in (
        (("--text", data / "text", "--align", "ctm"), "utterance u0 is 'x' there"),
        (("--text", data / "text", "--align", "bad"), "bad: line 1: expected `utterance channel start duration word`"),
        (("--text", "text", "--align", "ctm"), "utterance nobody has no recording"),
        (("--text", data / "text", "--align", data / "ctm", "--d-model", "15"), "--d-model 15"),
        (("--text", data / "text", "--align", "none"), "none: no such file"),
    ):
        assert_one_line_error(rescore("train", *common, *arguments), message)
    done = rescore("train", *common, *SIZES, "--text", data / "text", "--align", data / "ctm")
    assert done.returncode == 0, done.stderr
    with pytest.raises(UserError, match="no CTC model that aligns hypotheses; train with --aligner"):
        load(f"a3t:{tmp_path / 'o'}")
