"""`rescore init`, `recipe`, `completion` and `models`: what prepares the work."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import click

from rescore.cli.options.base import GroupedCommand

DEV = ("dev", "valid")
"""What the names of dev lists have in them."""


@dataclass(frozen=True, slots=True)
class Found:
    """Lists in a folder, as a Makefile names them."""

    toolkit: str
    dev: str
    test: str
    certain: bool = True


@click.command("init", cls=GroupedCommand)
@click.argument("folder", default=".")
@click.option("--force", is_flag=True, help="Write over a Makefile that is there.")
def init_command(folder: str, force: bool) -> None:
    """Write a Makefile that rescores what a toolkit left in a folder, and say what to do next.

    \b
    cd egs2/librispeech/asr1 && rescore init && make

    It looks for ESPnet2 and ESPnet1 decode folders, fairseq logs, NeMo beams and native lists; where there are none,
    the Makefile has lines to fill in.
    """
    from rescore.errors import UserError
    from rescore.files import write_text

    place = Path(folder)
    if not place.is_dir():
        raise UserError(f"{folder}: no such folder")
    target = place / "Makefile"
    if target.exists() and not force:
        raise UserError(f"{target}: is there already; write it elsewhere, or over it with --force")
    if target.is_symlink():
        raise UserError(f"{target}: is a link to {target.readlink()}, which would be written over; remove the link")
    found = look(place)
    measured = "MEASURE_OPTIONS := --metric bleu --metric chrf --metric ter\n" if found.toolkit == "fairseq" else ""
    write_text(
        target,
        f"# {found.toolkit}: dev lists to tune on, test lists to rescore, references with --ref if need be.\n"
        f"DEV  := {found.dev}\nTEST := {found.test}\n# LM := tta ngram:lm.arpa\n{measured}"
        "include $(shell rescore recipe)\n",
    )
    click.echo(f"{target}: {found.toolkit}, dev {found.dev}, test {found.test}")
    click.echo("next: make" if found.certain else f"next: fill in DEV and TEST in {target}, then make", nl=True)


def look(place: Path) -> Found:
    """What lists there are: of several, `dev` (or `valid`) in the name is dev, another one is test."""
    for toolkit, places in (
        ("ESPnet2", {path.parent for path in place.rglob("logdir")}),
        ("ESPnet1", {path.parent for path in place.rglob("data.json")}),
        ("fairseq", _fairseq(place)),
        ("NeMo", set(place.rglob("preds_out_width*.tsv"))),
        ("native lists", set(place.rglob("*.jsonl"))),
    ):
        names = sorted(str(path.relative_to(place)) for path in places if ".shards" not in str(path))
        if not names:
            continue
        dev = _choose(names, DEV)
        rest = [name for name in names if name != dev]
        test = _choose(rest, ("test", "eval")) or (rest[0] if rest else None)
        if dev and test:
            return Found(toolkit, _lists(place, dev, toolkit), _lists(place, test, toolkit))
        return Found(toolkit, "path/to/dev", _lists(place, dev or names[0], toolkit), certain=False)
    return Found("no lists found", "path/to/dev --ref path/to/dev/text", "path/to/test --ref path/to/test/text", False)


def _fairseq(place: Path) -> set[Path]:
    """Logs in the folder and in those inside; of a folder with the parts of one set, the folder."""
    from rescore import formats

    found = set()
    for folder in (place, *(path for path in place.iterdir() if path.is_dir()), *place.glob("*/*/")):
        logs = formats.fairseq_logs(folder)
        kinds = {_choose([log.name], DEV) is not None for log in logs}
        found |= {folder} if folder != place and len(logs) > 1 and len(kinds) == 1 else set(logs)
    return found


def _choose(names: Sequence[str], words: Sequence[str]) -> str | None:
    return next((name for word in words for name in names if word in name), None)


def _lists(place: Path, name: str, toolkit: str) -> str:
    """The lists' name, with --ref and the text of the data folder that a decode folder is named after, if any."""
    if toolkit != "ESPnet2":
        return _quoted(name)
    found = [path for path in sorted(place.glob("data/*/text")) if path.parent.name in name]
    best = max(found, key=lambda path: len(path.parent.name), default=None)
    return f"{_quoted(name)} --ref {_quoted(str(best.relative_to(place))) if best else 'data/SET/text'}"


