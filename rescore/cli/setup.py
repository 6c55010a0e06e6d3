"""`rescore init`, `recipe` and `models`: what prepares the work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

import click

from rescore.cli.bridge import command
from rescore.errors import UserError
from rescore.options import Declared, option

DEV, TEST = re.compile("dev|valid"), re.compile("test|eval")
"""What the names of dev lists and of test lists have in them."""


@dataclass(frozen=True, kw_only=True)
class Folder(Declared):
    common = True

    folder: str = option(".", metavar="[FOLDER]", argument=True)


@command("init")
def init_command(own: Folder) -> None:
    """Write a Makefile that rescores the lists of a toolkit in FOLDER, and print the next step.

    \b
    cd egs2/librispeech/asr1 && rescore init && make

    The command searches for ESPnet2 and ESPnet1 decode folders, fairseq logs, NeMo beams and native lists. If it finds
    none, the Makefile has lines to fill in.
    """
    from rescore.files import write_text

    place = Path(own.folder)
    if not place.is_dir():
        raise UserError(f"{own.folder}: no such folder")
    target = place / "Makefile"
    if target.exists():
        raise UserError(f"{target}: exists already; remove it, or give another folder")
    toolkit, names = search(place)
    pairs = paired(names)
    sets = [(title, *(_lists(place, name, toolkit) for name in pairs[title])) for title in pairs]
    if not sets:
        test = _lists(place, names[0], toolkit) if names else "path/to/test --ref path/to/test/text"
        sets = [("test", "path/to/dev --ref path/to/dev/text", test)]
    if len(sets) == 1:
        lines = f"DEV  := {sets[0][1]}\nTEST := {sets[0][2]}\n"
    else:
        lines = f"TESTS := {' '.join(pairs)}\n"
        lines += "".join(f"DEV_{title}  := {dev}\nTEST_{title} := {test}\n" for title, dev, test in sets)
    measured = "MEASURE_OPTIONS := --metric bleu --metric chrf --metric ter\n" if toolkit == "fairseq" else ""
    write_text(
        target,
        f"# {toolkit}: dev lists to tune on, test lists to rescore, references with --ref if need be.\n"
        f"{lines}# LM := tta ngram:lm.arpa\n{measured}include $(shell rescore recipe)\n",
    )
    for _, dev, test in sets:
        click.echo(f"{target}: {toolkit}, dev {dev}, test {test}")
    left_out = sorted(set(names) - {name for pair in pairs.values() for name in pair}) if pairs else []
    if left_out:
        click.echo(f"left out: {', '.join(map(_quoted, left_out))}")
    click.echo("next: make" if pairs else f"next: fill in DEV and TEST in {target}, then make")


def search(place: Path) -> tuple[str, list[str]]:
    """The first toolkit that has lists in a folder, and the names of these lists. Links in the folder are followed."""
    paths = [*place.glob("*"), *place.glob("*/**/*")]
    for toolkit, places in (
        ("ESPnet2", {path.parent for path in paths if path.name == "logdir"}),
        ("ESPnet1", {path.parent for path in paths if path.name == "data.json"}),
        ("fairseq", _fairseq(place)),
        ("NeMo", {path for path in paths if path.match("preds_out_width*.tsv")}),
        ("native lists", {path for path in paths if path.suffix == ".jsonl"}),
    ):
        if names := sorted(str(path.relative_to(place)) for path in places if ".shards" not in str(path)):
            return toolkit, names
    return "no lists found", []


def paired(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Dev lists and test lists by the title of the test set; empty if there are none of one kind.

    Names that are equal but for `dev` and `test` are a pair; test lists without such dev lists get the first dev lists.
    """
    plain = partial(re.compile(f"{DEV.pattern}|{TEST.pattern}").sub, "*")
    dev = [name for name in names if DEV.search(name)]
    others = [name for name in names if name not in dev]
    tests = [name for name in others if TEST.search(name)] or others[:1]
    alike = {plain(name): name for name in reversed(dev)}
    pairs: dict[str, tuple[str, str]] = {}
    for test in tests if dev else ():
        pairs[_title(test, pairs)] = alike.get(plain(test), dev[0]), test
    return pairs


def _title(test: str, taken: Container[str]) -> str:
    """A title of a test set that the name of a Makefile's variable can have in it: `clean` for `test_clean`."""
    behind = TEST.split(Path(test).name)[-1].partition(".")[0]
    title = plain = re.sub(r"[^A-Za-z0-9]+", "_", behind).strip("_") or "test"
    number = 2
    while title in taken:
        title, number = f"{plain}_{number}", number + 1
    return title


def _fairseq(place: Path) -> set[Path]:
    """Logs in the folder and in those inside; of a folder with the parts of one set, the folder."""
    from rescore import formats

    known: set[Path] = set()
    for folder in (place, *(path for path in place.iterdir() if path.is_dir()), *place.glob("*/*/")):
        logs = formats.fairseq_logs(folder)
        one_set = len({bool(DEV.search(log.name)) for log in logs}) == 1
        known |= {folder} if folder != place and len(logs) > 1 and one_set else set(logs)
    return known


def _lists(place: Path, name: str, toolkit: str) -> str:
    """The lists' name, with --ref and the text of the data folder that a decode folder is named after, if any."""
    if toolkit != "ESPnet2":
        return _quoted(name)
    texts = [path for path in sorted(place.glob("data/*/text")) if path.parent.name in name]
    best = max(texts, key=lambda path: len(path.parent.name), default=None)
    return f"{_quoted(name)} --ref {_quoted(str(best.relative_to(place))) if best else 'data/SET/text'}"


def _quoted(name: str) -> str:
    """A name as it stands behind `:=`, so that neither make nor the shell takes a part of it for its own."""
    if not name.isprintable() or "\\" in name:
        raise UserError(f"{name!a}: a Makefile cannot contain this name (control characters, backslashes); rename it")
    named = f"./{name}" if name.startswith("-") else name
    return shlex.quote(named).replace("$", "$$").replace("#", "\\#")


@command("recipe")
def recipe_command() -> None:
    """Print the path of a Makefile fragment that rescores decode folders step by step and writes RESULTS.md.

    \b
    DEV  := exp/asr/decode_dev --ref data/dev/text
    TEST := exp/asr/decode_test --ref data/test/text
    include $(shell rescore recipe)
    """
    click.echo(str(files("rescore") / "recipe.mk"))


@dataclass(frozen=True, kw_only=True)
class Models(Declared):
    common = True

    name: str | None = option(None, metavar="[NAME]", argument=True)


@command("models")
def models_command(own: Models) -> None:
    """List the shipped models (size, language, training text, folder), or print the card of the model NAME.

    \b
    rescore models
    rescore models tta
    rescore models tta:DIR
    """
    from rescore.lms import describe, model_card, shipped, shipped_models
    from rescore.styles import text

    rows = [["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]]
    rows += [[model, *describe(model), str(shipped_models() / model)] for model in shipped()]
    if not own.name:
        click.echo(text(rows))
    elif card := model_card(own.name):
        click.echo(card)
    else:
        raise UserError(f"{own.name}: has no card (README.md) on this machine")
