"""`rescore init`, `recipe` and `models`: what prepares the work."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import chain, count, takewhile
from pathlib import Path

import click

from rescore.cli.bridge import command
from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.options import Declared, option
from rescore.parts import FORMATS

DEV, TEST = re.compile(r"dev(?!test)|valid|\bdt\d"), re.compile(r"test|eval|tst|\bet\d")
"""What the names of dev lists and of test lists have in them; a name with both,
`test_dev93`, is of dev lists.
"""
FIRST = re.compile(r"(decode|recogs|generate|gen)[-_.]")
TAGS = (
    "model|decode|epoch|iter|avg|lm_scale|beam_size|greedy|modified|fast|ctc|1best"
    "|nbest|whole"
)
LAST = re.compile(rf"[-_]({TAGS})\b.*|(\.(jsonl?|txt|tsv|log|out|gz))+$")
"""What stands before and behind the name of a set in the names of folders and files."""
FOLDERS = ("ESPnet2", "ESPnet1", "Kaldi")
"""Toolkits whose lists are folders, each called after its set."""
HINTS = {
    "translation": (
        "translation: prefer a model that reads the source (LM := hf-seq2seq:FOLDER),"
        " and try --decide mbr"
    ),
    "icefall": (
        "each file has one text per utterance: join those of two methods with rescore"
        " combine"
    ),
}
TRANSLATION = """MEASURE_OPTIONS := --metric bleu --metric chrf
# A model that reads the source helps most: LM := hf-seq2seq:FOLDER. Minimum Bayes risk
# often adds to it:
# TUNE_OPTIONS := --decide mbr
"""


@dataclass(frozen=True, kw_only=True)
class Folder(Declared):
    common = True

    folder: str = option(".", metavar="[FOLDER]", argument=True)


@command("init")
def init_command(own: Folder) -> None:
    """Write a Makefile that rescores the lists of a toolkit in FOLDER, and print the
    next step.

    \b
    cd egs2/librispeech/asr1 && rescore init && make

    The command searches for decode folders of ESPnet2, ESPnet1 and Kaldi, fairseq logs,
    nbest files of Moses and Marian, icefall's recogs-*.txt, NeMo beams and native
    lists. If it finds none, the Makefile has lines to fill in.
    """
    from rescore.files import write_text

    place = Path(own.folder)
    if not place.is_dir():
        raise UserError(f"{own.folder}: no such folder")
    target = place / "Makefile"
    if target.exists():
        raise UserError(f"{target}: exists already; remove it, or give another folder")
    toolkit, names = search(place)
    has_sources = (
        toolkit == "native lists" and '"src": ' in Source(place / names[0]).head
    )
    translation = has_sources or toolkit in ("fairseq", "Moses")
    sets = {name: _set_of(name, toolkit) for name in names}
    pairs = paired(sets)
    devs = list(dict.fromkeys(dev for dev, _ in pairs.values()))
    known = {name: _lists(place, name, sets[name], toolkit) for name in names}
    known |= {"": "path/to/dev --ref path/to/dev/text"}
    several = len(pairs) > 1
    lines = [f"TESTS := {' '.join(pairs)}"] * several
    for title, (dev, test) in (pairs or {"": (names[0] if names else "", "")}).items():
        named = [f"_{title}" * several * many for many in (len(devs) > 1, True)]
        lines += [f"DEV{named[0]}  := {known[dev]}", f"TEST{named[1]} := {known[test]}"]
    lines = [
        line.replace("path/to/dev", "path/to/test") if line[0] == "T" else line
        for line in lines
    ]
    write_text(
        target,
        f"# {toolkit}: dev lists to tune on, test lists to rescore, references with"
        " --ref if need be.\n"
        + "\n".join(dict.fromkeys(lines))
        + f"\n{TRANSLATION if translation else '# LM := tta ngram:lm.arpa' + chr(10)}"
        "include $(shell rescore recipe)\n",
    )
    for dev, test in pairs.values():
        click.echo(f"{target}: {toolkit}, dev {known[dev]}, test {known[test]}")
    used = {name for pair in pairs.values() for name in pair}
    if left_out := [_quoted(name) for name in names if used and name not in used]:
        click.echo(f"left out: {', '.join(left_out)}")
    if (kind := "translation" if translation else toolkit) in HINTS:
        click.echo(HINTS[kind])
    open_places = "path/to" in " ".join(lines)
    click.echo(
        f"next: fill in DEV and TEST in {target} (path/to/...), then make"
        if open_places
        else "next: make"
    )


def _below(place: Path) -> Iterator[Path]:
    """All files and folders below a folder, also behind links; a folder that links
    reach again, once.
    """
    seen = set()
    for folder, folders, others in os.walk(place, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(folder, name) for name in (*folders, *others))


def search(place: Path) -> tuple[str, list[str]]:
    """The first toolkit that has lists in a folder, and the names of these lists. Links
    in the folder are followed.
    """
    paths = list(_below(place))
    named = [path for path in paths if re.search(r"n-?best|[.]moses$", path.name)]
    kaldi = {path.parent for path in paths if path.name == "words_text"}
    for toolkit, places in (
        ("ESPnet2", {path.parent for path in paths if path.name == "logdir"}),
        (
            "ESPnet1",
            {
                path.parent
                for path in paths
                if path.name == "data.json"
                and "dump" not in path.relative_to(place).parts
            },
        ),
        (
            "Kaldi",
            {
                path.parent if path.name.startswith("archives.") else path
                for path in kaldi
            },
        ),
        ("fairseq", _fairseq(place)),
        (
            "Moses",
            {
                path
                for path in named
                if path.is_file() and FORMATS["moses"].sniff(Source(path))
            },
        ),
        ("icefall", {path for path in paths if path.match("recogs-*.txt")}),
        ("NeMo", {path for path in paths if path.match("preds_out_width*.tsv")}),
        ("native lists", {path for path in paths if path.suffix == ".jsonl"}),
    ):
        if names := sorted(
            str(path.relative_to(place))
            for path in places
            if ".shards" not in str(path)
        ):
            return toolkit, names
    return "no lists found", []


def _set_of(name: str, toolkit: str) -> str:
    """The set that lists are of: what the last folder is called after, or the file, or
    the folder that it is in.
    """
    parts = [
        LAST.sub("", FIRST.sub("", part, count=1))
        for part in reversed(Path(name).parts)
    ]
    named = (part for part in parts if DEV.search(part) or TEST.search(part))
    return parts[0] if toolkit in FOLDERS else next(named, parts[0])


def paired(sets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Dev lists (empty if there are none) and test lists, by a title of the test set
    for the names of variables.

    Names that are equal but for `dev` and `test` are a pair; other test lists get the
    dev lists that are nearest.
    """
    dev = [name for name in sets if DEV.search(sets[name])]
    others = [name for name in sets if name not in dev]
    tests = [name for name in others if TEST.search(sets[name])] or [
        name for name in others if "train" not in name
    ]
    pairs: dict[str, tuple[str, str]] = {}
    for test in tests:
        plain = re.sub(r"\W+", "_", sets[test], flags=re.ASCII).strip("_") or "test"
        titles = chain([plain], (f"{plain}_{number}" for number in count(2)))
        pairs[next(title for title in titles if title not in pairs)] = (
            max(dev, key=partial(_nearness, test), default=""),
            test,
        )
    return pairs


