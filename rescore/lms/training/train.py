"""`rescore train` as a function: from text to a model folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from rescore.errors import UserError, counted
from rescore.files import write_text
from rescore.formats.source import read_lines
from rescore.lms import checkpoint, lexicon
from rescore.lms.base import Report, kind_of
from rescore.lms.config import NetworkConfig
from rescore.lms.devices import bound_kernels
from rescore.lms.folders import card_head, claimed
from rescore.lms.kinds import NeuralKind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus, encode_corpus, encode_pairs
from rescore.lms.training.loop import STATE, Device, Trainer
from rescore.lms.training.options import NeuralOptions, TrainingData
from rescore.lms.training.vocabulary import VOCABULARIES
from rescore.parts import KINDS

CORPUS, PAIRS = "corpus", "pairs"  # folders of encoded text beside the checkpoint; nobody needs them after training


def train(
    kind: NeuralKind, options: NeuralOptions, machine: Device | None = None, report: Report = lambda line: None
) -> None:
    """Train a network and write its folder.

    With a model to start from and `resume`, this model gives only the size; the weights come from the saved state.

    With `steps == 0`, the initial network is written; a text is then needed only to train a tokenizer.

    Args:
        machine: device and processes; None to follow the options.
    """
    bound_kernels()
    machine = machine or Device.choose(options.device, options.precision, options.compiled)
    _check(kind, options)
    with claimed(options.out) if machine.rank == 0 else nullcontext():
        if machine.rank == 0:
            _prepare(kind, options, report)
        if machine.world > 1:
            torch.distributed.barrier()
        tokenizer = Tokenizer.load(options.out / "tokenizer.json")
        torch.manual_seed(options.seed)
        network = build(kind, options, tokenizer)
        if options.steps == 0:
            checkpoint.save(options.out, network, tokenizer)
            return
        try:
            _run(kind, options, machine, network, tokenizer, report)
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
            if (options.out / STATE).is_file():
                report(f"interrupted; the same command with --resume goes on from {options.out / STATE}")
            raise
    if machine.world > 1:
        torch.distributed.destroy_process_group()


def build(kind: NeuralKind, options: NeuralOptions, tokenizer: Tokenizer) -> Network:
    """A network with fresh weights, or with the weights of the model to start from; parts that this model lacks have no
    effect at first."""
    network = checkpoint.build(options.sized(kind.name, tokenizer))
    if options.start is not None:
        network.load_state_dict(network.state_dict() | checkpoint.load(options.start)[0].state_dict())
    return network


def _run(
    kind: NeuralKind, options: NeuralOptions, machine: Device, network: Network, tokenizer: Tokenizer, report: Report
) -> None:
    """Train, and write the model and its card."""
    out, held_out = options.out, options.held_out
    folders = _corpora(options)
    corpora = [Corpus(folder, tokenizer, held_out, options.seed, options.window(network.config)) for folder in folders]
    pairs = Corpus(out / PAIRS, tokenizer, held_out, options.seed) if options.translations else None
    corpus = corpora[0]
    tasks = kind.tasks(TrainingData(tokenizer, network.config, options, corpus, pairs))
    for number, further in enumerate(corpora[1:], start=2):
        learned = kind.tasks(TrainingData(tokenizer, network.config, options, further))
        tasks += [replace(task, name=f"{task.name}, text {number}") for task in learned]
    curriculum = options.curriculum(tokenizer, corpus.token_counts)
    trainer = Trainer(network, tokenizer, tasks, options, machine, out, curriculum)
    if options.resume:
        trainer.resume()
    if machine.rank == 0:
        if curriculum is not None:
            report(str(curriculum))
        parameters = sum(value.numel() for value in network.parameters())
        texts = " and ".join(
            f"{counted(len(text), 'sentence')} of {counted(text.training_tokens, 'token')}" for text in corpora
        )
        precision = str(machine.precision).removeprefix("torch.")
        report(f"{kind.name}: {parameters:,} parameters, {texts}, {machine.device} {precision}")
        steps = f"{counted(options.steps or 0, 'step')} (--steps)"
        length = steps if options.minutes is None else f"{options.minutes:g} min (--minutes)"
        report(f"training stops after at most {length}")
    trainer.run(report)
    if machine.rank == 0:
        trainer.export()
        if options.start is not None:
            step = trainer.progress.best_step
            report(
                f"{out} has the weights of step {step}, whose validation loss was lowest"
                if step
                else f"nothing gained: {out} has the weights of {options.init}; try a lower --learning-rate"
            )
        _write_card(kind.name, trainer, corpora)


def _check(kind: NeuralKind, options: NeuralOptions) -> None:
    """Check that texts to train on and a folder to write to exist."""
    out = options.out
    if (out / STATE).exists() and not options.resume:
        raise UserError(f"{out / STATE}: training has started here; continue it with --resume, or remove the file")
    if options.resume and not (out / STATE).exists():
        raise UserError(f"--out {out}: there is nothing to resume; leave out --resume")
    if (out / "model.safetensors").exists() and not options.resume:
        raise UserError(f"--out {out}: holds a model; give another folder, or delete this one")
    if options.start is not None:
        started = NetworkConfig.load(options.start / "config.json").kind
        if KINDS[started].family != kind.family:
            raise UserError(f"--init {options.init}: is of kind {started}, which has no weights for a {kind.name}")
    if not options.texts and options.steps != 0:
        raise UserError("no text to train on; give --text FILE")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made ({error.strerror or error})") from None


def _prepare(kind: NeuralKind, options: NeuralOptions, report: Report) -> None:
    """Write the tokenizer, the lexicon and the encoded text."""
    out, texts = options.out, options.texts
    if not options.resume:
        _prepare_tokenizer(options, report)
        if texts:
            lexicon.write(lexicon.words_of(texts, Tokenizer.load(out / "tokenizer.json")), out)
    if options.steps == 0 or not texts:
        return
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    longest = options.sized(kind.name, tokenizer).max_positions - 2
    for text, folder in zip(texts, _corpora(options), strict=True):
        encode_corpus(text, tokenizer, folder, longest)
    if options.translations is not None:
        count = encode_pairs(*options.translations, tokenizer, out / PAIRS, longest, options.apart)
        a_side = " a side" if options.apart else ""
        report(f"{counted(count, 'pair')} of at most {longest} tokens{a_side}, each in both directions")


def _files(options: NeuralOptions) -> list[Path]:
    """All texts."""
    return list(dict.fromkeys([*options.texts, *(options.translations or ())]))


def _corpora(options: NeuralOptions) -> list[Path]:
    """The folders of the encoded texts."""
    return [
        options.out / (f"{CORPUS}-{number}" if number > 1 else CORPUS) for number in range(1, len(options.texts) + 1)
    ]


def _prepare_tokenizer(options: NeuralOptions, report: Report) -> None:
    files = _files(options)
    if options.given_tokenizer is not None:
        tokenizer = Tokenizer.load(options.given_tokenizer)
    elif options.start is not None:
        tokenizer = Tokenizer.load(options.start / "tokenizer.json")
    elif files:
        size = options.size or options.named_config.vocab_size
        vocabulary = options.vocabulary or "wordpiece"
        units = {"wordpiece": "WordPieces"}.get(vocabulary, vocabulary)
        report(f"training a tokenizer of {size:,} {units} on {', '.join(map(str, files))}")
        lines = chain.from_iterable(map(read_lines, files))
        tokenizer = VOCABULARIES[vocabulary](lines, size, options.normalisation)
        if tokenizer.vocab_size < size:
            report(f"the text gives {tokenizer.vocab_size:,} {units} only")
    else:
        raise UserError("no tokenizer; give --text FILE to train one on, or --tokenizer FILE")
    tokenizer.save(options.out / "tokenizer.json")


def _write_card(kind: str, trainer: Trainer, corpora: Sequence[Corpus]) -> None:
    progress, options, init = trainer.progress, trainer.options, trainer.options.start
    names = ", ".join(dict.fromkeys(_in_a_table(path.name) for path in _files(options)))
    base = ""
    if init is not None:
        content = hashlib.sha256((init / "model.safetensors").read_bytes()).hexdigest()
        base = f"| started from | {_in_a_table(init.resolve().name)}, model.safetensors {content[:12]} |\n"
    measured = [
        f"| validation {task.objective.perplexity}{f', {name}' if len(trainer.tasks) > 1 else ''} "
        f"| {math.exp(progress.losses[name]):.2f} a token, on {task.corpus.held_out_sentences:,} held-out sentences |"
        for name, task in trainer.tasks.items()
    ]
    measured += [
        f"| validation accuracy of {trainer.heads[name].about}, {name} "
        f"| {100 * value:.1f} %, on held-out pairs of lines |"
        for name, value in progress.accuracies.items()
    ]
    lines = "\n".join(measured)
    hub_task = "fill-mask" if kind_of(kind).is_pseudo(()) else "text-generation"
    figures = {
        f"{task.objective.perplexity} ({name})": math.exp(progress.losses[name]) for name, task in trainer.tasks.items()
    }
    head = card_head(hub_task, {"kind": kind, "trained_on": names, "recommended_weight": 0.3}, figures)
    kept = f"; the weights are those of step {progress.best_step:,}" if init is not None else ""
    sentences, tokens = sum(map(len, corpora)), sum(text.training_tokens for text in corpora)
    card = f"""{head}

# {kind}

| | |
| --- | --- |
{base}| text | {names} |
| training data | {counted(sentences, "sentence")}, {counted(tokens, "token")} |
| steps | {progress.step:,} of at most {options.batch_tokens:,} tokens{kept} |
| tokens seen | {progress.tokens:,} |
{lines}
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""
    write_text(options.out / "README.md", card)


def _in_a_table(name: str) -> str:
    """A file's name as a cell: on one line, without the mark between cells."""
    return " ".join(name.split()).replace("|", "\\|")
