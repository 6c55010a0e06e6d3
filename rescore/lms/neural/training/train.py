"""`rescore train` as a function: from text to a model folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch

from rescore.errors import UserError
from rescore.files import write_text
from rescore.formats.source import read_lines
from rescore.lms import lexicon
from rescore.lms.neural import checkpoint
from rescore.lms.neural.blocks import Network
from rescore.lms.neural.config import NAMED, NetworkConfig
from rescore.lms.neural.tokenizer import VOCABULARIES, Tokenizer
from rescore.lms.neural.training.corpus import Corpus, encode_corpus, encode_pairs
from rescore.lms.neural.training.hypernyms import HypernymClasses
from rescore.lms.neural.training.loop import STATE, Device, Recipe, Task, Trainer
from rescore.lms.neural.training.objectives import USUAL, ContextObjective, ObjectiveOptions, SourceObjective
from rescore.lms.neural.training.sentence_order import order_task
from rescore.lms.unified import MIXTURE, PAIRED, needs_second
from rescore.parts import NETWORKS, resolve

CORPUS, PAIRS = "corpus", "pairs"  # folders of encoded text beside the checkpoint; nobody needs them after training


@dataclass(frozen=True, slots=True)
class Shape:
    """What network is trained."""

    kind: str
    config: str = "base"
    """A named size, or a config.json; with `init` the size is that model's."""
    init: Path | None = None
    """The folder of a model to start from."""
    context: int = 0
    """Neighbours on each side (before it only, for a uniLM) in every second batch, a window of consecutive sentences
    from documents that empty lines part."""
    phrases: int = 0
    """Hidden units of a T-TA's phrase keys; see `lms.tta`."""
    source: bool = False
    """Whether it learns to read the source before a translation, from pairs."""
    cloze: bool = False
    """Whether a `unified` network predicts masked tokens in all readings, as in the paper."""
    readings: tuple[str, ...] = ()
    """Of a `unified` network, which are trained; none for all."""
    order: str | None = None
    """Which of `sentence_order.ORDERS` is learned, too, in every second batch."""

    def sized(self, tokenizer: Tokenizer) -> NetworkConfig:
        """The named size with the tokenizer's vocabulary, or the configuration of the model to start from.

        Raises:
            UserError: the options do not fit the model or each other.
        """
        if self.init is not None:
            found = replace(NetworkConfig.load(self.init / "config.json"), kind=self.kind)
        else:
            found = replace(_named_or_file(self.config), kind=self.kind, vocab_size=tokenizer.vocab_size)
        if self.phrases:
            if found.phrases not in (0, self.phrases):
                raise UserError(f"--phrases {self.phrases}: the model has phrase keys of {found.phrases} units")
            found = replace(found, phrases=self.phrases)
        second = found.bi_source or (NETWORKS[self.kind].pairs and needs_second(self.readings))
        found = replace(found, cloze=found.cloze or self.cloze, bi_source=second)
        if found.source > self.source:
            raise UserError(f"{self.init}: reads a source; give --pairs SOURCE TARGET")
        if self.source:
            if self.context or found.sentences > 1 > found.source:
                raise UserError(
                    "--context and --pairs exclude each other: what comes first is a neighbour, or a source"
                )
            return replace(found, sentences=2, source=True)
        if not self.context:
            return found
        if not NETWORKS[self.kind].before:
            able = [name for name in NETWORKS.names if NETWORKS[name].before]
            raise UserError(f"--context is for {', '.join(able)}; a {self.kind} reads one sentence at a time")
        wanted = found.with_neighbours(self.context)
        if found.sentences not in (1, wanted.sentences):
            raise UserError(f"--context {self.context}: the model reads {found.neighbours[0]} neighbours on a side")
        return wanted

    def network(self, tokenizer: Tokenizer) -> Network:
        """A network with fresh weights, or with those of the model to start from; what that lacks changes nothing at
        first."""
        made = checkpoint.build(self.sized(tokenizer))
        if self.init is not None:
            made.load_state_dict(made.state_dict() | checkpoint.load(self.init)[0].state_dict())
        return made


@dataclass(frozen=True, slots=True)
class Sources:
    """What a network is trained on."""

    text: Path | None = None
    """One sentence per line."""
    pairs: tuple[Path, Path] | None = None
    """Sentences and their translations, line by line; the second is the text where there is no other."""
    tokenizer: Path | None = None
    """A tokenizer.json; without one (or a model to start from) one is trained on the text."""
    normalisation: str = "english"
    """Of a tokenizer that is trained."""
    held_out: int | None = None
    """Sentences for validation."""
    vocabulary: str = "wordpiece"
    """Of a tokenizer that is trained: one of `VOCABULARIES`."""
    vocabulary_size: int | None = None
    """Its tokens; None for as many as the configuration has."""

    @property
    def main(self) -> Path | None:
        return self.text or (self.pairs[1] if self.pairs else None)

    @property
    def files(self) -> list[Path]:
        return list(dict.fromkeys([*([self.main] if self.main else []), *(self.pairs or ())]))


