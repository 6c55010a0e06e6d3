"""`rescore init`, `recipe` and `models`: commands that prepare the work.

`init` searches for the lists of a toolkit, tells dev sets from test sets by their
names, and writes a Makefile. `recipe` names the rules that this Makefile includes.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path

import click

from rescore.cli.bridge import command
from rescore.errors import UserError
from rescore.files import write_text
from rescore.formats.folders import parts_in
from rescore.formats.reading import iterate
from rescore.formats.source import Source, sniff
from rescore.ids import SOUNDS
from rescore.lms import shipped, shipped_models
from rescore.lms.cards import ADVICE, describe, model_card
from rescore.options import Declared, option
from rescore.parts import FORMATS
from rescore.styles import text

# --- names of sets -------------------------------------------------------------------

DEV = re.compile(r"dev(?!test)|valid|\bdt\d")
"""Parts of the names of dev lists. A name with both patterns, such as `test_dev93`,
belongs to dev lists.
"""
TEST = re.compile(r"test|eval|tst|\bet\d")
"""Parts of the names of test lists."""
FIRST = re.compile(r"(decode|recogs|generate|gen)[-_.]")
"""Text before the name of a set, in the names of folders and files."""
TAGS = (
    "model|decode|epoch|iter|avg|lm_scale|beam_size|greedy|modified|fast|ctc|1best"
    "|nbest|whole"
)
LAST = re.compile(rf"[-_]({TAGS})\b.*|(\.(jsonl?|txt|tsv|log|out|gz))+$")
"""Text behind the name of a set, in the names of folders and files."""
FOLDERS = ("ESPnet2", "ESPnet1", "Kaldi")
"""Toolkits whose lists are folders, each called after its set."""
MOSES = re.compile(r"n-?best|[.]moses$")
"""Names of files that may be Moses's n-best lists."""

# --- texts of the Makefile -----------------------------------------------------------

OPEN = "path/to/dev --ref path/to/dev/text"
"""Value of a variable that the user has to fill in."""
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
"""What `init` says about lists of translations and of a toolkit."""
RECOGNITION = """# LM := tta ngram:lm.arpa
"""
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
    place = Path(own.folder)
    if not place.is_dir():
        raise UserError(f"{own.folder}: no such folder")
    target = place / "Makefile"
    if target.exists():
        raise UserError(f"{target}: exists already; remove it, or give another folder")

    toolkit, names = search(place)
    translates = _translates(place, toolkit, names)
    sets = {name: _set_of(place, name, toolkit) for name in names}
    pairs = paired(sets)
    values = {"": OPEN}
    for name in names:
        values[name] = _value(place, name, sets[name], toolkit)
    variables = _variables(pairs, names, values)
    write_text(
        target,
        f"# {toolkit}: dev lists to tune on, test lists to rescore, references with"
        " --ref if need be.\n"
        f"{variables}\n"
        f"{TRANSLATION if translates else RECOGNITION}"
        "include $(shell rescore recipe)\n",
    )

    for dev, test in pairs.values():
        click.echo(f"{target}: {toolkit}, dev {values[dev]}, test {values[test]}")
    left_out = _left_out(pairs, names)
    if left_out:
        click.echo(f"left out: {', '.join(left_out)}")
    kind = "translation" if translates else toolkit
    if kind in HINTS:
        click.echo(HINTS[kind])
    if "path/to" in variables:
        click.echo(f"next: fill in DEV and TEST in {target} (path/to/...), then make")
    else:
        click.echo("next: make")


def _translates(place: Path, toolkit: str, names: Sequence[str]) -> bool:
    """Return whether the lists are translations."""
    if toolkit == "native lists":
        return '"src": ' in Source(place / names[0]).head
    return toolkit in ("fairseq", "Moses")


def _variables(
    pairs: Mapping[str, tuple[str, str]],
    names: Sequence[str],
    values: Mapping[str, str],
) -> str:
    """Return the lines of the Makefile that set DEV and TEST.

    Several test sets have a variable each, and so have their dev sets if these differ.
    """
    if not pairs:  # without test lists, the first lists are the dev lists
        dev = names[0] if names else ""
        pairs = {"": (dev, "")}
    lines = []
    if len(pairs) > 1:
        lines.append(f"TESTS := {' '.join(pairs)}")
    several_devs = len({dev for dev, _ in pairs.values()}) > 1
    for title, (dev, test) in pairs.items():
        dev_title = f"_{title}" if several_devs else ""
        test_title = f"_{title}" if len(pairs) > 1 else ""
        test_value = values[test].replace("path/to/dev", "path/to/test")
        lines.append(f"DEV{dev_title}  := {values[dev]}")
        lines.append(f"TEST{test_title} := {test_value}")
    return "\n".join(dict.fromkeys(lines))


