"""A3T: training. Spans of letters are masked, and their frames reconstructed (thesis, equation 4.1)."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.formats.audio import recordings, samples
from rescore.formats.text import table
from rescore.lms.base import Report
from rescore.lms.folders import card_head, claimed
from rescore.lms.scorers import batches as by_budget
from rescore.nbest import Audio
from rescore.research.a3t import A3tOptions
from rescore.research.a3t.alignment import CtcAligner, Ctm, aligner, letters_of, owners
from rescore.research.a3t.network import MOST_TOKENS, A3tConfig, A3tNetwork, Batch, Example, Mel

ALIGNER = "aligner"
"""The folder of the CTC model within a model's folder."""
LONGEST_SPAN = 12
"""Letters that are masked together, at most."""


def train(options: A3tOptions, report: Report = lambda line: None) -> None:
    """Train a network and write its folder, with the CTC model that aligns hypotheses, if it is known.

    Raises:
        UserError: files are missing or do not fit together.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    with claimed(options.out):
        places, mel = aligner(options.align), Mel(options.rate, options.mels)
        own = aligner(options.aligner) if options.aligner else places
        if options.d_model % options.heads or options.d_model % 2:
            raise UserError(f"--d-model {options.d_model}: cannot be divided among {options.heads} heads, or is odd")
        examples, units = read_examples(options.audio, options.text, places, mel)
        if not examples:
            raise UserError("no utterances to train on; give --audio PATH and --text FILE")
        every = torch.cat([utterance.frames for utterance in examples])
        names = ("rate", "mels", "d_model", "layers", "heads", "alignment", "post_net")
        sizes = {name: getattr(options, name) for name in names}
        config = A3tConfig(units=tuple(units), mean=float(every.mean()), deviation=float(every.std()), **sizes)
        report(f"{counted(len(examples), 'utterance')}, {len(every) * mel.hop / mel.rate / 60:.1f} minutes of speech")
        network, loss = fitted(config, [normalised(utterance, config) for utterance in examples], options, report)
        save(options.out, network, own.folder if isinstance(own, CtcAligner) else None, loss, len(examples))


def read_examples(
    audio: Sequence[str], texts: Sequence[Path], places: Ctm | CtcAligner, mel: Mel, units: Sequence[str] = ()
) -> tuple[list[Example], Sequence[str]]:
    """The utterances of a text with their spectrograms, not normalised, and the letters.

    Args:
        units: the letters in the order of their numbers; empty for the letters of the text.

    Raises:
        UserError: an utterance has no usable recording, or no letters.
    """
    words_of = {name: words for path in texts for name, words in table(path).items()}
    heard = recordings(audio)
    units = units or tuple(sorted({letter for text in words_of.values() for letter in letters_of(text)}))
    examples = []
    for name, words in words_of.items():
        if name not in heard:
            raise UserError(f"utterance {name} has no recording in {', '.join(audio) or '--audio'}")
        examples.append(example(replace(heard[name], name=name), words, places, mel, units))
    return examples, units


def example(audio: Audio, text: str, places: Ctm | CtcAligner, mel: Mel, units: Sequence[str]) -> Example:
    """An utterance under a text, its spectrogram not normalised. Unknown letters count as the first."""
    letters, number_of = letters_of(text), {unit: number for number, unit in enumerate(units, 1)}
    if len(letters) >= MOST_TOKENS:
        raise UserError(
            f"utterance {audio.name}: {counted(len(letters), 'letter')}; at most {MOST_TOKENS - 1} are read"
        )
    frames = mel.spectrogram(samples(audio, mel.rate))
    numbers = torch.tensor([number_of.get(letter, 1) for letter in letters], dtype=torch.long)
    return Example(frames, numbers, owners(places.spans(audio, text), len(frames), mel.hop / mel.rate))


def normalised(example: Example, config: A3tConfig) -> Example:
    """The example as the network reads it."""
    return replace(example, frames=(example.frames - config.mean) / config.deviation)


def masked_frames(example: Example, share: float, randomness: random.Random) -> Tensor:
    """Frames of random spans of letters, about `share` of all letters: (frames,)."""
    number = len(example.letters)
    hidden = torch.zeros(number + 1, dtype=torch.bool)
    longest = max(1, min(LONGEST_SPAN, number // 3))  # a span that is the whole text leaves no sound to go by
    while number and int(hidden.sum()) < max(1, round(share * number)):
        start = randomness.randint(1, number)
        hidden[start : start + randomness.randint(1, longest)] = True
    return hidden[example.owners]


def loss_of(network: A3tNetwork, batch: Batch, hidden: Tensor) -> Tensor:
    """The mean error of masked frames before the Post-Net, and of those behind it (equation 4.1)."""
    first, refined = network(batch, hidden)
    results = (first,) if network.post_net is None else (first, refined)
    return torch.stack([(result - batch.frames)[hidden].abs().mean() for result in results]).sum()


def batches(examples: Sequence[Example], frames: int, randomness: random.Random) -> list[list[Example]]:
    """Examples of about one length, padded to at most `frames`, in random order."""
    ordered = sorted(examples, key=lambda example: (len(example.frames), randomness.random()))
    result = list(by_budget(ordered, lambda example: len(example.frames), frames))
    randomness.shuffle(result)
    return result


def fitted(
    config: A3tConfig, examples: Sequence[Example], options: A3tOptions, report: Report
) -> tuple[A3tNetwork, float]:
    """The trained network, and its mean loss on the last hundred batches."""
    torch.manual_seed(options.seed)
    randomness = random.Random(options.seed)
    network = A3tNetwork(config)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, betas=(0.9, 0.98))
    waiting: list[list[Example]] = []
    losses: list[float] = []
    for step in range(1, options.steps + 1):
        waiting = waiting or batches(examples, options.batch_frames, randomness)
        chosen = waiting.pop()
        hidden = [masked_frames(utterance, options.mask, randomness) for utterance in chosen]
        loss = loss_of(network, Batch.of(chosen), torch.nn.utils.rnn.pad_sequence(hidden, True))
        if not math.isfinite(loss.item()):
            raise UserError(f"the loss is {loss.item()} at step {step}; give a smaller --learning-rate")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        warm = min(1.0, step / max(1, min(200, options.steps // 10)))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * warm * (1 - (step - 1) / options.steps)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if step % 100 == 0 or step == options.steps:
            report(f"step {step:,} of {options.steps:,}: loss {sum(losses[-100:]) / len(losses[-100:]):.4f}")
    return network.eval(), sum(losses[-100:]) / len(losses[-100:])


def save(out: Path, network: A3tNetwork, aligning: Path | None, loss: float, utterances: int) -> None:
    """Write weights, configuration, card, and a copy of the CTC model."""
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, out / "model.safetensors")
    values = {"kind": "a3t", **asdict(network.config)}
    (out / "config.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if aligning is not None and aligning.resolve() != (out / ALIGNER).resolve():
        shutil.rmtree(out / ALIGNER, ignore_errors=True)
        shutil.copytree(aligning, out / ALIGNER)
    head = card_head("automatic-speech-recognition", {"kind": "a3t", "trained_on": counted(utterances, "utterance")})
    text = f"{head}\n\n# A3T\n\nLoss of masked frames at the end of training: {loss:.4f}.\n"
    (out / "README.md").write_text(text, encoding="utf-8")
