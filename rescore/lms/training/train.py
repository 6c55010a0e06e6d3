"""`rescore train` for networks as a function: from text to a model folder."""

from __future__ import annotations

import logging
import math
import os
import time
from itertools import chain
from pathlib import Path

import torch

from rescore.errors import UserError, counted
from rescore.files import make_folder, sha256, write_text
from rescore.formats.sentences import read_lines, refuse_lists
from rescore.formats.source import Source
from rescore.lms import checkpoint, lexicon
from rescore.lms.base import Report, kind_of
from rescore.lms.cards import weight_of
from rescore.lms.config import SMALL
from rescore.lms.devices import bound_kernels
from rescore.lms.folders import TOKENS_PER_WORD, card_head, check_is_free
from rescore.lms.kinds import NeuralKind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training import loop
from rescore.lms.training.corpus import Corpus, encode_corpus, encode_pairs
from rescore.lms.training.loop import STATE, Trainer
from rescore.lms.training.options import NeuralOptions, TrainingData, lessons_of
from rescore.lms.training.vocabulary import train_wordpiece

log = logging.getLogger(__name__)

CORPUS = "corpus"
"""The folder of encoded text in the folder of the training's state."""
PAIRS = "pairs"
"""The folder of encoded pairs in the folder of the training's state."""


def state_folder(out: Path) -> Path:
    """Return the folder of a training's state: `lm.state` beside the model `lm`.

    It has what only the training needs: the optimisers, and the training text as
    numbers. A model that is given to others does not contain its text. Trainings of
    earlier versions have their state in the folder of the model.

    Args:
        out: The folder of the model.
    """
    if (out / STATE).exists():
        return out
    out = out.absolute()
    return out.with_name(f"{out.name}.state")


def train(
    kind: NeuralKind, options: NeuralOptions, report: Report = lambda line: None
) -> None:
    """Train a network and write its folder.

    With a model to start from and `resume`, this model gives only the size; the weights
    come from the saved state. With `steps == 0`, the initial network is written; a text
    is then needed only to train a tokenizer.

    Args:
        kind: The kind of the network.
        options: The options of the training.
        report: Called with each line about the progress.

    Raises:
        UserError: An option, a text or a folder is not valid.
    """
    began = time.monotonic()
    bound_kernels()
    _check(kind, options)
    tokenizer = _prepare(kind, options, report)
    torch.manual_seed(options.seed)
    network = build(kind, options, tokenizer)
    if options.steps == 0:
        checkpoint.save(options.out, network, tokenizer)
        return
    try:
        _run(kind, options, network, tokenizer, report, began)
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
        state = state_folder(options.out) / STATE
        if state.is_file():
            report(f"interrupted; the same command with --resume goes on from {state}")
        raise


def build(kind: NeuralKind, options: NeuralOptions, tokenizer: Tokenizer) -> Network:
    """Return a network with fresh weights, or with the weights of the model to start
    from; parts that this model lacks have no effect at first.

    Args:
        kind: The kind of the network.
        options: The options of the training.
        tokenizer: The tokenizer.

    Raises:
        UserError: The weights of the model to start from do not fit.
    """
    network = kind.network(options.sized(kind, tokenizer))
    if options.start is None:
        return network
    started, _ = checkpoint.load(options.start)
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
    """Check, before a text is read, that lessons suit the kind and the other options,
    that there is a text to train on, and that the folder can be written to.
    """
    for lesson in lessons_of(options.lessons, kind):
        lesson.check(options)
    # each process would write into the folder
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "a training is one process on one GPU; start it without torchrun"
        )
    if options.resume:
        if not (state_folder(options.out) / STATE).exists():
            raise UserError(
                f"--out {options.out}: there is nothing to resume; leave out --resume"
            )
    else:
        _check_is_free(options.out)
    if not options.texts and options.steps != 0:
        raise UserError("no text to train on; give --text FILE")
    for file in _files(options):
        refuse_lists(Source(file))
    make_folder(options.out, f"--out {options.out}")
    if options.steps != 0:
        make_folder(state_folder(options.out), f"--out {options.out}")


def _check_is_free(out: Path) -> None:
    """Raise an error if a folder has a saved state or a model."""
    state = state_folder(out) / STATE
    if state.exists():
        raise UserError(
            f"{state}: training has started here; continue it with --resume, or remove"
            " the file"
        )
    check_is_free(out)