def _left_out(pairs: Mapping[str, tuple[str, str]], names: Sequence[str]) -> list[str]:
    """Return the names of lists that are in no pair; none if there are no pairs."""
    if not pairs:
        return []
    used = set[str]()
    for pair in pairs.values():
        used.update(pair)
    return [_quoted(name) for name in names if name not in used]


# --- the search for lists ------------------------------------------------------------


def search(place: Path) -> tuple[str, list[str]]:
    """Return the first toolkit that has lists in a folder, and the names of the lists.

    Links in the folder are followed.

    Args:
        place: The folder.

    Returns:
        The toolkit (`no lists found` if there are no lists), and the paths of its
        lists, relative to the folder and sorted.
    """
    for toolkit, paths in _candidates(place):
        names = set()
        for path in paths:
            if ".shards" not in str(path):
                names.add(str(path.relative_to(place)))
        if names:
            return toolkit, sorted(names)
    return "no lists found", []


def _candidates(place: Path) -> Iterator[tuple[str, Iterable[Path]]]:
    """Yield each toolkit with the paths in a folder that look like its lists."""
    paths = list(_below(place))
    yield "ESPnet2", [path.parent for path in _matching(paths, "logdir")]
    outputs = _matching(paths, "data.json")
    yield "ESPnet1", [path.parent for path in outputs if not _is_input(path, place)]
    yield "Kaldi", map(_kaldi_folder, _matching(paths, "words_text"))
    yield "fairseq", _fairseq(place)
    yield "Moses", filter(_is_moses, paths)
    yield "icefall", _matching(paths, "recogs-*.txt")
    yield "NeMo", _matching(paths, "preds_out_width*.tsv")
    yield "native lists", _matching(paths, "?*.jsonl")
    yield from _by_contents(paths)


MOST_FILES = 2000
"""Files that are opened to find lists, at most."""


