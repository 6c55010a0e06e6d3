"""`rescore score`: LM scores, of N-best lists as columns, or of plain text as perplexity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain, islice
from typing import IO, TYPE_CHECKING

import click

from rescore.cli import options

if TYPE_CHECKING:
    from rescore.engines import OnProgress
    from rescore.nbest import NbestList
    from rescore.scoring import LanguageModel, TokenScores


@click.command("score")
@click.argument("nbest", nargs=-1, metavar="[NBEST]...")
@options.lm_options
@click.option("--text", metavar="FILE", help="Score plain text instead, a sentence a line (.gz, .xz; - is stdin).")
@click.option("--tokens", metavar="FILE", help="Write each token's log-probability as JSON Lines (also .gz).")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Lists with the new columns; with --text the figures as JSON.  [default: lists go to stdout]",
)
@click.option("--count-tokens", is_flag=True, help="Add a column with the number of the first model's tokens.")
@options.norm_option
@options.input_options
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    text: str | None,
    tokens: str | None,
    output: str | None,
    count_tokens: bool,
    lm_norm: str | None,
    inputs: options.InputOptions,
) -> None:
    """Add columns of LM scores (natural log) to N-best lists, or tell the perplexity of plain text.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl.gz
    rescore score --text test.txt --lm tta --lm ngram:lm.arpa

    Columns are called after the model: tta (sums over tokens) or tta.mean. JSON Lines are scored as a stream.
    """
    from rescore import formats
    from rescore.experiment.run import choose_norm

    if bool(nbest) == bool(text):
        raise click.UsageError("give either N-best lists or --text FILE")
    if tokens == "-" and (output or "-") == "-":
        raise click.UsageError("--tokens and the result cannot both go to stdout")
    with formats.opened(tokens) if tokens else nullcontext() as file:
        if text:
            _score_text(text, lms, output, file)
            return
        lists = inputs.iterate(nbest)
        head = list(islice(lists, 1))
        norm = choose_norm(lm_norm, head)
        models = lms.load()
        number = inputs.count(nbest)
        total = None if number is None else number * len(models)
        with options.progress_bar(total, f"score {', '.join(model.name for model in models)}") as bar:
            scored: Iterable[NbestList] = chain(head, lists)
            for rank, model in enumerate(models):
                scored = _with_column(model, scored, norm, bar.update, file, count_tokens and rank == 0)
            formats.write(scored, output or "-")


def _with_column(
    model: LanguageModel,
    lists: Iterable[NbestList],
    norm: str,
    progress: OnProgress,
    tokens: IO[str] | None,
    count_tokens: bool,
) -> Iterator[NbestList]:
    from rescore.engines import ColumnAdder, score_lists

    with_column = ColumnAdder(model, norm, count_tokens)
    for nbest, scores in score_lists(model, lists, progress):
        if tokens:
            for rank, (hypothesis, found) in enumerate(zip(nbest.hypotheses, scores, strict=True), 1):
                _write_tokens(tokens, {"id": nbest.id, "hyp": rank}, model, hypothesis.text, found)
        yield with_column(nbest, scores)


def _write_tokens(
    file: IO[str], place: dict[str, str | int], model: LanguageModel, text: str, found: TokenScores
) -> None:
    entry = {**place, "lm": model.name, "text": text, "tokens": found.tokens, "log_probs": found.log_probs.tolist()}
    if found.unknown:
        entry["unknown"] = list(found.unknown)
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _score_text(text: str, lms: options.LanguageModelOptions, output: str | None, tokens: IO[str] | None) -> None:
    from pathlib import Path

    from rescore import formats
    from rescore.errors import UserError
    from rescore.evaluation.perplexity import text_score
    from rescore.files import read_lines
    from rescore.reporting import perplexity

    sentences = list(read_lines(Path(text)))
    if not sentences:
        raise UserError(f"{text}: no text in it")
    found = []
    for model in lms.load():
        scores = []
        with options.progress_bar(len(sentences), f"score {model.name}") as bar:
            for start in range(0, len(sentences), 1000):
                scores += model.score(sentences[start : start + 1000])
                bar.update(len(scores) - start)
        if tokens:
            for line, (sentence, one) in enumerate(zip(sentences, scores, strict=True), 1):
                _write_tokens(tokens, {"line": line}, model, sentence, one)
        found.append(text_score(model, sentences, scores))
    if output:
        with formats.opened(output) as file:
            perplexity.write(found, file)
    if output != "-":
        click.echo(perplexity.render(found))
