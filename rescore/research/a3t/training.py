"""The training of A3T: spans of letters are masked, and their frames are reconstructed
(thesis, section 4.3.4 and equation 4.1).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.errors import counted
from rescore.formats.audio import samples
from rescore.lms.base import Report
from rescore.nbest import Audio
from rescore.research.a3t import folders
from rescore.research.a3t.alignment import (
    Aligner,
    CtcAligner,
    ImpossibleError,
    Lexicon,
    check_lexicon,
    load_aligner,
    owners,
    read_lexicon,
    unit_spans,
    units_of,
)
from rescore.research.a3t.fitting import fit
from rescore.research.a3t.mel import Mel
from rescore.research.a3t.network import (
    MOST_UNITS,
    A3tConfig,
    A3tNetwork,
    Batch,
    Example,
    padded,
)
from rescore.research.a3t.options import A3tOptions
from rescore.research.a3t.utterances import Utterance, amount, read_utterances

KIND = "a3t"
ALIGNER = "aligner"
"""The folder of the CTC model within a model's folder."""
LONGEST_SPAN = 12
"""Units that are masked together, at most."""


def train(options: A3tOptions, report: Report = lambda line: None) -> None:
    """Train a network, and write its folder with a copy of the CTC model that aligns
    hypotheses.

    Raises:
        UserError: Recordings, texts, times and lexicon are missing or do not fit
            together.
    """
    folders.prepare(options.out)
    aligner = load_aligner(options.align)
    own = load_aligner(options.aligner) if options.aligner else aligner
    utterances = read_utterances(options.audio, options.text)
    lexicon = read_lexicon(options.lexicon) if options.lexicon else {}
    check_lexicon(lexicon, [utterance.text for utterance in utterances])
    mel = Mel(options.rate, options.bands)
    spectrograms = [
        mel.spectrogram(samples(utterance.audio, options.rate))
        for utterance in utterances
    ]
    every = torch.cat(spectrograms)
    config = _config(options, utterances, lexicon, every)
    reader = Reader(config, aligner)
    examples = []
    for utterance, spectrogram in zip(utterances, spectrograms, strict=True):
        normalised = (spectrogram - config.mean) / config.deviation
        examples.append(reader.under(utterance.audio, normalised, utterance.text))
    report(amount(len(examples), len(every) * mel.seconds))
    torch.manual_seed(options.seed)
    network = A3tNetwork(config)
    loss = _fit(network, examples, options, report)
    about = f"# A3T\n\nLoss of masked frames at the end of training: {loss:.4f}."
    folders.save(options.out, KIND, config, network, len(examples), about)
    if isinstance(own, CtcAligner):
        shutil.copytree(
            own.recogniser.folder, options.out / ALIGNER, dirs_exist_ok=True
        )


def _config(
    options: A3tOptions,
    utterances: Sequence[Utterance],
    lexicon: Lexicon,
    frames: Tensor,
) -> A3tConfig:
    """Return the configuration of a network.

    Args:
        options: Its sizes and parts.
        utterances: Their texts have all units.
        lexicon: The phones of words, or nothing.
        frames: All frames of the training set, (frames, bands).
    """
    units: set[str] = set()
    for utterance in utterances:
        units.update(units_of(utterance.text, lexicon))
    return A3tConfig(
        units=tuple(sorted(units)),
        lexicon=dict(lexicon),
        rate=options.rate,
        bands=options.bands,
        d_model=options.d_model,
        layers=options.layers,
        heads=options.heads,
        alignment=options.alignment,
        conformer=options.conformer,
        post_net=options.post_net,
        mean=float(frames.mean()),
        deviation=float(frames.std()),
    )


def _fit(
    network: A3tNetwork,
    examples: Sequence[Example],
    options: A3tOptions,
    report: Report,
) -> float:
    """Train a network on examples, and return its loss at the end."""
    randomness = random.Random(options.seed)

    def loss_of(places: list[int]) -> Tensor:
        chosen = [examples[place] for place in places]
        masks = [masked_frames(example, options.mask, randomness) for example in chosen]
        return masked_loss(network, Batch.of(chosen), padded(masks), options.loss)

    lengths = [len(example.frames) for example in examples]
    return fit(network, lengths, loss_of, options, report)


