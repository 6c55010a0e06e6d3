"""`rescore train` as a function: from text to a model folder."""

from __future__ import annotations

import math
import os
from itertools import chain
from pathlib import Path

import torch

from rescore.errors import UserError, counted
from rescore.files import sha256, write_text
from rescore.formats.text import read_lines
from rescore.lms import checkpoint, lexicon
from rescore.lms.base import Report, kind_of
from rescore.lms.devices import bound_kernels
from rescore.lms.folders import TOKENS_PER_WORD, card_head
from rescore.lms.kinds import NeuralKind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus, encode_corpus, encode_pairs
from rescore.lms.training.loop import STATE, Trainer
from rescore.lms.training.options import NeuralOptions, TrainingData, lessons_of
from rescore.lms.training.vocabulary import train_wordpiece

# folders of encoded text beside the checkpoint; nobody needs them after training
CORPUS, PAIRS = "corpus", "pairs"


def train(
    kind: NeuralKind, options: NeuralOptions, report: Report = lambda line: None
) -> None:
    """Train a network and write its folder.

    With a model to start from and `resume`, this model gives only the size; the weights
    come from the saved state.

    With `steps == 0`, the initial network is written; a text is then needed only to
    train a tokenizer.
    """
    bound_kernels()
    _check(kind, options)
    tokenizer = _prepare(kind, options, report)
    torch.manual_seed(options.seed)
    network = build(kind, options, tokenizer)
    if options.steps == 0:
        checkpoint.save(options.out, network, tokenizer)
        return
    try:
        _run(kind, options, network, tokenizer, report)
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
        if (options.out / STATE).is_file():
            report(
                "interrupted; the same command with --resume goes on from"
                f" {options.out / STATE}"
            )
        raise


def build(kind: NeuralKind, options: NeuralOptions, tokenizer: Tokenizer) -> Network:
    """A network with fresh weights, or with the weights of the model to start from;
    parts that this model lacks have no effect at first.
    """
    network = kind.network(options.sized(kind, tokenizer))
    if options.start is not None:
        started = checkpoint.load(options.start)[0]
        fresh = network.state_dict()
        for name, value in started.state_dict().items():
            if name not in fresh or fresh[name].shape != value.shape:
                raise UserError(
                    f"--init {options.init}: is of kind {started.config.kind}, which"
                    f" has other weights than kind {kind.name} ({name})"
                )
        network.load_state_dict(fresh | started.state_dict())
    return network


def _check(kind: NeuralKind, options: NeuralOptions) -> None:
    """Check that texts to train on and a folder to write to exist, and that lessons
    suit the kind and the other options.
    """
    for lesson in lessons_of(options.lessons, kind):
        lesson.check(options)
    out, state = options.out, options.out / STATE
    # each process would write into the folder
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "a training is one process on one GPU; start it without torchrun"
        )
    if state.exists() and not options.resume:
        raise UserError(
            f"{state}: training has started here; continue it with --resume, or remove"
            " the file"
        )
    if options.resume and not state.exists():
        raise UserError(f"--out {out}: there is nothing to resume; leave out --resume")
    if (out / "model.safetensors").exists() and not options.resume:
        raise UserError(
            f"--out {out}: holds a model; give another folder, or delete this one"
        )
    if not options.texts and options.steps != 0:
        raise UserError("no text to train on; give --text FILE")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--out {out}: cannot be made ({error.strerror or error})"
        ) from None


def _prepare(kind: NeuralKind, options: NeuralOptions, report: Report) -> Tokenizer:
    """Write the tokenizer, the lexicon and the encoded text; returns the tokenizer."""
    out, texts = options.out, options.texts
    if options.resume:
        tokenizer = Tokenizer.load(out / "tokenizer.json")
    else:
        tokenizer = _tokenizer(options, report)
        tokenizer.save(out / "tokenizer.json")
        if texts:
            words = chain.from_iterable(map(tokenizer.words, lexicon.chunks(texts)))
            lexicon.Lexicon.count(words).save(out / lexicon.NAME)
    if options.steps == 0 or not texts:
        return tokenizer
    longest = options.sized(kind, tokenizer).max_positions - 2
    encode_corpus(texts, tokenizer, out / CORPUS, longest)
    if options.translations is not None:
        count = encode_pairs(*options.translations, tokenizer, out / PAIRS, longest)
        report(
            f"{counted(count, 'pair')} of at most {longest} tokens a side, each in both"
            " directions"
        )
    return tokenizer


def _files(options: NeuralOptions) -> list[Path]:
    """All texts."""
    return list(dict.fromkeys([*options.texts, *(options.translations or ())]))


