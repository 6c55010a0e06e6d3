"""`rescore score`: LM scores, of N-best lists as columns, or of plain text as
perplexity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from rescore import formats, pipeline
from rescore.cli import options
from rescore.config import RunConfig
from rescore.errors import OptionError, UserError
from rescore.file_options import check_form, of_form
from rescore.files import is_replaced
from rescore.formats.sentences import read_sentences
from rescore.formats.source import InputWarnings
from rescore.lms import ComputeOptions, LanguageModel, TokenScores
from rescore.nbest import NbestList
from rescore.options import Declared, option, read_file, written_file
from rescore.reports import perplexity
from rescore.reports.markup import write_json


@dataclass(frozen=True, kw_only=True)
class Scoring(Declared):
    """What is scored, and where the scores go."""

    common = True

    nbest: tuple[str, ...] = option(
        (), metavar="[NBEST]...", argument=True, reads=True, lists=True
    )

    text: str | None = read_file(
        None,
        "Score plain text instead of lists, one sentence per line (.gz, .xz; - is"
        " stdin).",
        reads_only=(
            "tokens",
            "output",
            "strict",
            "lm",
            *(entry.name for entry in ComputeOptions.declared()),
            "cache",
            "engine",
            "workers",
        ),
    )
    tokens: str | None = written_file(
        None,
        "Write the log-probability of each token as JSON Lines (also .gz).",
        may_write=of_form(".jsonl", ".json"),
    )
    output: str | None = written_file(
        None,
        "Write the lists with the new columns; with --text, the figures as JSON. "
        " [default: lists go to stdout]",
        "-o",
        "--output",
    )
    count_tokens: bool | None = option(
        None,
        "Add the column tokens: the number of tokens of each hypothesis.  [default: yes"
        " if a model gives pseudo-log-likelihoods]",
        "--count-tokens/--no-count-tokens",
    )

    def check(self, lms: options.LanguageModelOptions) -> None:
        """Refuse options that contradict each other.

        Args:
            lms: The language models.

        Raises:
            OptionError: There are such options, or no model.
            UserError: The ending of the figures of a text names another form.
        """
        if not (self.nbest or self.text):
            raise OptionError("give either N-best lists or --text FILE")
        if not lms.lm:
            raise OptionError(
                "give --lm KIND[:PATH]; `rescore score --help-all` lists the kinds of"
                " models"
            )
        if self.tokens == "-" and (self.output or "-") == "-":
            raise OptionError("--tokens and the result cannot both go to stdout")
        if self.text and self.output:
            check_form(self.output, (".json",))


@options.command("score", config=options.config("score"), inputs=options.REWRITTEN)
def command(
    own: Scoring,
    lms: options.LanguageModelOptions,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Add columns of LM scores (natural log) to N-best lists, or print the perplexity
    of plain text.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl.gz
    rescore score --text test.txt --lm tta --lm ngram:lm.arpa

    A column has the name of its model, such as tta. With --lm-norm mean the scores are
    means over tokens, and the column is called tta.mean. JSON Lines are scored as a
    stream.
    """
    own.check(lms)
    with ExitStack() as stack:
        file = None
        if own.tokens:
            file = stack.enter_context(formats.opened(own.tokens))
        if own.text:
            with options.advice_on_cache(lms.cache):
                _score_text(own, lms, file, inputs.strict)
            return
        every = formats.checked_lists(inputs.iterate(own.nbest), own.output or "-")
        head, lists = pipeline.first_lists(every, most=1)
        plan = pipeline.resolve(config, head, load=lms.load, measures=False)
        lists = pipeline.expand(plan, lists)
        names = ", ".join(model.name for model in plan.models)
        to_file = own.output and is_replaced(own.output)
        with options.progress_bar(None, f"score {names}") as bar:
            if to_file and not own.tokens:
                pipeline.score_in_parts(plan, lists, str(own.output), bar.update)
                return
            on_scores = None
            if file:
                on_scores = partial(_write_scores, file)
            scored = pipeline.score(plan, lists, bar.update, on_scores)
            with options.advice_on_cache(lms.cache):
                formats.write(scored, own.output or "-")


def _write_scores(
    file: IO[str], model: LanguageModel, nbest: NbestList, scores: Sequence[TokenScores]
) -> None:
    """Write the tokens of each hypothesis of a list."""
    pairs = zip(nbest.hypotheses, scores, strict=True)
    for rank, (hypothesis, token_scores) in enumerate(pairs, 1):
        place: dict[str, str | int] = {"id": nbest.id, "hyp": rank}
        _write_tokens(file, place, model, hypothesis.text, token_scores)


def _write_tokens(
    file: IO[str],
    place: dict[str, str | int],
    model: LanguageModel,
    text: str,
    scores: TokenScores,
) -> None:
    """Write the tokens of a text as a line of JSON; log-probabilities are natural."""
    entry = {
        **place,
        "lm": model.name,
        "text": text,
        "tokens": scores.tokens,
        "log_probs": scores.log_probs.tolist(),
    }
    if scores.unknown:
        entry["unknown"] = list(scores.unknown)
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _score_text(
    own: Scoring,
    lms: options.LanguageModelOptions,
    tokens: IO[str] | None,
    strict: bool,
) -> None:
    """Measure models on plain text, and write the figures.

    Raises:
        UserError: There is no text, or a model cannot be loaded.
    """
    assert own.text is not None
    warnings = InputWarnings(strict)
    lines = perplexity.documents(
        read_sentences(Path(own.text), empty=True, warnings=warnings)
    )
    warnings.report()
    if not lines:
        raise UserError(f"{own.text}: no text in it")
    text_scores = []
    for model in lms.load():
        with options.progress_bar(len(lines), f"score {model.name}") as bar:
            text_score, scores = perplexity.measure(model, lines, bar.update)
        text_scores.append(text_score)
        if not tokens:
            continue
        pairs = zip(lines, scores, strict=True)
        for number, (line, token_scores) in enumerate(pairs, 1):
            text = line.hypotheses[0].text
            _write_tokens(tokens, {"line": number}, model, text, token_scores)
    if own.output:
        write_json(text_scores, own.output)
    if own.output != "-":
        options.show(perplexity.render(text_scores))
