"""The command line: finds the command, imports only that, and prints errors in one
line.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import os
import platform
import signal
import sys
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

import click

from rescore.errors import OptionError, UserError, shortened
from rescore.parts import Registry
from rescore.version import VERSION

COMMANDS: Registry[click.Command] = Registry(
    "command",
    {
        "run": (
            "rescore.cli.run:command",
            "Score, tune on --dev, rerank and report (the default command).",
        ),
        "score": (
            "rescore.cli.score:command",
            "Add LM scores to N-best lists, or print the perplexity of text.",
        ),
        "tune": (
            "rescore.cli.tune:command",
            "Tune the weights on dev lists with references.",
        ),
        "rerank": (
            "rescore.cli.rerank:command",
            "Apply weights; write reranked lists or 1-best texts.",
        ),
        "correct": (
            "rescore.asr.commands.correct:command",
            "Replace misheard words by the terms of a list.",
        ),
        "confidence": (
            "rescore.asr.commands.confidence:command",
            "Write the confidence of each word, calibrated on dev lists.",
        ),
        "eval": (
            "rescore.cli.eval:command",
            "Measure WER, CER or BLEU of outputs, with p-values.",
        ),
        "analyse": (
            "rescore.cli.analyse:command",
            "Show what reranking corrected and broke, and what to do next.",
        ),
        "compare": (
            "rescore.cli.compare:command",
            "Compare language models on the same lists.",
        ),
        "report": (
            "rescore.cli.report:report_command",
            "Make one table from several results files.",
        ),
        "check": (
            "rescore.cli.report:check_command",
            "Compare results with a golden file; exit 1 if they are worse.",
        ),
        "serve": (
            "rescore.service.command:command",
            "Run an HTTP service that reranks lists.",
        ),
        "combine": (
            "rescore.asr.commands.combine:command",
            "Combine outputs of several systems into lists on which they vote.",
        ),
        "convert": (
            "rescore.cli.convert:command",
            "Convert N-best lists to another format.",
        ),
        "recipe": (
            "rescore.cli.setup:recipe_command",
            "Print the path of a Makefile fragment to include in recipes.",
        ),
        "train": (
            "rescore.cli.train:command",
            "Train a language model on text or translations.",
        ),
        "embed": (
            "rescore.research.commands:embed_command",
            "Write the vectors of sentences or tokens.",
        ),
        "similarity": (
            "rescore.research.commands:similarity_command",
            "Correlate sentence vectors with human similarity scores.",
        ),
        "accuracy": (
            "rescore.research.report_commands:accuracy_command",
            "Measure how many tokens of a text language models predict.",
        ),
        "errors": (
            "rescore.research.report_commands:errors_command",
            "Show word errors by position in the sentence and by length.",
        ),
        "bench": (
            "rescore.research.report_commands:bench_command",
            "Measure the run time of language models by sentence length.",
        ),
        "correlate": (
            "rescore.research.report_commands:correlate_command",
            "Correlate perplexity with word error rates.",
        ),
        "frequencies": (
            "rescore.research.report_commands:frequencies_command",
            "Show perplexity by the frequency of words.",
        ),
        "probe": (
            "rescore.research.commands:probe_command",
            "Train a linear classifier on vectors and print its accuracy.",
        ),
        "models": (
            "rescore.cli.setup:models_command",
            "List the shipped models, or print the card of a model.",
        ),
        "init": (
            "rescore.cli.setup:init_command",
            "Write a Makefile for the lists in a folder.",
        ),
    },
    "rescore.commands",
)
"""The commands: where each is, and what it does. `rescore --help` shows this table and
imports no command.
"""


PAPERS = "Measurements of papers"
"""Title of the commands of the research wing in the help."""


class Commands(click.Group):
    """Commands are imported when they are used; without a command name it is `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands.

        Args:
            ctx: The context of the program.
        """
        return COMMANDS.names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is no such command.

        Args:
            ctx: The context of the program.
            cmd_name: The name of the command.
        """
        if cmd_name not in COMMANDS:
            return None
        return COMMANDS[cmd_name]

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands with what they do; no command is imported.

        Args:
            ctx: The context of the program.
            formatter: Gets the text.
        """
        sections: dict[str, list[tuple[str, str]]] = {"Commands": [], PAPERS: []}
        for name in COMMANDS:
            of_papers = COMMANDS.target(name).startswith("rescore.research.")
            title = PAPERS if of_papers else "Commands"
            sections[title].append((name, COMMANDS.about(name)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line, which may begin with lists in the place of a command.

        Args:
            ctx: The context of the program.
            args: The words of the command line.
        """
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(2)
        args = _command_first(args)
        if args and args[0] not in ("--help", "-h", "--version"):
            args = [*_with_command(args[0], ctx.resilient_parsing), *args[1:]]
        return super().parse_args(ctx, args)


LOGGING = {"-q", "--quiet", "-v", "--verbose"}
"""Options of all commands that may stand before the command."""


def _command_first(args: list[str]) -> list[str]:
    """Return a command line with its command before the options of `LOGGING`, such as
    `eval -q x` for `-q eval x`; without a command the line as it is.

    Args:
        args: The words of the command line.
    """
    before = list(takewhile(LOGGING.__contains__, args))
    rest = args[len(before) :]
    if before and rest and rest[0].lower() in COMMANDS.shipped:
        return [rest[0], *before, *rest[1:]]
    return args


def _with_command(word: str, completing: bool) -> list[str]:
    """Return the first word of a command line with its command, which is `run` where
    the word names none.

    Commands of other packages are looked up only for a word that could be one.

    Args:
        word: The word.
        completing: Whether a shell asks what may follow the word.

    Raises:
        UsageError: The word looks like a command, and is neither that nor a path.
    """
    if word.lower() in COMMANDS.shipped:
        return [word.lower()]
    name_like = word.replace("-", "").isalpha() and not word.startswith("-")
    if not name_like or Path(word).exists():
        return ["run", word]
    command = COMMANDS.known(word)
    if command:
        return [command]
    if completing or not word.isalpha():
        return ["run", word]
    near = difflib.get_close_matches(word.lower(), COMMANDS, 1)
    hint = f"commands are {', '.join(COMMANDS)}"
    if near:
        hint = f"did you mean {near[0]}?"
    raise click.UsageError(f"{word}: no such file or command; {hint}")


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Print the versions of rescore, Python and PyTorch, which is not imported."""
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version  # it takes a third of a start

        python = platform.python_version()
        click.echo(f"rescore {VERSION}, Python {python}, torch {version('torch')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version.",
)
def cli() -> None:
    """Rescore N-best lists of ASR and MT with language models.

    \b
    rescore test.json --lm tta --dev dev.json     tune on dev, rerank test, report
    rescore exp/decode_test --ref text --lm tta   an ESPnet2 decode folder
    rescore run --help-all                        all options of the main job
    """


class _ToStderr(logging.Handler):
    """Messages on what is stderr when they come, each text once in a command."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, if it was not written before.

        Args:
            record: The message.
        """
        said = self.format(record)
        if said in self.shown:
            return
        self.shown.add(said)
        if record.levelno >= logging.WARNING:
            said = styled(said, "yellow")
        with contextlib.ExitStack() as stack:
            # Progress bars go away for a message. Without tqdm there are none.
            if "tqdm" in sys.modules:
                bars = sys.modules["tqdm"].tqdm
                stack.enter_context(bars.external_write_mode(file=sys.stderr))
            click.echo(f"rescore: {said}", err=True)


def styled(text: str, colour: str) -> str:
    """Return a text in colour, unless NO_COLOR (no-color.org) is set. click drops the
    colour where the output is no terminal.

    Args:
        text: The text.
        colour: The name of the colour.
    """
    if os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)


SIGPIPE = 13
"""The number of the signal of a reader that went away; Windows has no name for it."""
COMPLETE = "_RESCORE_COMPLETE"
"""Environment variable in which a shell asks click for what may follow on a command
line.
"""


def main() -> None:
    """Run the command line.

    Exit status: 0 fine, 1 a check failed, 2 bad usage or input, in one line on stderr.
    """
    _prepare_streams()
    _prepare_messages()
    _prepare_signals()
    try:
        status = _run()
    except click.exceptions.Exit as end:
        status = end.exit_code
    except UserError as error:
        hint = " (see --help)" if isinstance(error, OptionError) else ""
        _fail(f"{error}{hint}")
    except click.ClickException as error:
        _fail(f"{error.format_message()} (see --help)")
    except KeyboardInterrupt:
        _interrupted(signal.SIGINT)
    except SystemExit:
        # not by its code: Ray replaces the exit of a signal with an exit of its own
        if RECEIVED:
            _interrupted(RECEIVED[0])
        raise
    except UnicodeError as error:
        _fail(_about_bytes(error))
    except MemoryError:
        _fail("out of memory; give fewer or smaller lists, or a smaller --batch-tokens")
    except OSError as error:
        _fail_at(error)
    if not isinstance(status, int):
        status = 0
    sys.exit(status)


def _prepare_streams() -> None:
    """Make stdin, stdout and stderr streams of UTF-8."""
    # the next file that is opened would get what is printed
    if sys.stdout is None:
        _fail("<stdout>: is closed")
    if sys.stderr is None:
        _fail("<stderr>: is closed")
    # Outputs may name files whose names are not UTF-8.
    on_error = {sys.stdin: "strict", sys.stdout: "replace"}
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            errors = on_error.get(stream, "backslashreplace")
            stream.reconfigure(encoding="utf-8", errors=errors)


def _prepare_messages() -> None:
    """Send the messages of the package to stderr."""
    log = logging.getLogger("rescore")
    others = [handler for handler in log.handlers if not isinstance(handler, _ToStderr)]
    log.handlers = [*others, _ToStderr()]
    log.setLevel(logging.INFO)


def _prepare_signals() -> None:
    """Let the signals that end programs end this program as exceptions do, unless they
    are ignored, as behind nohup.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _run() -> object:
    """Run the command, or answer a shell that asks what may follow; return the exit
    status, or None.
    """
    shell = os.environ.get(COMPLETE)
    if shell:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "rescore", COMPLETE, shell)
    with cli.make_context("rescore", sys.argv[1:]) as context:
        status = cli.invoke(context)
    sys.stdout.flush()
    return status


def _about_bytes(error: UnicodeError) -> str:
    """Return what to do about bytes that are not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"<stdin>: not UTF-8 (byte 0x{byte:02x}); convert it with iconv"
    if isinstance(error, UnicodeEncodeError):
        near = error.object[max(0, error.start - 40) : error.end + 40]
        return f"{near!a}: a name that is not UTF-8; rename the file"
    raise error


def _fail_at(error: OSError) -> NoReturn:
    """End with the message of the system, as of a full disk: a traceback would explain
    nothing.
    """
    # Python would write the rest of the output when it ends, and fail again
    sys.stdout = None
    if isinstance(error, BrokenPipeError):  # the reader (head, less) went away
        sys.exit(128 + SIGPIPE)
    message = str(error.strerror or error)
    if error.filename:
        message = f"{error.filename}: {message}"
    _fail(message)


def _end(number: int, frame: object) -> None:
    """End the program at a signal as an exception, so that scores are stored and
    half-written files are removed.

    A job scheduler sends SIGINT and then SIGTERM: signals after the first are ignored.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    RECEIVED.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


RECEIVED: list[int] = []
"""The signal that ends the program."""


def _interrupted(number: int) -> NoReturn:
    """End with the status of a signal."""
    click.echo("rescore: interrupted", err=True)
    sys.exit(128 + number)


def _fail(message: str) -> NoReturn:
    click.echo(f"rescore: {styled('error:', 'red')} {shortened(message)}", err=True)
    sys.exit(2)
