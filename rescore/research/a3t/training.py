"""A3T: training (spans of letters are masked, and their frames reconstructed: thesis, equation 4.1), and scoring."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.files import parsed, read_json
from rescore.formats.audio import recordings, samples
from rescore.formats.text import table
from rescore.lms import base
from rescore.lms.base import Capabilities, ComputeOptions, Question, Report, TokenScores
from rescore.lms.folders import card_head, claimed, content_digest
from rescore.lms.scorers import batches as by_budget
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t import A3tOptions
from rescore.research.a3t.alignment import (
    CtcAligner,
    Ctm,
    Lexicon,
    TooShortError,
    aligner,
    owners,
    read_lexicon,
    unit_spans,
    units_of,
)
from rescore.research.a3t.network import MOST_TOKENS, A3tConfig, A3tNetwork, Batch, Example, Mel

ALIGNER = "aligner"
"""The folder of the CTC model within a model's folder."""
LONGEST_SPAN = 12
"""Letters that are masked together, at most."""


def read_examples(
    audio: Sequence[str], texts: Sequence[Path], places: Ctm | CtcAligner, mel: Mel, lexicon: Lexicon,
    units: Sequence[str] = (),
) -> tuple[list[Example], Sequence[str]]:  # fmt: skip
    """The utterances of a text with their spectrograms, not normalised, and the letters or phones.

    Args:
        units: in the order of their numbers; empty for the units of the text.

    Raises:
        UserError: an utterance has no usable recording, or no letters, or a word is not in the lexicon.
    """
    words_of = {name: words for path in texts for name, words in table(path).items()}
    heard = recordings(audio)
    if lexicon and (strange := {word for text in words_of.values() for word in text.lower().split()} - lexicon.keys()):
        raise UserError(f"--lexicon: {counted(len(strange), 'word')} not in it, such as {min(strange)!r}; add them")
    units = units or tuple(sorted({unit for text in words_of.values() for unit in units_of(text, lexicon)}))
    examples = []
    for name, words in words_of.items():
        if name not in heard:
            raise UserError(f"utterance {name} has no recording in {', '.join(audio) or '--audio'}")
        examples.append(example(replace(heard[name], name=name), words, places, mel, units, lexicon))
    return examples, units


def example(
    audio: Audio, text: str, places: Ctm | CtcAligner, mel: Mel, units: Sequence[str], lexicon: Lexicon
) -> Example:
    """An utterance under a text, its spectrogram not normalised. Units that are not known count as the first.

    Raises:
        UserError: the recording cannot be used, or the text has too many letters or cannot be aligned.
    """
    own, number_of = units_of(text, lexicon), {unit: number for number, unit in enumerate(units, 1)}
    if len(own) >= MOST_TOKENS:
        raise UserError(f"utterance {audio.name}: {counted(len(own), 'letter')}; at most {MOST_TOKENS - 1} are read")
    frames = mel.spectrogram(samples(audio, mel.rate))
    numbers = torch.tensor([number_of.get(unit, 1) for unit in own], dtype=torch.long)
    spans = unit_spans(places.spans(audio, text), text, lexicon)
    return Example(frames, numbers, owners(spans, len(frames), mel.hop / mel.rate))


def normalised(examples: Sequence[Example], mean: float, deviation: float) -> list[Example]:
    """The examples as the network reads them."""
    return [replace(utterance, frames=(utterance.frames - mean) / deviation) for utterance in examples]