def _prepare(kind: NeuralKind, options: NeuralOptions, report: Report) -> Tokenizer:
    """Write the tokenizer, the lexicon and the encoded text; return the tokenizer."""
    out = options.out
    texts = options.texts
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
    state = state_folder(out)
    encode_corpus(texts, tokenizer, state / CORPUS, longest)
    if options.translations is not None:
        source, target = options.translations
        number = encode_pairs(source, target, tokenizer, state / PAIRS, longest)
        report(
            f"{counted(number, 'pair')} of at most {longest} tokens a side, each in"
            " both directions"
        )
    return tokenizer


def _files(options: NeuralOptions) -> list[Path]:
    """Return all files of text, each once."""
    return list(dict.fromkeys([*options.texts, *(options.translations or ())]))


def _tokenizer(options: NeuralOptions, report: Report) -> Tokenizer:
    """Return the tokenizer that the options name, or a new one."""
    if options.tokenizer is not None:
        return Tokenizer.load(options.tokenizer)
    if options.start is not None:
        return Tokenizer.load(options.start / "tokenizer.json")
    files = _files(options)
    if not files:
        raise UserError(
            "no tokenizer; give --text FILE to train one on, or --tokenizer FILE"
        )
    size = options.size_of_tokenizer
    report(
        f"training a tokenizer of {size:,} WordPieces on {', '.join(map(str, files))}"
    )
    lines = chain.from_iterable(map(read_lines, files))
    tokenizer = train_wordpiece(lines, size, options.normalisation)
    if tokenizer.vocab_size < size:
        report(f"the text gives {tokenizer.vocab_size:,} WordPieces only")
    return tokenizer


def _run(
    kind: NeuralKind,
    options: NeuralOptions,
    network: Network,
    tokenizer: Tokenizer,
    report: Report,
    began: float,
) -> None:
    """Train, and write the model and its card; `began` is when the command began."""
    lessons = lessons_of(options.lessons, kind)
    window = options.window(network.config)
    for lesson in lessons:
        window = lesson.window(network.config, window)
    state = state_folder(options.out)
    text = Corpus(state / CORPUS, tokenizer, options.held_out, options.seed, window)
    pairs = None
    if options.translations:
        pairs = Corpus(state / PAIRS, tokenizer, options.held_out, options.seed)
    data = TrainingData(tokenizer, options, network.config, text, pairs)
    tasks = kind.tasks(data)
    for lesson in lessons:
        tasks = lesson.tasks(tasks, data)
    trainer = Trainer(network, tokenizer, tasks, options, options.out, state)
    if options.resume:
        trainer.resume()
    trainer.progress.other_seconds += time.monotonic() - began
    _report_start(kind.name, trainer, text, report)
    trainer.run(report)
    trainer.export()
    if options.start is not None:
        _report_best(trainer, report)
    _warn_of_few_updates(trainer)
    _write_card(kind.name, trainer, text)


def _report_start(kind: str, trainer: Trainer, text: Corpus, report: Report) -> None:
    """Report the size of the network and of the text, and the length of the
    training.
    """
    options = trainer.options
    parameters = sum(value.numel() for value in trainer.network.parameters())
    sentences = counted(len(text), "sentence")
    tokens = counted(text.training_tokens, "token")
    precision = str(trainer.precision).removeprefix("torch.")
    report(
        f"{kind}: {parameters:,} parameters, {sentences} of {tokens},"
        f" {trainer.device} {precision}"
    )
    if options.resume and trainer.is_done:
        report(
            f"{counted(trainer.progress.step, 'step')} are trained already; train more"
            " with a higher --steps or --minutes"
        )
        return
    if options.minutes is None:
        length = f"{counted(options.steps or 0, 'step')} (--steps)"
    else:
        length = f"{options.minutes:g} min (--minutes), reading included"
    report(f"training stops after at most {length}")


def _report_best(trainer: Trainer, report: Report) -> None:
    """Report which weights an adaptation has written."""
    options = trainer.options
    step = trainer.progress.best_step
    if step:
        report(
            f"{options.out} has the weights of step {step}, whose validation loss was"
            " lowest"
        )
        return
    advice = ""
    if not trainer.are_few(trainer.progress.step):
        advice = "; try a lower --learning-rate"
    report(f"nothing gained: {options.out} has the weights of {options.init}{advice}")