def train(
    shape: Shape,
    sources: Sources,
    recipe: Recipe,
    machine: Device,
    out: Path,
    *,
    resume: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Train a network and write its folder.

    A `unified` network learns from pairs, and reads the text in the other three ways. Another one learns from pairs to
    read the source before a translation; where there is a text, too, every second batch is of that.

    With a model to start from and `resume` that model gives the size only: the weights are those of the saved state.

    With `recipe.steps == 0` the network is written as it was initialised; then a text is needed only where a tokenizer
    has to be trained.

    Raises:
        UserError: files are missing or do not fit together; `out` holds a training that `resume` does not continue.
    """
    shape = replace(shape, source=sources.pairs is not None and NETWORKS[shape.kind].source)
    _check(shape, sources, recipe, out, resume)
    if machine.rank == 0:
        _prepare(shape, sources, recipe, out, resume, report)
    if machine.world > 1:
        torch.distributed.barrier()
    tokens = Tokenizer.load(out / "tokenizer.json")
    torch.manual_seed(recipe.seed)
    network = shape.network(tokens)
    if recipe.steps == 0:
        checkpoint.save(out, network, tokens)
        return
    held_out, seed = sources.held_out, recipe.seed
    window = network.config.sentences if shape.context else 2 if shape.order else 1
    corpus = Corpus(out / CORPUS, tokens, held_out, seed, window)
    translations = Corpus(out / PAIRS, tokens, held_out, seed) if sources.pairs else None
    objective = replace(recipe.objective, cloze=network.config.cloze)
    what = turns(shape.kind, tokens, corpus, translations, shape.context > 0, objective)
    what = [task for task in what if not shape.readings or task.name in shape.readings]
    if shape.source and sources.text is None:
        what = what[1:]
    if shape.order is not None:
        what.append(order_task(shape.order, what[0], network.config, tokens))
    curriculum = None
    if objective.hypernyms is not None:
        curriculum = HypernymClasses.read(Path(objective.hypernyms), tokens, corpus.token_counts)
        if machine.rank == 0:
            report(str(curriculum))
    trainer = Trainer(network, tokens, what, recipe, machine, out, curriculum)
    if resume:
        trainer.resume()
    if machine.rank == 0:
        parameters = sum(value.numel() for value in network.parameters())
        report(
            f"{shape.kind}: {parameters:,} parameters, {len(corpus):,} sentences of {corpus.training_tokens:,} tokens, "
            f"{machine.device} {str(machine.precision).removeprefix('torch.')}"
        )
    trainer.run(report)
    if machine.rank == 0:
        trainer.export()
        _write_card(out, shape, trainer, corpus, sources.files)
    if machine.world > 1:
        torch.distributed.destroy_process_group()


def _check(shape: Shape, sources: Sources, recipe: Recipe, out: Path, resume: bool) -> None:
    """See that there is something to train on, and a folder to write to."""
    if (out / STATE).exists() and not resume:
        raise UserError(f"{out / STATE}: a training was begun here; continue it with --resume, or remove the file")
    if resume and not (out / STATE).exists():
        raise UserError(f"--out {out}: there is nothing to resume; leave out --resume")
    if shape.init is not None:
        there = NetworkConfig.load(shape.init / "config.json").kind
        if NETWORKS[there].heads != NETWORKS[shape.kind].heads:
            raise UserError(f"--init {shape.init}: is of kind {there}, whose weights are no part of a {shape.kind}")
    able = tuple(dict.fromkeys(MIXTURE)) if NETWORKS[shape.kind].pairs else ()
    if wrong := [name for name in shape.readings if name not in able]:
        raise UserError(f"reading {wrong[0]}: a {shape.kind} network has {', '.join(able) or 'one reading only'}")
    if shape.order is not None and not NETWORKS[shape.kind].order:
        able = tuple(name for name in NETWORKS.names if NETWORKS[name].order)
        raise UserError(f"--sentence-order is for {', '.join(able)}; a {shape.kind} does not learn it")
    if shape.order is not None and (shape.context or shape.source):
        raise UserError("--sentence-order cannot be had with --context or --pairs")
    if shape.readings and sources.pairs is not None and not any(name in PAIRED for name in shape.readings):
        raise UserError(f"--reading {shape.readings[0]}: learns from single sentences; leave out --pairs")
    needs_pairs = any(name in PAIRED for name in shape.readings or able)
    if sources.pairs is None and needs_pairs and recipe.steps != 0:
        raise UserError(f"a {shape.kind} network learns from translations, too; give --pairs SOURCE TARGET")
    if sources.main is None and recipe.steps != 0:
        raise UserError("no text to train on; give --text FILE")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made ({error.strerror or error})") from None


def _prepare(
    shape: Shape, sources: Sources, recipe: Recipe, out: Path, resume: bool, report: Callable[[str], None]
) -> None:
    """Write the tokenizer, the lexicon and the encoded text."""
    text = sources.main
    if not resume:
        _prepare_tokenizer(out, shape, sources, report)
        if text is not None:
            lexicon.write(text, Tokenizer.load(out / "tokenizer.json"), out)
    if recipe.steps == 0 or text is None:
        return
    tokens = Tokenizer.load(out / "tokenizer.json")
    positions = shape.sized(tokens).max_positions
    generator = recipe.objective.generator
    if generator is not None:
        own = NetworkConfig.load(Path(generator) / "config.json").max_positions
        if own < positions:
            raise UserError(
                f"--generator {generator}: reads at most {own} tokens, the network that is trained {positions}; give "
                f"--config FILE with max_positions {own}"
            )
    longest = positions - 2
    encode_corpus(text, tokens, out / CORPUS, longest)
    if sources.pairs is not None:
        count = encode_pairs(*sources.pairs, tokens, out / PAIRS, longest, shape.source)
        a_side = " a side" if shape.source else ""
        report(f"{count:,} pairs of at most {longest} tokens{a_side}, each in both directions")


def turns(
    kind: str,
    tokenizer: Tokenizer,
    text: Corpus,
    pairs: Corpus | None = None,
    context: bool = False,
    options: ObjectiveOptions = USUAL,
) -> list[Task]:
    """What a network of `kind` learns, batch by batch; `pairs` is for a kind that learns from them; without
    them its readings of single sentences are left."""
    made = resolve(NETWORKS[kind].objective)(tokenizer, options)
    if not NETWORKS[kind].pairs:
        found = [Task(kind, text, made)]
        if pairs is not None:
            found.append(Task("pairs", pairs, SourceObjective(made, tokenizer)))
        if context:
            found.append(Task("context", text.windows(), ContextObjective(made, tokenizer)))
        return found
    corpora = {name: pairs if name in PAIRED else text for name in MIXTURE}
    tasks = {name: Task(name, corpus, made[name]) for name, corpus in corpora.items() if corpus is not None}
    return [tasks[name] for name in MIXTURE if name in tasks]


def _prepare_tokenizer(out: Path, shape: Shape, sources: Sources, report: Callable[[str], None]) -> None:
    if sources.tokenizer is not None and shape.init is not None:
        raise UserError("--tokenizer and --init exclude each other: a model's weights belong to its tokenizer")
    if sources.tokenizer is not None:
        found = Tokenizer.load(sources.tokenizer)
    elif shape.init is not None:
        found = Tokenizer.load(shape.init / "tokenizer.json")
    elif sources.files:
        size = sources.vocabulary_size or _named_or_file(shape.config).vocab_size
        units = {"wordpiece": "WordPieces"}.get(sources.vocabulary, sources.vocabulary)
        report(f"training a tokenizer of {size:,} {units} on {', '.join(map(str, sources.files))}")
        lines = chain.from_iterable(map(read_lines, sources.files))
        found = VOCABULARIES[sources.vocabulary](lines, size, sources.normalisation)
        if found.vocab_size < size:
            report(f"the text gives {found.vocab_size:,} {units} only")
    else:
        raise UserError("no tokenizer; give --text FILE to train one on, or --tokenizer FILE")
    found.save(out / "tokenizer.json")


def _named_or_file(config: str) -> NetworkConfig:
    if config in NAMED:
        return NAMED[config]
    if not Path(config).is_file():
        raise UserError(f"--config {config}: neither a file nor one of {', '.join(NAMED)}")
    return NetworkConfig.load(Path(config))


def _write_card(out: Path, shape: Shape, trainer: Trainer, corpus: Corpus, texts: Sequence[Path]) -> None:
    progress, recipe, kind, init = trainer.progress, trainer.recipe, shape.kind, shape.init
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
    accuracies = [
        f"| validation accuracy of sentence order, {name} | {100 * value:.1f} %, on held-out pairs of lines |"
        for name, value in progress.accuracies.items()
    ]
    measured = "\n".join([*perplexities, *accuracies])
    replaced = f"| replacements | {_in_a_table(trainer.replacements)} |\n" if trainer.replacements else ""
    card = f"""---
kind: {kind}
trained_on: {names}
recommended_weight: 0.3
---

# {kind}

| | |
| --- | --- |
{base}| text | {names} |
{replaced}| training data | {len(corpus):,} sentences, {corpus.training_tokens:,} tokens |
| steps | {progress.step:,} of at most {recipe.batch_tokens:,} tokens |
| tokens seen | {progress.tokens:,} |
{measured}
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""
    write_text(out / "README.md", card)


def _in_a_table(name: str) -> str:
    """A file's name as a cell: on one line, without the mark between cells."""
    return " ".join(name.split()).replace("|", "\\|")