def masked_frames(example: Example, share: float, randomness: random.Random) -> Tensor:
    """Frames of random spans of letters, about `share` of all letters: (frames,)."""
    number = len(example.letters)
    hidden = torch.zeros(number + 1, dtype=torch.bool)
    longest = max(1, min(LONGEST_SPAN, number // 3))  # a span that is the whole text leaves no sound to go by
    while number and int(hidden.sum()) < max(1, round(share * number)):
        start = randomness.randint(1, number)
        hidden[start : start + randomness.randint(1, longest)] = True
    return hidden[example.owners]


def middle_third(example: Example) -> Tensor:
    """Frames of the middle third of the letters, with silence between them: (frames,). The thesis measures these."""
    number = len(example.letters)
    first, last = number // 3 + 1, max(number // 3 + 1, 2 * number // 3)
    places = ((example.owners >= first) & (example.owners <= last)).nonzero()[:, 0]
    hidden = torch.zeros(len(example.owners), dtype=torch.bool)
    if len(places):
        hidden[int(places[0]) : int(places[-1]) + 1] = True
    return hidden


def loss_of(network: A3tNetwork, batch: Batch, hidden: Tensor, squared: bool) -> Tensor:
    """The mean error of masked frames before the Post-Net, and of those behind it (equation 4.1)."""
    first, refined = network(batch, hidden)
    errors = [(result - batch.frames)[hidden] for result in (first, refined)]
    if network.post_net is None:
        errors = errors[:1]
    return torch.stack([error.square().mean() if squared else error.abs().mean() for error in errors]).sum()


def batches(examples: Sequence[Example], frames: int, randomness: random.Random) -> list[list[Example]]:
    """Examples of about one length, padded to at most `frames`, in random order."""
    ordered = sorted(examples, key=lambda example: (len(example.frames), randomness.random()))
    result = list(by_budget(ordered, lambda example: len(example.frames), frames))
    randomness.shuffle(result)
    return result


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
        lexicon = dict(read_lexicon(options.lexicon)) if options.lexicon else {}
        examples, units = read_examples(options.audio, options.text, places, mel, lexicon)
        if not examples:
            raise UserError("no utterances to train on; give --audio PATH and --text FILE")
        every = torch.cat([utterance.frames for utterance in examples])
        names = ("rate", "mels", "d_model", "layers", "heads", "alignment", "conformer", "post_net")
        sizes = {name: getattr(options, name) for name in names}
        mean, deviation = float(every.mean()), float(every.std())
        config = A3tConfig(units=tuple(units), lexicon=lexicon, mean=mean, deviation=deviation, **sizes)
        report(f"{counted(len(examples), 'utterance')}, {len(every) * mel.hop / mel.rate / 60:.1f} minutes of speech")
        network, last = _fitted(config, normalised(examples, mean, deviation), options, report)
        save(options.out, network, own.folder if isinstance(own, CtcAligner) else None, last, len(examples))


def _fitted(
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
        loss = loss_of(network, Batch.of(chosen), torch.nn.utils.rnn.pad_sequence(hidden, True), options.loss == "l2")
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


def load(folder: Path) -> A3tNetwork:
    """The network in a folder.

    Raises:
        UserError: files are missing or damaged.
    """
    path = folder / "config.json"
    values = read_json(path)
    if not isinstance(values, dict) or values.pop("kind", None) != "a3t":
        raise UserError(f"{path}: describes no A3T; train one with `rescore train --lm a3t`")
    config = parsed(values, A3tConfig, str(path))
    if not (0 < config.d_model <= 4_096 and 0 < config.layers <= 64 and config.heads > 0 and 0 < config.mels <= 512):
        raise UserError(f"{path}: sizes of no real network")
    network = A3tNetwork(config)
    try:
        network.load_state_dict(load_file(folder / "model.safetensors"))
    except Exception as error:  # safetensors and PyTorch raise several kinds of errors
        raise UserError(f"{folder}: no weights of this network ({' '.join(str(error).split())[:120]})") from None
    return network.eval()


SPAN = 0.4
"""Seconds of a masked span: about a word, so that the text has to say what is in it."""
BATCH = 16
"""Hypotheses that are reconstructed together."""


class A3tModel:
    """Minus the mean L1 error of masked spans, reconstructed under each hypothesis, in units of the training set's
    deviation."""

    capabilities = Capabilities(audio=True)
    precision = "float32"

    def __init__(self, name: str, folder: Path, computing: ComputeOptions) -> None:
        """
        Raises:
            UserError: the folder holds no A3T, or no CTC model that aligns hypotheses.
        """
        self.name = self.model = name
        self._folder, self.network = folder, load(folder)
        self.mel = Mel(self.network.config.rate, self.network.config.mels)
        if not (folder / ALIGNER).is_dir():
            raise UserError(f"{folder}: no CTC model that aligns hypotheses; train with --aligner hf-ctc:DIR")
        self.aligner = CtcAligner(folder / ALIGNER)

    @cached_property
    def fingerprint(self) -> str:
        digest = content_digest(self._folder) + content_digest(self._folder / ALIGNER)
        return hashlib.sha256(f"a3t {SPAN}".encode() + digest).hexdigest()

    def example(self, audio: Audio, text: str) -> Example:
        """An utterance under a text, as the network reads it.

        Raises:
            UserError: the recording cannot be used, or is too short for the text.
        """
        config = self.network.config
        raw = example(audio, text, self.aligner, self.mel, config.units, config.lexicon)
        return normalised([raw], config.mean, config.deviation)[0]

    def reconstructed(self, examples: Sequence[Example], hidden: Sequence[Tensor]) -> list[Tensor]:
        """The normalised spectrograms with their masked frames reconstructed: (frames, mels) each.

        Args:
            hidden: which frames of each are masked.
        """
        with torch.inference_mode():
            masks = torch.nn.utils.rnn.pad_sequence(list(hidden), batch_first=True)
            refined = self.network(Batch.of(list(examples)), masks)[1]
        return [
            torch.where(mask[:, None], made[: len(mask)], utterance.frames)
            for utterance, mask, made in zip(examples, hidden, refined, strict=True)
        ]

    def sound(self, normalised_frames: Tensor) -> np.ndarray:
        """The samples of a spectrogram, by Griffin and Lim."""
        return self.mel.griffin_lim(normalised_frames * self.network.config.deviation + self.network.config.mean)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question with a recording, in their order; 0 where the recording is `NO_AUDIO`.

        Each frame is masked once, in one of two passes over spans that do not depend on the hypothesis.
        """
        results: dict[int, TokenScores] = {}
        for start in range(0, len(questions), BATCH):
            examples: dict[int, Example] = {}
            for place, question in enumerate(questions[start : start + BATCH], start):
                if question.audio is None:
                    raise UserError("this model listens to the recording of an utterance; give --audio")
                results[place] = TokenScores([], np.zeros(0))
                if question.audio != NO_AUDIO:
                    try:
                        examples[place] = self.example(question.audio, question.text)
                    except TooShortError:
                        results[place] = TokenScores([], np.zeros(0), total=-np.inf)
            for place, errors in zip(examples, self._errors(list(examples.values())), strict=True):
                units = units_of(questions[place].text, self.network.config.lexicon)
                results[place] = _by_unit(units, examples[place].owners, errors)
            base.report(min(start + BATCH, len(questions)), len(questions))
        return [results[place] for place in range(len(questions))]

    def _errors(self, examples: Sequence[Example]) -> list[Tensor]:
        """The mean absolute error of each frame while it is masked: (frames,) each."""
        size = round(SPAN * self.mel.rate / self.mel.hop)
        spans = [torch.arange(len(utterance.frames)) // size % 2 for utterance in examples]
        errors = [torch.zeros(len(utterance.frames)) for utterance in examples]
        for turn in (0, 1) if examples else ():
            hidden = [span == turn for span in spans]
            for utterance, mask, own, made in zip(
                examples, hidden, errors, self.reconstructed(examples, hidden), strict=True
            ):
                own[mask] = (made - utterance.frames).abs().mean(1)[mask]
        return errors


def _by_unit(units: Sequence[str], owners: Tensor, errors: Tensor) -> TokenScores:
    """Minus the errors of each letter's or phone's frames, and of silence, as shares of the mean over all frames."""
    sums = torch.zeros(len(units) + 1, dtype=torch.float64).index_add(0, owners, errors.double()) / len(errors)
    return TokenScores([*units, "<silence>"], -torch.roll(sums, -1).numpy())
