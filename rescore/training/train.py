"""`rescore train` as a function: from text to a model folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from rescore.errors import UserError
from rescore.files import replacing
from rescore.formats.source import read_lines
from rescore.networks import checkpoint
from rescore.networks.config import NAMED, NetworkConfig
from rescore.networks.tokenizer import Tokenizer, train_wordpiece
from rescore.networks.tta import TTA
from rescore.parts import NETWORKS
from rescore.registry import resolve
from rescore.training import lexicon
from rescore.training.corpus import Corpus, encode_corpus, encode_pairs
from rescore.training.loop import STATE, Device, Recipe, Task, Trainer
from rescore.training.memory import fill_memory
from rescore.training.objectives import MIXTURE, USUAL, ContextObjective, ObjectiveOptions

CORPUS, PAIRS = "corpus", "pairs"  # folders of encoded text beside the checkpoint; nobody needs them after training


def train(
    kind: str,
    out: Path,
    recipe: Recipe,
    *,
    text: Path | None = None,
    pairs: tuple[Path, Path] | None = None,
    config: str = "base",
    context: int = 0,
    ngram_memory: int = 0,
    init: Path | None = None,
    resume: bool = False,
    tokenizer: Path | None = None,
    normalisation: str = "english",
    held_out: int | None = None,
    device: str | None = None,
    precision: str = "auto",
    compiled: bool | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Train a network of `kind` and write its folder.

    A `unified` network learns from `pairs`, a file of sentences and one of their translations line by line, and reads
    `text` in the other three ways; without `text` the second file of the pairs.

    With `context`, every second batch is of windows of consecutive sentences, so many on each side of the one in the
    middle (before it only, for a uniLM), from documents that empty lines part.

    With `ngram_memory` a T-TA gets a table of so many rows, filled from the text before training; see
    `networks.memory`. A model to start from that has one keeps it.

    With `init` and `resume` the model to start from gives the size only: the weights are those of the saved state.

    With `recipe.steps == 0` the network is written as it was initialised; then `text` is needed only where a tokenizer
    has to be trained.

    Raises:
        UserError: files are missing or do not fit together; `out` holds a training that `resume` does not continue.
    """
    if (out / STATE).exists() and not resume:
        raise UserError(f"{out / STATE}: a training was begun here; continue it with --resume, or remove the file")
    if pairs is not None:
        text = text or pairs[1]
    elif NETWORKS[kind].pairs and recipe.steps != 0:
        raise UserError(f"a {kind} network learns from translations, too; give --pairs SOURCE TARGET")
    if text is None and recipe.steps != 0:
        raise UserError("no text to train on; give --text FILE")
    machine = Device.choose(device, precision, compiled)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made ({error.strerror or error})") from None
    if machine.rank == 0:
        texts = list(dict.fromkeys([*([text] if text else []), *(pairs or ())]))
        _prepare_tokenizer(out, texts, config, init, resume, tokenizer, normalisation, report)
        if text is not None and not resume:
            lexicon.write(text, Tokenizer.load(out / "tokenizer.json"), out)
        if recipe.steps != 0 and text is not None:
            tokens = Tokenizer.load(out / "tokenizer.json")
            longest = _config(kind, config, tokens, init, context, ngram_memory).max_positions - 2
            encode_corpus(text, tokens, out / CORPUS, longest)
            if pairs is not None:
                count = encode_pairs(*pairs, tokens, out / PAIRS, longest)
                report(f"{count:,} pairs of at most {longest} tokens, each in both directions")
    if machine.world > 1:
        torch.distributed.barrier()
    tokens = Tokenizer.load(out / "tokenizer.json")
    torch.manual_seed(recipe.seed)
    known: dict[str, torch.Tensor] = {}
    network = checkpoint.build(_config(kind, config, tokens, init, context, ngram_memory))
    if init is not None:  # a model that has read single sentences gets positions of sentences, which are zero at first
        known = checkpoint.load(init)[0].state_dict()
        network.load_state_dict(network.state_dict() | known)
    if recipe.steps == 0:
        checkpoint.save(out, network, tokens)
        return
    corpus = Corpus(out / CORPUS, tokens, held_out, recipe.seed, network.config.sentences if context else 1)
    if (
        isinstance(network, TTA)
        and network.ngram_memory
        and not resume
        and not any(n.startswith("ngram_memory.") for n in known)
    ):
        report(f"filling the n-gram memory of {network.config.ngram_memory:,} rows")
        fill_memory(network, corpus)
    translations = Corpus(out / PAIRS, tokens, held_out, recipe.seed) if NETWORKS[kind].pairs else None
    what = turns(kind, tokens, corpus, translations, context > 0, recipe.objective)
    trainer = Trainer(network, tokens, what, recipe, machine, out)
    if resume:
        trainer.resume()
    if machine.rank == 0:
        parameters = sum(value.numel() for value in network.parameters())
        report(
            f"{kind}: {parameters:,} parameters, {len(corpus):,} sentences of {corpus.training_tokens:,} tokens, "
            f"{machine.device} {str(machine.precision).removeprefix('torch.')}"
        )
    trainer.run(report)
    if machine.rank == 0:
        trainer.export()
        _write_card(out, kind, trainer, corpus, [*([text] if text else []), *(pairs or ())], init)
    if machine.world > 1:
        torch.distributed.destroy_process_group()