def masked_loss(network: A3tNetwork, batch: Batch, hidden: Tensor, loss: str) -> Tensor:
    """Return the mean error of masked frames before the Post-Net, plus that behind it
    (equation 4.1).

    Args:
        network: See `A3tNetwork.forward`.
        batch: Recordings under texts.
        hidden: Which frames are masked, (examples, frames).
        loss: `l1` for absolute, `l2` for squared errors.
    """
    error = F.l1_loss if loss == "l1" else F.mse_loss
    first, refined = network(batch, hidden)
    wanted = batch.frames[hidden]
    total = error(first[hidden], wanted, reduction="sum")
    if network.config.post_net:
        total = total + error(refined[hidden], wanted, reduction="sum")
    return total / max(1, wanted.numel())


class Reader:
    """Makes the examples of a network."""

    def __init__(self, config: A3tConfig, aligner: Aligner) -> None:
        self.config = config
        self.aligner = aligner
        self.mel = Mel(config.rate, config.bands)
        self._number_of = {unit: number for number, unit in enumerate(config.units, 1)}

    def frames(self, audio: Audio) -> Tensor:
        """Return the normalised spectrogram of a recording, (frames, bands)."""
        raw = self.mel.spectrogram(samples(audio, self.config.rate))
        return (raw - self.config.mean) / self.config.deviation

    def under(self, audio: Audio, frames: Tensor, text: str) -> Example:
        """Return a recording under a text.

        Args:
            audio: The recording.
            frames: Its spectrogram, as `frames` returns it.
            text: A hypothesis, or the truth.

        Raises:
            ImpossibleError: The text has too many units, or the recording is too
                short for it.
            UserError: The text cannot be aligned for another reason.
        """
        lexicon = self.config.lexicon
        units = units_of(text, lexicon)
        if len(units) > MOST_UNITS:
            raise ImpossibleError(
                f"utterance {audio.name}: {counted(len(units), 'unit')}, more than"
                f" {MOST_UNITS}; cut it into shorter utterances"
            )
        numbers = [self._number_of.get(unit, 0) for unit in units]
        spans = unit_spans(self.aligner.spans(audio, text), text, lexicon)
        return Example(
            frames,
            torch.tensor(numbers, dtype=torch.long),
            owners(spans, len(frames), self.mel.seconds),
        )

    def examples(self, utterances: Sequence[Utterance]) -> list[Example]:
        """Return recordings under their own texts."""
        return [
            self.under(utterance.audio, self.frames(utterance.audio), utterance.text)
            for utterance in utterances
        ]


def masked_frames(example: Example, share: float, randomness: random.Random) -> Tensor:
    """Return the frames of random spans of units.

    No span is longer than a third of the text: a text without sound says nothing of
    the voice.

    Args:
        example: A recording under a text.
        share: Of the units that are masked, at least.
        randomness: Decides the spans.

    Returns:
        (frames,) of truth values.
    """
    number = len(example.units)
    longest = max(1, min(LONGEST_SPAN, number // 3))
    wanted = max(1, round(share * number))
    masked = torch.zeros(number + 1, dtype=torch.bool)
    while int(masked.sum()) < wanted:
        start = randomness.randint(1, number)
        masked[start : start + randomness.randint(1, longest)] = True
    return masked[example.owners]


def middle_third(example: Example) -> Tensor:
    """Return the frames of the middle third of the units, and of silence between them.

    The thesis measures the distortion of these (section 4.4.3).

    Returns:
        (frames,) of truth values.
    """
    number = len(example.units)
    first = number // 3 + 1
    last = max(first, 2 * number // 3)
    inside = (example.owners >= first) & (example.owners <= last)
    places = inside.nonzero()[:, 0].tolist()
    masked = torch.zeros(len(example.owners), dtype=torch.bool)
    if places:
        masked[places[0] : places[-1] + 1] = True
    return masked


def load(folder: Path) -> A3tNetwork:
    """Return the network of a folder.

    Raises:
        UserError: Files are missing or damaged.
    """
    network = A3tNetwork(folders.load_config(folder, KIND, A3tConfig))
    folders.load_weights(folder, network)
    return network
