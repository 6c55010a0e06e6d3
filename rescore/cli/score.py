"""`rescore score`: LM scores, of N-best lists as columns, or of plain text as perplexity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand
from rescore.config import RunConfig
from rescore.metrics.normalise import WordList
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.lms import LanguageModel, Question, TokenScores
    from rescore.nbest import NbestList


@dataclass(frozen=True, kw_only=True)
class ListedWords(Declared):
    title = options.EXPANSION

    words: WordList | None = option(
        None,
        "Your own words, such as names: their number becomes the column listed. With --respell they are kept and "
        "proposed as replacements.",
        metavar="FILE",
        read=WordList.load,
    )


@click.command("score", cls=GroupedCommand)
@click.argument("nbest", nargs=-1, metavar="[NBEST]...")
@click.option(
    "--text", metavar="FILE", help="Score plain text instead of lists, one sentence per line (.gz, .xz; - is stdin)."
)
@click.option(
    "--accuracy",
    is_flag=True,
    help="With --text: also print how often the most probable token of a network is the token of the text.",
)
@click.option("--tokens", metavar="FILE", help="Write the log-probability of each token as JSON Lines (also .gz).")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the lists with the new columns; with --text, the figures as JSON.  [default: lists go to stdout]",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="stop: end at the first error. skip: report and leave out unreadable lines and, with --engine ray, lists "
    "whose scoring fails.",
)
@click.option(
    "--count-tokens/--no-count-tokens",
    default=None,
    help="Add the column tokens: the number of tokens of each hypothesis.  [default: yes if a model gives "
    "pseudo-log-likelihoods]",
)
@options.takes(
    lms=options.LanguageModelOptions,
    config=options.config(options.MODELS, options.EXPANSION),
    listed=ListedWords,
    inputs=options.InputOptions,
)
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    text: str | None,
    accuracy: bool,
    tokens: str | None,
    output: str | None,
    on_error: str,
    count_tokens: bool | None,
    config: RunConfig,
    listed: ListedWords,
    inputs: options.InputOptions,
) -> None:
    """Add columns of LM scores (natural log) to N-best lists, or print the perplexity of plain text.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl.gz
    rescore score --text test.txt --lm tta --lm ngram:lm.arpa

    A column has the name of its model: tta for sums over tokens, tta.mean for means; --ilm adds the column ilm. JSON
    Lines are scored as a stream.
    """
    from rescore import formats, pipeline
    from rescore.metrics import MetricOptions

    if bool(nbest) == bool(text):
        raise click.UsageError("give either N-best lists or --text FILE")
    if not (lms.lm or lms.ilm):
        raise click.UsageError("give --lm KIND[:PATH]; `rescore score --help-all` lists the kinds of models")
    if accuracy and not text:
        raise click.UsageError("--accuracy needs --text FILE")
    if text and (config.respell or config.recombine or config.propose):
        raise click.UsageError("--text is scored as it is; --respell, --recombine and --propose are for lists")
    if tokens == "-" and (output or "-") == "-":
        raise click.UsageError("--tokens and the result cannot both go to stdout")
    with formats.opened(tokens) if tokens else nullcontext() as file:
        if text:
            _score_text(text, lms, output, file, inputs.strict, accuracy)
            return
        measuring = MetricOptions(words=listed.words)
        config = options.configured(config, lms, measuring=measuring, count_tokens=count_tokens)
        head, lists = pipeline.first_lists(inputs.iterate(nbest, skip=on_error == "skip"), lambda: True)
        plan = pipeline.resolve(config, head, load=lambda: lms.load(skip=on_error == "skip"), measures=False)
        number = None if config.expands else inputs.count(nbest)
        total = None if number is None else number * len(plan.models)
        lists = pipeline.expand(plan, lists)
        with options.progress_bar(total, f"score {', '.join(model.name for model in plan.models)}") as bar:
            if lms.engine != "local" and output and output != "-" and not tokens:
                pipeline.score_in_parts(plan, lists, output, bar.update)
                return
            on_scores = partial(_write_scores, file) if file else None
            scored = pipeline.score(plan, lists, bar.update, on_scores, formats.input_waits)
            formats.write(scored, output or "-")


def _write_scores(file: IO[str], model: LanguageModel, nbest: NbestList, scores: Sequence[TokenScores]) -> None:
    """The tokens of each hypothesis of a list."""
    from rescore.engines.local import NOT_SCORED

    for rank, (hypothesis, token_scores) in enumerate(zip(nbest.hypotheses, scores, strict=True), 1):
        if token_scores is NOT_SCORED:
            continue
        _write_tokens(file, {"id": nbest.id, "hyp": rank}, model, hypothesis.text, token_scores)


def _write_tokens(
    file: IO[str], place: dict[str, str | int], model: LanguageModel, text: str, scores: TokenScores
) -> None:
    entry = {**place, "lm": model.name, "text": text, "tokens": scores.tokens, "log_probs": scores.log_probs.tolist()}
    if scores.unknown:
        entry["unknown"] = list(scores.unknown)
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
    from rescore.lms import capabilities_of
    from rescore.lms.context import ask, in_place
    from rescore.reports import perplexity
    from rescore.reports.perplexity import documents, text_score

    warnings = InputWarnings(strict)
    lines = documents(read_lines(Path(text), empty=True, warnings=warnings))
    sentences = [line.hypotheses[0].text for line in lines]
    warnings.report()
    if not sentences:
        raise UserError(f"{text}: no text in it")
    models = lms.load()
    for model in models:
        if capabilities_of(model).selection is not None:
            raise UserError(f"--lm {model.name}: top=N is about lists; leave it out for --text FILE")
    text_scores = []
    for model in models:
        scores = []
        placed = zip(in_place([model], lines), sentences, strict=True)
        asked = [question for line, sentence in placed for question in ask(model, line, [sentence])]
        with options.progress_bar(len(sentences), f"score {model.name}") as bar:
            for start in range(0, len(sentences), 1000):
                scores += model.score(asked[start : start + 1000])
                bar.update(len(scores) - start)
        if tokens:
            for line, (sentence, token_scores) in enumerate(zip(sentences, scores, strict=True), 1):
                _write_tokens(tokens, {"line": line}, model, sentence, token_scores)
        text_scores.append(text_score(model, sentences, scores, _right(model, asked) if accuracy else None))
    if output:
        with formats.opened(output) as file:
            perplexity.write(text_scores, file)
    if output != "-":
        click.echo(perplexity.render(text_scores))


def _right(model: LanguageModel, questions: list[Question]) -> int:
    """How many of all tokens are the model's most probable ones."""
    from rescore.lms.neural.passes import right_tokens

    parts = (questions[start : start + 1000] for start in range(0, len(questions), 1000))
    return sum(int(right.sum()) for part in parts for right in right_tokens(model, part))
