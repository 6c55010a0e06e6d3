"""`rescore score`: LM scores, of N-best lists as columns, or of plain text as perplexity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand

if TYPE_CHECKING:
    from rescore.engines import OnProgress
    from rescore.engines.shards import Shards
    from rescore.lms import LanguageModel, Question, TokenScores
    from rescore.lms.context import Placed


@click.command("score", cls=GroupedCommand)
@click.argument("nbest", nargs=-1, metavar="[NBEST]...")
@options.lm_options
@click.option("--text", metavar="FILE", help="Score plain text instead, one sentence per line (.gz, .xz; - is stdin).")
@click.option(
    "--accuracy", is_flag=True, help="With --text: also print how often a network's most probable token is the text's."
)
@click.option("--tokens", metavar="FILE", help="Write each token's log-probability as JSON Lines (also .gz).")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Lists with the new columns; with --text the figures as JSON.  [default: lists go to stdout]",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="skip: report and leave out a line that cannot be read, or (--engine ray) lists whose scoring fails.",
)
@click.option(
    "--count-tokens/--no-count-tokens",
    default=None,
    help="Add a column with the number of a model's tokens.  [default: of the first one of pseudo-log-likelihoods]",
)
@click.option(
    "--words", metavar="FILE", help="With --respell: your own words, such as names: known, and used as replacements."
)
@options.norm_option
@options.expansion_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    text: str | None,
    accuracy: bool,
    tokens: str | None,
    output: str | None,
    on_error: str,
    count_tokens: bool | None,
    words: str | None,
    lm_norm: str | None,
    expansion: options.ExpansionOptions,
    inputs: options.InputOptions,
) -> None:
    """Add columns of LM scores (natural log) to N-best lists, or print the perplexity of plain text.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl.gz
    rescore score --text test.txt --lm tta --lm ngram:lm.arpa

    Columns are called after the model: tta (sums over tokens) or tta.mean. JSON Lines are scored as a stream.
    """
    from rescore import formats, pipeline
    from rescore.engines import windows
    from rescore.engines.shards import Shards
    from rescore.lms.context import in_place
    from rescore.metrics import MetricOptions
    from rescore.metrics.normalise import WordList

    if bool(nbest) == bool(text):
        raise click.UsageError("give either N-best lists or --text FILE")
    if accuracy and not text:
        raise click.UsageError("--accuracy is for --text FILE")
    if tokens == "-" and (output or "-") == "-":
        raise click.UsageError("--tokens and the result cannot both go to stdout")
    with formats.opened(tokens) if tokens else nullcontext() as file:
        if text:
            _score_text(text, lms, output, file, inputs.strict, accuracy)
            return
        if words and not expansion.respell:
            raise click.UsageError("--words is for --respell N")
        measuring = MetricOptions(words=WordList.load(Path(words)) if words else None)
        config = options.run_config(
            expansion, measuring=measuring, lms=tuple(lms.specs), norm=lm_norm, count_tokens=count_tokens
        )
        lists = pipeline.expand(inputs.iterate(nbest, skip=on_error == "skip"), config)
        head = list(islice(lists, 1))
        config = config.for_lists(head)
        norm = str(config.norm)
        models = pipeline.models_for(config, lambda: lms.load(skip=on_error == "skip"), head)
        counted = config.counted(models, head)
        number = None if config.recombine or config.respell else inputs.count(nbest)
        total = None if number is None else number * len(models)
        with options.progress_bar(total, f"score {', '.join(model.name for model in models)}") as bar:
            parts = windows(in_place(models, chain(head, lists)))
            shards = None
            if lms.engine != "local" and output and output != "-" and not tokens:
                made_by = [f"{model.name} {model.fingerprint} {model.precision}" for model in models]
                shards = Shards(output, [*made_by, norm, counted.name if counted else "none"])
                todo: list[Path] = []
                parts = _missing(parts, shards, todo, bar.update)
            for model in models:
                parts = _with_column(model, parts, norm, bar.update, file, model is counted)
            if shards is None:
                formats.write((placed.nbest for part in parts for placed in part), output or "-")
                return
            for part in parts:
                formats.write((placed.nbest for placed in part), str(todo.pop(0)))
            shards.join()


def _missing(
    parts: Iterable[list[Placed]], shards: Shards, todo: list[Path], progress: OnProgress
) -> Iterator[list[Placed]]:
    """The windows whose shards are not there yet; where these are to be written is put into `todo`."""
    for window in parts:
        path = shards.add(window)
        if path is None:
            progress(sum(len(placed.nbest.hypotheses) for placed in window))
        else:
            todo.append(path)
            yield window


def _with_column(
    model: LanguageModel,
    parts: Iterable[list[Placed]],
    norm: str,
    progress: OnProgress,
    tokens: IO[str] | None,
    count_tokens: bool,
) -> Iterator[list[Placed]]:
    """Windows of lists with one more column."""
    from rescore.engines import ColumnAdder, score_windows

    with_column = ColumnAdder(model, norm, count_tokens)
    for window in score_windows(model, parts, progress):
        if tokens:
            for placed, scores in window:
                for rank, (hypothesis, found) in enumerate(zip(placed.nbest.hypotheses, scores, strict=True), 1):
                    _write_tokens(tokens, {"id": placed.nbest.id, "hyp": rank}, model, hypothesis.text, found)
        yield [replace(placed, nbest=with_column(placed.nbest, scores)) for placed, scores in window]


def _write_tokens(
    file: IO[str], place: dict[str, str | int], model: LanguageModel, text: str, found: TokenScores
) -> None:
    entry = {**place, "lm": model.name, "text": text, "tokens": found.tokens, "log_probs": found.log_probs.tolist()}
    if found.unknown:
        entry["unknown"] = list(found.unknown)
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _score_text(
    text: str,
    lms: options.LanguageModelOptions,
    output: str | None,
    tokens: IO[str] | None,
    strict: bool,
    accuracy: bool,
) -> None:
    from rescore import formats
    from rescore.errors import UserError
    from rescore.formats.source import InputWarnings, read_lines
    from rescore.lms.context import ask, in_place
    from rescore.reports import perplexity
    from rescore.reports.perplexity import documents, text_score

    warnings = InputWarnings(strict)
    lines = documents(read_lines(Path(text), empty=True, warnings=warnings))
    sentences = [line.hypotheses[0].text for line in lines]
    warnings.report()
    if not sentences:
        raise UserError(f"{text}: no text in it")
    found = []
    for model in lms.load():
        scores = []
        placed = zip(in_place([model], lines), sentences, strict=True)
        asked = [question for line, sentence in placed for question in ask(model, line, [sentence])]
        with options.progress_bar(len(sentences), f"score {model.name}") as bar:
            for start in range(0, len(sentences), 1000):
                scores += model.score(asked[start : start + 1000])
                bar.update(len(scores) - start)
        if tokens:
            for line, (sentence, one) in enumerate(zip(sentences, scores, strict=True), 1):
                _write_tokens(tokens, {"line": line}, model, sentence, one)
        found.append(text_score(model, sentences, scores, _right(model, asked) if accuracy else None))
    if output:
        with formats.opened(output) as file:
            perplexity.write(found, file)
    if output != "-":
        click.echo(perplexity.render(found))


def _right(model: LanguageModel, questions: list[Question]) -> int:
    """How many of all tokens are the model's most probable ones."""
    from rescore.lms.neural.passes import right_tokens

    some = (questions[start : start + 1000] for start in range(0, len(questions), 1000))
    return sum(int(right.sum()) for part in some for right in right_tokens(model, part))