def _tokenizer(options: NeuralOptions, report: Report) -> Tokenizer:
    """The tokenizer that the options name, or a new one."""
    if options.tokenizer is not None:
        return Tokenizer.load(options.tokenizer)
    if options.start is not None:
        return Tokenizer.load(options.start / "tokenizer.json")
    files = _files(options)
    if not files:
        raise UserError(
            "no tokenizer; give --text FILE to train one on, or --tokenizer FILE"
        )
    size = options.size or options.named_config.vocab_size
    report(
        f"training a tokenizer of {size:,} WordPieces on {', '.join(map(str, files))}"
    )
    tokenizer = train_wordpiece(
        chain.from_iterable(map(read_lines, files)), size, options.normalisation
    )
    if tokenizer.vocab_size < size:
        report(f"the text gives {tokenizer.vocab_size:,} WordPieces only")
    return tokenizer


def _run(
    kind: NeuralKind,
    options: NeuralOptions,
    network: Network,
    tokenizer: Tokenizer,
    report: Report,
) -> None:
    """Train, and write the model and its card."""
    out, held_out, seed = options.out, options.held_out, options.seed
    lessons = lessons_of(options.lessons, kind)
    window = options.window(network.config)
    for lesson in lessons:
        window = lesson.window(network.config, window)
    text = Corpus(out / CORPUS, tokenizer, held_out, seed, window)
    pairs = None
    if options.translations:
        pairs = Corpus(out / PAIRS, tokenizer, held_out, seed)
    data = TrainingData(tokenizer, options, network.config, text, pairs)
    tasks = kind.tasks(data)
    for lesson in lessons:
        tasks = lesson.tasks(tasks, data)
    trainer = Trainer(network, tokenizer, tasks, options, out)
    if options.resume:
        trainer.resume()
    parameters = sum(value.numel() for value in network.parameters())
    amount = (
        f"{counted(len(text), 'sentence')} of {counted(text.training_tokens, 'token')}"
    )
    precision = str(trainer.precision).removeprefix("torch.")
    report(
        f"{kind.name}: {parameters:,} parameters, {amount}, {trainer.device}"
        f" {precision}"
    )
    steps = f"{counted(options.steps or 0, 'step')} (--steps)"
    length = (
        steps if options.minutes is None else f"{options.minutes:g} min (--minutes)"
    )
    if options.resume and trainer.is_done:
        report(
            f"{counted(trainer.progress.step, 'step')} are trained already; train more"
            " with a higher --steps or --minutes"
        )
    else:
        report(f"training stops after at most {length}")
    trainer.run(report)
    trainer.export()
    if options.start is not None:
        step = trainer.progress.best_step
        report(
            f"{out} has the weights of step {step}, whose validation loss was lowest"
            if step
            else (
                f"nothing gained: {out} has the weights of {options.init}; try a lower"
                " --learning-rate"
            )
        )
    _write_card(kind.name, trainer, text)


def _write_card(kind: str, trainer: Trainer, text: Corpus) -> None:
    progress, options, init = trainer.progress, trainer.options, trainer.options.start
    names = ", ".join(dict.fromkeys(_in_a_table(path.name) for path in _files(options)))
    batch = f"{options.batch_tokens:,} tokens"
    if options.batch_sentences is not None:
        batch += f" and {options.batch_sentences:,} sentences"
    base = kept = ""
    if init is not None:
        content = sha256(init / "model.safetensors").hex()
        base = (
            f"| started from | {_in_a_table(init.resolve().name)}, model.safetensors"
            f" {content[:12]} |\n"
        )
        kept = f"; the weights are those of step {progress.best_step:,}"
    lines = "\n".join(
        "| validation"
        f" {task.objective.perplexity}{f', {name}' if len(trainer.tasks) > 1 else ''} |"
        f" {math.exp(progress.losses[name]):.2f} a token, on"
        f" {task.corpus.held_out_sentences:,} held-out sentences |"
        for name, task in trainer.tasks.items()
    )
    hub_task = "fill-mask" if kind_of(kind).is_pseudo(()) else "text-generation"
    figures = {
        f"{task.objective.perplexity} ({name})": math.exp(progress.losses[name])
        for name, task in trainer.tasks.items()
    }
    # its first line; there may be no frequent word
    words = int(next(read_lines(options.out / lexicon.NAME)))
    per_word = f"{text.tokens / max(1, words):.2f}"
    own = {
        "kind": kind,
        "trained_on": names,
        TOKENS_PER_WORD: per_word,
        "recommended_weight": 0.3,
    }
    head = card_head(hub_task, own, figures)
    card = f"""{head}

# {kind}

| | |
| --- | --- |
{base}| text | {names} |
| training data | {counted(len(text), "sentence")}, {counted(text.training_tokens, "token")} |
| steps | {progress.step:,} of at most {batch}{kept} |
| tokens seen | {progress.tokens:,} |
{lines}
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""  # noqa: E501
    write_text(options.out / "README.md", card)


def _in_a_table(name: str) -> str:
    """A file's name as a cell: on one line, without the mark between cells."""
    return " ".join(name.split()).replace("|", "\\|")