def _quoted(name: str) -> str:
    """A name as it stands behind `:=`, so that neither make nor the shell takes a part of it for its own.

    Raises:
        UserError: there is no way to write it.
    """
    from rescore.errors import UserError

    if not name.isprintable() or "\\" in name:
        raise UserError(f"{name!a}: a Makefile cannot name this (control characters, backslashes); rename it")
    named = f"./{name}" if name.startswith("-") else name
    return shlex.quote(named).replace("$", "$$").replace("#", "\\#")


@click.command("recipe", cls=GroupedCommand, context_settings={"ignore_unknown_options": True})
@click.option("--stamp", metavar="FILE", help="Write what the arguments stand for, if that changed.")
@click.option("--each", "models", is_flag=True, help="Print the language models that the arguments stand for.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def recipe_command(stamp: str | None, models: bool, arguments: tuple[str, ...]) -> None:
    """Print the path of a Makefile fragment that turns decode folders into RESULTS.md, step by step.

    \b
    DEV  := exp/asr/decode_dev --ref data/dev/text
    TEST := exp/asr/decode_test --ref data/test/text
    include $(shell rescore recipe)

    The fragment itself uses --stamp, which records options, the sizes and times of the files that arguments name (also
    as KIND:PATH), and this program's version; and --each, which takes KIND:all:PATH apart.
    """
    if models:
        from rescore.lms import each

        click.echo("\n".join(each(arguments)))
        return
    if stamp is None:
        click.echo(str(files("rescore") / "recipe.mk"))
        return
    from rescore.files import write_text
    from rescore.version import VERSION

    text = "\n".join([f"rescore {VERSION}", *(line for argument in arguments for line in _described(argument))]) + "\n"
    path = Path(stamp)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text:
        write_text(path, text)


def _described(argument: str) -> list[str]:
    """The argument, and the files that it or a part behind a colon names."""
    places = [argument, *(argument.split(":", number)[-1] for number in range(1, argument.count(":") + 1))]
    lines = [ascii(argument)]
    for place in map(Path, filter(None, places)):
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in found:
            if path.is_file():
                about = path.stat()
                lines.append(f"{str(path)!a} {about.st_size} {about.st_mtime_ns}")
    return lines


@click.command("completion", cls=GroupedCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print shell code that completes commands, options and their values.

    \b
    rescore completion bash >> ~/.bashrc
    rescore completion zsh >> ~/.zshrc
    rescore completion fish > ~/.config/fish/completions/rescore.fish
    """
    from click.shell_completion import get_completion_class

    from rescore.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "rescore", "_RESCORE_COMPLETE").source())


CONFUSIONS = 20
"""How many are shown of a channel."""


@click.command("models", cls=GroupedCommand)
@click.argument("name", required=False)
def models_command(name: str | None) -> None:
    """List the shipped models (size, language, training text, where they are), or print the card of one.

    \b
    rescore models
    rescore models tta
    rescore models channel:DIR

    Of a channel (for --respell) the letters that are most often heard as others are shown, too.
    """
    from rescore.lms import describe, model_card, shipped, shipped_models

    if name is not None and name.partition(":")[0] == "channel":
        _describe_channel(name.partition(":")[2])
        return
    if name is not None:
        click.echo(model_card(name))
        return
    from rescore.expansion import Channel
    from rescore.lms.folders import card_value
    from rescore.styles import text

    rows = [["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]]
    for model in shipped():
        rows.append([model, *describe(model), str(shipped_models() / model)])
    channel = Channel.shipped()
    said = [card_value(channel, key) or "" for key in ("language", "trained_on")]
    rows.append(["channel", f"{Channel.load(channel).size:,}", "", "", *said, "", str(channel)])
    click.echo(text(rows))


def _describe_channel(folder: str) -> None:
    from rescore.expansion import Channel
    from rescore.lms.folders import card
    from rescore.styles import text

    path = Path(folder) if folder else Channel.shipped()
    found = Channel.load(path)
    click.echo(card(path))
    rows = [["meant", "heard", "times", "probability"]]
    for meant, heard, count, probability in found.confusions(CONFUSIONS):
        rows.append([f"[{meant}]", f"[{heard}]", f"{count:,.0f}", f"{probability:.3f}"])
    click.echo(text(rows))