def _by_contents(paths: Iterable[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield each format with the files that have it by their contents, and whose first
    list can be read.
    """
    by_format: dict[str, list[Path]] = {}
    visible = (path for path in paths if not path.name.startswith("."))
    readable = (path for path in visible if path.suffix.lower() not in SOUNDS)
    for path in islice(filter(Path.is_file, readable), MOST_FILES):
        name = _format_of(path)
        if name is not None:
            by_format.setdefault(name, []).append(path)
    yield from by_format.items()


def _format_of(path: Path) -> str | None:
    """Return the format of a file of lists; None for any other file."""
    try:
        name = sniff(Source(path))
        if name is None:
            return None
        first = next(iterate([path], name))
    except UserError:
        return None
    # any JSON with a text has the format of last resort
    return name if name != "json" or len(first.hypotheses) > 1 else None


def _below(place: Path) -> Iterator[Path]:
    """Yield all files and folders below a folder, also behind links.

    A folder that several links reach is yielded once.
    """
    seen = set()
    for folder, folders, others in os.walk(place, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in (*folders, *others):
            yield Path(folder, name)


def _matching(paths: Iterable[Path], pattern: str) -> list[Path]:
    """Return the paths whose names match a pattern."""
    return [path for path in paths if path.match(pattern)]


def _is_input(path: Path, place: Path) -> bool:
    """Return whether a data.json is ESPnet1's input, which is below a folder `dump`."""
    return "dump" in path.relative_to(place).parts


def _kaldi_folder(words: Path) -> Path:
    """Return the decode folder of a words_text, also of one in `archives.N`."""
    folder = words.parent
    return folder.parent if folder.name.startswith("archives.") else folder


def _is_moses(path: Path) -> bool:
    """Return whether a path is an n-best list of Moses or Marian."""
    if MOSES.search(path.name) is None or not path.is_file():
        return False
    return FORMATS["moses"].sniff(Source(path))


def _fairseq(place: Path) -> Iterator[Path]:
    """Yield the fairseq logs in a folder and in folders up to two levels below.

    A folder with several parts of one set is yielded itself.
    """
    folders = [place]
    folders += [path for path in place.iterdir() if path.is_dir()]
    folders += place.glob("*/*/")
    for folder in folders:
        logs = parts_in(folder, "fairseq")
        of_sets = any(DEV.search(log.name) or TEST.search(log.name) for log in logs)
        if folder != place and len(logs) > 1 and not of_sets:
            yield folder
        else:
            yield from logs


# --- dev lists and test lists --------------------------------------------------------


def _set_of(place: Path, name: str, toolkit: str) -> str:
    """Return the set that lists belong to, as their file or a folder around it says."""
    parts = []
    # the lists may be the folder itself, whose name is `.`
    for part in reversed(Path(name).parts or (place.resolve().name,)):
        part = FIRST.sub("", part, count=1)
        parts.append(LAST.sub("", part))
    if toolkit not in FOLDERS:
        for part in parts:
            if DEV.search(part) or TEST.search(part):
                return part
    return parts[0]


def paired(sets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return pairs of dev lists and test lists.

    Names that differ in `dev` and `test` alone are a pair. Other test lists get the dev
    lists that share most folders with them.

    Args:
        sets: The set that each name belongs to.

    Returns:
        For each test set, by a title that can be part of a variable's name: the name
        of the dev lists (empty if there are none), and the name of the test lists.
    """
    devs = [name for name in sets if DEV.search(sets[name])]
    others = [name for name in sets if name not in devs]
    tests = [name for name in others if TEST.search(sets[name])]
    if not tests:
        tests = [name for name in others if "train" not in name]
    pairs: dict[str, tuple[str, str]] = {}
    for test in tests:
        plain = re.sub(r"\W+", "_", sets[test], flags=re.ASCII).strip("_") or "test"
        dev = max(devs, key=partial(_nearness, test), default="")
        pairs[_free_title(plain, pairs)] = (dev, test)
    return pairs


def _free_title(title: str, taken: Iterable[str]) -> str:
    """Return the title, or the first of `title_2`, `title_3`, ... that is free."""
    candidate, number = title, 1
    while candidate in taken:
        number += 1
        candidate = f"{title}_{number}"
    return candidate


def _nearness(test: str, dev: str) -> tuple[bool, int]:
    """Return whether names differ in `dev` and `test` alone, and how many folders they
    share.
    """
    plain_test, plain_dev = [TEST.sub("*", DEV.sub("*", name)) for name in (test, dev)]
    shared = 0
    for test_part, dev_part in zip(Path(test).parts, Path(dev).parts, strict=False):
        if test_part != dev_part:
            break
        shared += 1
    return plain_test == plain_dev, shared


def _value(place: Path, name: str, title: str, toolkit: str) -> str:
    """Return the value of DEV or TEST: the lists, and the options that they need.

    The references of a decode folder are the text of the data folder that it is named
    after.
    """
    if toolkit == "Moses":
        return f"{_quoted(name)} --ref path/to/dev/ref --src path/to/dev/src"
    if toolkit not in ("ESPnet2", "Kaldi"):
        return _quoted(name)
    texts = []
    for pattern in ("data/*/text", "dump/*/*/text", "dump/*/org/*/text"):
        for path in sorted(place.glob(pattern)):
            if path.parent.name in Path(name).name:
                texts.append(path)
    reference = Path("path/to", title, "text")
    if texts:
        longest = max(texts, key=lambda path: len(path.parent.name))
        reference = longest.relative_to(place)
    return f"{_quoted(name)} --ref {_quoted(str(reference))}"


def _quoted(name: str) -> str:
    """Return a name as it stands behind `:=`, quoted for make and for the shell."""
    if not name.isprintable() or "\\" in name:
        raise UserError(
            f"{name!a}: a Makefile cannot contain this name (control characters,"
            " backslashes); rename it"
        )
    path = f"./{name}" if name.startswith("-") else name  # a path is no option
    return shlex.quote(path).replace("$", "$$").replace("#", "\\#")


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
class ModelsOptions(Declared):
    common = True

    name: str | None = option(None, metavar="[NAME]", argument=True)


@command("models")
def models_command(own: ModelsOptions) -> None:
    """List the shipped models (size, language, training text, folder), or print the
    card of the model NAME.

    \b
    rescore models
    rescore models tta
    rescore models tta:DIR
    """
    if own.name:
        card = model_card(own.name)
        if not card:
            raise UserError(f"{own.name}: has no card (README.md) on this machine")
        click.echo(card)
        return
    rows = [
        ["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]
    ]
    for model in shipped():
        rows.append([model, *describe(model), str(shipped_models() / model)])
    click.echo(text(rows))
    click.echo(f"\n{ADVICE}")