def _nearness(test: str, dev: str) -> tuple[bool, int]:
    """Whether names differ in `dev` and `test` alone, and the number of folders that
    they share.
    """
    alike = [TEST.sub("*", DEV.sub("*", name)) for name in (test, dev)]
    shared = takewhile(
        lambda pair: pair[0] == pair[1],
        zip(Path(test).parts, Path(dev).parts, strict=False),
    )
    return alike[0] == alike[1], len(list(shared))


def _fairseq(place: Path) -> set[Path]:
    """Logs in the folder and in those inside; of a folder with the parts of one set,
    the folder.
    """
    from rescore import formats

    known: set[Path] = set()
    for folder in (
        place,
        *(path for path in place.iterdir() if path.is_dir()),
        *place.glob("*/*/"),
    ):
        logs = formats.fairseq_logs(folder)
        one_set = not any(DEV.search(log.name) or TEST.search(log.name) for log in logs)
        known |= (
            {folder} if folder != place and len(logs) > 1 and one_set else set(logs)
        )
    return known


def _lists(place: Path, name: str, title: str, toolkit: str) -> str:
    """The lists' name, with --ref and the text of the data folder that a decode folder
    is named after, if any.
    """
    if toolkit == "Moses":
        return f"{_quoted(name)} --ref path/to/dev/ref --src path/to/dev/src"
    if toolkit not in ("ESPnet2", "Kaldi"):
        return _quoted(name)
    places = ("data/*/text", "dump/*/*/text", "dump/*/org/*/text")
    texts = [
        path
        for pattern in places
        for path in sorted(place.glob(pattern))
        if path.parent.name in Path(name).name
    ]
    best = max(texts, key=lambda path: len(path.parent.name), default=None)
    reference = best.relative_to(place) if best else Path("path/to", title, "text")
    return f"{_quoted(name)} --ref {_quoted(str(reference))}"


def _quoted(name: str) -> str:
    """A name as it stands behind `:=`, so that neither make nor the shell takes a part
    of it for its own.
    """
    if not name.isprintable() or "\\" in name:
        raise UserError(
            f"{name!a}: a Makefile cannot contain this name (control characters,"
            " backslashes); rename it"
        )
    named = f"./{name}" if name.startswith("-") else name
    return shlex.quote(named).replace("$", "$$").replace("#", "\\#")


@command("recipe")
def recipe_command() -> None:
    """Print the path of a Makefile fragment that rescores decode folders step by step
    and writes RESULTS.md.

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
    """List the shipped models (size, language, training text, folder), or print the
    card of the model NAME.

    \b
    rescore models
    rescore models tta
    rescore models tta:DIR
    """
    from rescore.lms import shipped, shipped_models
    from rescore.lms.cards import describe, model_card
    from rescore.styles import text

    rows = [
        ["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]
    ]
    rows += [
        [model, *describe(model), str(shipped_models() / model)] for model in shipped()
    ]
    if not own.name:
        click.echo(text(rows))
    elif card := model_card(own.name):
        click.echo(card)
    else:
        raise UserError(f"{own.name}: has no card (README.md) on this machine")