def turns(
    kind: str,
    tokenizer: Tokenizer,
    text: Corpus,
    pairs: Corpus | None = None,
    context: bool = False,
    options: ObjectiveOptions = USUAL,
) -> list[Task]:
    """What a network of `kind` learns, batch by batch; `pairs` is for a kind that learns from them."""
    made = resolve(NETWORKS[kind].objective)(tokenizer, options)
    if pairs is None:
        alone = Task(kind, text, made)
        return (
            [alone, Task("context", text.windows(), ContextObjective(alone.objective, tokenizer))]
            if context
            else [alone]
        )
    tasks = {name: Task(name, pairs if name == "seq2seq" else text, objective) for name, objective in made.items()}
    return [tasks[name] for name in MIXTURE]


def _prepare_tokenizer(
    out: Path,
    texts: Sequence[Path],
    config: str,
    init: Path | None,
    resume: bool,
    tokenizer: Path | None,
    normalisation: str,
    report: Callable[[str], None],
) -> None:
    if resume:
        return
    if tokenizer is not None and init is not None:
        raise UserError("--tokenizer and --init exclude each other: a model's weights belong to its tokenizer")
    if tokenizer is not None or init is not None:
        found = Tokenizer.load(tokenizer if tokenizer is not None else Path(str(init)) / "tokenizer.json")
    elif texts:
        size = _named_or_file(config).vocab_size
        report(f"training a tokenizer of {size:,} WordPieces on {', '.join(map(str, texts))}")
        found = train_wordpiece(chain.from_iterable(map(read_lines, texts)), size, normalisation)
        if found.vocab_size < size:
            report(f"the text gives {found.vocab_size:,} WordPieces only")
    else:
        raise UserError("no tokenizer; give --text FILE to train one on, or --tokenizer FILE")
    found.save(out / "tokenizer.json")


def _named_or_file(config: str) -> NetworkConfig:
    if config in NAMED:
        return NAMED[config]
    if not Path(config).is_file():
        raise UserError(f"--config {config}: neither a file nor one of {', '.join(NAMED)}")
    return NetworkConfig.load(Path(config))


def _config(
    kind: str, config: str, tokenizer: Tokenizer, init: Path | None, context: int, ngram_memory: int
) -> NetworkConfig:
    """The named size with the tokenizer's vocabulary, or the configuration of the model to start from."""
    if init is not None:
        found = replace(NetworkConfig.load(init / "config.json"), kind=kind)
    else:
        found = replace(_named_or_file(config), kind=kind, vocab_size=tokenizer.vocab_size)
    if ngram_memory:
        if found.ngram_memory not in (0, ngram_memory):
            raise UserError(f"--ngram-memory {ngram_memory}: the model has one of {found.ngram_memory} rows")
        found = replace(found, ngram_memory=ngram_memory)
    if not context:
        return found
    if not NETWORKS[kind].before:
        able = [name for name in NETWORKS.names if NETWORKS[name].before]
        raise UserError(f"--context is for {', '.join(able)}; a {kind} reads one sentence at a time")
    wanted = found.with_neighbours(context)
    if found.sentences not in (1, wanted.sentences):
        raise UserError(f"--context {context}: the model reads {found.neighbours[0]} neighbours on a side")
    return wanted


def _write_card(
    out: Path, kind: str, trainer: Trainer, corpus: Corpus, texts: Sequence[Path], init: Path | None
) -> None:
    progress, recipe = trainer.progress, trainer.recipe
    names = ", ".join(dict.fromkeys(_in_a_table(path.name) for path in texts))
    base = ""
    if init is not None:
        content = hashlib.sha256((init / "model.safetensors").read_bytes()).hexdigest()
        base = f"| started from | {_in_a_table(init.resolve().name)}, model.safetensors {content[:12]} |\n"
    perplexities = [
        f"| validation {task.objective.perplexity}{f', {name}' if len(trainer.tasks) > 1 else ''} "
        f"| {math.exp(progress.losses[name]):.2f} a token, on {task.corpus.held_out_sentences:,} held-out sentences |"
        for name, task in trainer.tasks.items()
    ]
    measured = "\n".join(perplexities)
    card = f"""---
kind: {kind}
trained_on: {names}
recommended_weight: 0.3
---

# {kind}

| | |
| --- | --- |
{base}| text | {names} |
| training data | {len(corpus):,} sentences, {corpus.training_tokens:,} tokens |
| steps | {progress.step:,} of at most {recipe.batch_tokens:,} tokens |
| tokens seen | {progress.tokens:,} |
{measured}
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""
    with replacing(out / "README.md") as path:
        path.write_text(card, encoding="utf-8")


def _in_a_table(name: str) -> str:
    """A file's name as a cell: on one line, without the mark between cells."""
    return " ".join(name.split()).replace("|", "\\|")