USUAL_WEIGHT = 0.3
"""The weight of a language model's score that the papers often found."""


def _warn_of_few_updates(trainer: Trainer) -> None:
    """Warn if --minutes ended before the network learned much. An adaptation that
    stopped earlier, because nothing gained, needs no more minutes.
    """
    options = trainer.options
    if options.minutes is None or not trainer.are_few(trainer.progress.step):
        return
    if not trainer.is_done:
        return
    if options.start is None:
        smaller = "" if options.config == SMALL else f" or --config {SMALL},"
        effect = (
            f"too few for a useful model; give more --minutes,{smaller} or adapt a"
            " shipped model (--init)"
        )
    else:
        effect = "too few to show what the text can teach; give more --minutes"
    log.warning(
        "%s: --minutes %g ended after %s of the weights, %s",
        options.out,
        options.minutes,
        counted(trainer.progress.step, "update"),
        effect,
    )


def _write_card(kind: str, trainer: Trainer, text: Corpus) -> None:
    """Write the model's README.md."""
    progress = trainer.progress
    options = trainer.options
    names = ", ".join(dict.fromkeys(_in_a_table(path.name) for path in _files(options)))
    batch = f"{options.batch_tokens:,} tokens"
    if options.batch_sentences is not None:
        batch += f" and {options.batch_sentences:,} sentences"
    base = ""
    kept = ""
    if options.start is not None:
        content = sha256(options.start / "model.safetensors").hex()
        name = _in_a_table(options.start.resolve().name)
        base = f"| started from | {name}, model.safetensors {content[:12]} |\n"
        kept = f"; the weights are those of step {progress.best_step:,}"
    lines = []
    figures = {}
    for name, task in trainer.tasks.items():
        measure = task.objective.perplexity
        perplexity = math.exp(progress.losses[name])
        of_task = f", {name}" if len(trainer.tasks) > 1 else ""
        lines.append(
            f"| validation {measure}{of_task} | {perplexity:.2f} a token, on"
            f" {task.corpus.validated(progress.held_out_share):,} held-out sentences |"
        )
        figures[f"{measure} ({name})"] = perplexity
    validation = "\n".join(lines)
    # the lexicon's first line; there may be no frequent word
    words = int(next(read_lines(options.out / lexicon.NAME)))
    own: dict[str, object] = {
        "kind": kind,
        "trained_on": names,
        TOKENS_PER_WORD: f"{text.tokens / max(1, words):.2f}",
    }
    weight, reason = _recommended(options.start, progress.step)
    written = "none"
    if weight is not None:
        own["recommended_weight"] = weight
        written = f"{weight:g}"
    hub_task = "fill-mask" if kind_of(kind).is_pseudo(()) else "text-generation"
    card = f"""{card_head(hub_task, own, figures)}

# {kind}

| | |
| --- | --- |
{base}| text | {names} |
| training data | {counted(len(text), "sentence")}, {counted(text.training_tokens, "token")} |
| steps | {progress.step:,} of at most {batch}{kept} |
| tokens seen | {progress.tokens:,} |
{validation}
| recommended weight | {written}, {reason}; tune it on lists of your own and write it here |
| licence | yours to choose |
"""  # noqa: E501
    write_text(options.out / "README.md", card)


def _recommended(start: Path | None, updates: int) -> tuple[float | None, str]:
    """Return the weight that the card recommends, and the reason.

    An adapted network keeps the weight of the model that it started from: its scores
    differ little from the scores of that model, so the weight fits them better than a
    value for any network. The card does not keep the spread of that weight's lists:
    nobody has tuned the weight with the adapted network.

    Args:
        start: The folder of the model that the network started from; None for random
            weights.
        updates: The number of updates.

    Returns:
        The weight of the model's score, in [0, 1]; None for no weight.
    """
    if start is not None:
        weight = weight_of(start)
        if weight is not None:
            name = _in_a_table(start.resolve().name)
            return weight, f"the weight of {name}, which the network started from"
    if updates < loop.FEW_UPDATES:
        return None, "because the network had few updates"
    return USUAL_WEIGHT, "the papers' usual value"


def _in_a_table(name: str) -> str:
    """Return the name of a file as a cell of a table: on one line, without the mark
    between cells.
    """
    return " ".join(name.split()).replace("|", "\\|")
