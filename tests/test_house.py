"""The house: imports go down the list of design, never up."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rescore.parts import KINDS, LESSONS
from tests.conftest import ROOT
from tests.sources import PACKAGE, nodes

LAYERS = [
    ["__main__"],
    ["cli"],
    ["__init__"],
    ["rescorer"],
    ["api"],
    ["comparing"],
    ["pipeline"],
    ["border"],
    ["plan"],
    ["asked"],
    ["given"],
    ["features"],
    ["expansion"],
    ["config"],
    ["reports"],
    ["deciding"],
    ["scoring"],  # scores are computed below, columns are added here
    ["tuning"],
    ["decision"],
    ["lms"],
    ["metrics"],
    ["formats"],
    ["signature"],
    ["dataset"],
    ["content"],
    ["nbest"],
    ["columns", "correlations"],
    ["readings"],
    ["styles"],
    ["file_options", "option_readers"],
    ["keys"],
    ["options"],
    ["parts", "set_names"],
    ["files"],
    ["errors", "ids", "pace", "unspaced", "values", "version"],
]
"""The core, from the roof to the ground."""
HEIGHT = {room: -level for level, rooms in enumerate(LAYERS) for room in rooms}
WINGS = ("asr", "mt", "large", "service", "research")
"""A wing imports the core. No room of the core imports a wing: tables of parts and of
commands name its modules.
"""
WITH_TORCH = (
    "lms/causal.py",
    "lms/checkpoint.py",
    "lms/devices.py",
    "lms/networks.py",
    "lms/masked.py",
    "lms/own.py",
    "lms/scorers.py",
    "lms/training",
    "lms/fast.py",
    "large/network.py",
    "large/seq2seq.py",
    "large/speech.py",
    "mt/comet.py",
    "research",
)


def imports(path: Path) -> Iterator[str]:
    """What a module imports, wherever and for whomever: also in a function, and what
    only type checkers see.
    """
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {name_of(path): path for path in PACKAGE}


def modules() -> list[Path]:
    return list(MODULES.values())


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "rescore").parts[0].removesuffix(".py")


def test_every_room_has_its_place() -> None:
    assert {room_of(path) for path in modules()} == {*HEIGHT, *WINGS}


def test_imports_go_down() -> None:
    up = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules()
        for name in imports(path)
        if name.startswith("rescore.")
        and room_of(path) in HEIGHT
        and (room := name.split(".")[1]) in HEIGHT
        and room != room_of(path)
        and HEIGHT[room] >= HEIGHT[room_of(path)]
    ]
    assert not up, "\n".join(up)


def wings_of(path: Path) -> set[str]:
    """The wings that a module imports."""
    return {
        wing
        for name in imports(path)
        for wing in WINGS
        if f"{name}.".startswith(f"rescore.{wing}.")
    }


def test_the_core_imports_no_wing() -> None:
    core = {name: path for name, path in MODULES.items() if room_of(path) in HEIGHT}
    assert not {name: wings for name, path in core.items() if (wings := wings_of(path))}


DOORS = {"rescore", "rescore.parts", "rescore.cli.main"}
"""Modules of the core whose tables name modules of wings: functions of the package,
parts and commands.
"""


def test_only_doors_name_wings() -> None:
    named = re.compile(rf"\brescore\.({'|'.join(WINGS)})\b")
    core = {
        name: path
        for name, path in MODULES.items()
        if room_of(path) in HEIGHT and name not in DOORS
    }
    assert not {
        name: found
        for name, path in core.items()
        if (found := named.findall(path.read_text("utf-8")))
    }


def test_the_core_names_no_system_of_the_research_wing() -> None:
    names = {
        name
        for registry in (KINDS, LESSONS)
        for name in registry
        if registry.target(name).startswith("rescore.research.")
    }
    named = {}
    for module, path in MODULES.items():
        if room_of(path) not in HEIGHT or module in DOORS:
            continue
        strings = {
            node.value
            for node in nodes(path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if strings & names:
            named[module] = strings & names
    assert len(names) > 5 and not named


NAMES_OF_VOTES = {
    "mixture": {
        "rescore.cli.tune",
        "rescore.decision.choice",
        "rescore.reports.figures",
        "rescore.reports.former",
        "rescore.reports.records",
        "rescore.reports.summary",
        "rescore.tuning.tuner",
        "rescore.tuning.weights",
    },
    "votes": {
        "rescore.reports.check",
        "rescore.reports.figures",
        "rescore.reports.records",
        "rescore.signature",
    },
    "equal_votes": {"rescore.reports.records"},
    "by_votes": {"rescore.reports.analysis"},
}
"""Fields of files that users have, which the core reads and writes: the first pass of
several systems, where it comes from, and a row; with the modules that name them.
"""


def test_the_core_knows_no_votes() -> None:
    """Votes of systems are a feature of a wing, behind doors: the core has fields for
    the record and for rows, and nothing that knows what they say.
    """
    named = re.compile(
        r"\w*(?:mixture|agreement|(?<![a-z])vot(?:e|ing))\w*", re.IGNORECASE
    )
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if room_of(path) not in HEIGHT or module in DOORS:
            continue
        text = path.read_text("utf-8")
        # what the schema of a results file says about its fields
        text = re.sub(r'described\("[^"]*"\)', "", text)
        for word in named.findall(text):
            found.setdefault(word, set()).add(module)
    assert found == NAMES_OF_VOTES


def public_names() -> dict[str, set[str]]:
    """The modules of docs/imports.md, and their names."""
    page = (ROOT / "docs" / "imports.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", page, re.MULTILINE)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


def names_from_the_package(path: Path) -> Iterator[tuple[str, str]]:
    """Each name that a module imports from modules of rescore, and its module."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "rescore"
        ):
            for alias in node.names:
                yield str(node.module), alias.name


def test_parts_import_public_names_only() -> None:
    """A part of the research wing could be a package of somebody else."""
    public = public_names()
    files = [
        *(ROOT / "rescore" / "research").rglob("*.py"),
        *(ROOT / "examples" / "plugin").rglob("*.py"),
    ]
    secret = {
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path in files
        for module, name in names_from_the_package(path)
        if not module.startswith(("rescore.research", "rescore_example"))
        and name not in public.get(module, ())
    }
    assert len(files) > 30 and not secret, "docs/imports.md does not have them"


def test_public_names_exist() -> None:
    for module, names in public_names().items():
        imported = importlib.import_module(module)
        missing = {name for name in names if not hasattr(imported, name)}
        assert not {name for name in missing if f"{module}.{name}" not in MODULES}


def test_no_wing_imports_another() -> None:
    """Research alone may: it compares what all others have."""
    wings = {
        name: path
        for name, path in MODULES.items()
        if room_of(path) in WINGS and room_of(path) != "research"
    }
    assert not {
        name: others
        for name, path in wings.items()
        if (others := wings_of(path) - {room_of(path)})
    }


def test_no_circles() -> None:
    """No module needs one that needs it: of modules without those that need no other,
    again and again, none is left.
    """
    needs = {
        name: {one for one in imports(path) if one in MODULES} - {name}
        for name, path in MODULES.items()
    }
    while free := {name for name, others in needs.items() if not others}:
        needs = {
            name: others - free for name, others in needs.items() if name not in free
        }
    assert not needs, needs


def test_torch_is_imported_where_networks_are() -> None:
    found = [
        str(place)
        for path in modules()
        if any(name.split(".")[0] == "torch" for name in imports(path))
        and not str(place := path.relative_to(ROOT / "rescore")).startswith(WITH_TORCH)
    ]
    assert not found


def test_help_is_quick_and_imports_no_torch() -> None:
    program = (
        "import sys\n"
        "from rescore.cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "assert 'numpy' not in sys.modules\n"
        "cli(['run', '--help-all'], standalone_mode=False)\n"
        # asks the kinds of models for their options
        "cli(['train', '--help-all'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_eval_needs_no_torch() -> None:
    program = (
        "import sys\n"
        "from rescore.cli.main import cli\n"
        "cli(['eval', sys.argv[1]], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "data" / "test.json")],
        check=True,
        capture_output=True,
    )


WITHOUT_A_LINE = {"pandas", "polars", "huggingface_hub"}
"""Packages that a user has or has not (`to_frame`), or that come with another one
(transformers).
"""
DISTRIBUTIONS = {
    "comet": "unbabel-comet",
    "re2": "google-re2",
    "sklearn": "scikit-learn",
    "text_to_num": "text2num",
}


def test_packages_that_are_imported_are_declared() -> None:
    names = {name.split(".")[0] for path in modules() for name in imports(path)}
    names -= {"rescore", "__future__", *sys.stdlib_module_names, *WITHOUT_A_LINE}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    lines = [
        *project["dependencies"],
        *(line for some in project["optional-dependencies"].values() for line in some),
    ]
    declared = [re.split(r"[<>=~\[; ]", line)[0] for line in lines]
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in names} <= set(
        declared
    )
    required = [re.split(r"[<>=~\[; ]", line)[0] for line in project["dependencies"]]
    assert len(set(required)) == len(required)


def test_files_are_read_in_ten_minutes() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules()
    }
    assert not {name: length for name, length in lengths.items() if length > 750}


TOLD = {
    r"\{\s*([^{}": "rescore.formats.alternatives",  # alternatives of trn and STM
    r"\(([^": "rescore.formats.text",  # the id of a line of trn
    r"[-_]\w": "rescore.formats.ids",  # how an id looks
    r"\s+-->\s+": "rescore.formats.subtitles",  # a subtitle
    r"(\S+)\s+(\S+)\s+(\S+)\s+(\d": "rescore.formats.segments",  # a segment of an STM
    r"\*\s+<alt": "rescore.formats.segments",  # a word of a CTM
}
"""Marks in the texts of a module that tells a format, alternatives or ids, and the only
module that may.
"""


def test_formats_alternatives_and_ids_are_told_in_one_place() -> None:
    texts = {
        name: [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
        for name, path in MODULES.items()
    }
    for mark, place in TOLD.items():
        found = {
            name
            for name, values in texts.items()
            if any(mark in value for value in values if isinstance(value, str))
        }
        assert found == {place}, (mark, found)


def test_one_function_tells_ids_and_trn() -> None:
    """Names that tell whether words are ids stand in `formats.ids`, and what a line of
    trn is in `formats.text`.
    """
    names = re.compile(
        r"(is|are|looks?_like|begins?_with|has)_(an_)?ids?|(split|parse|read)_trn"
    )
    places = {
        f"{name}.{node.name}"
        for name, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and names.fullmatch(node.name)
    }
    assert places == {
        "rescore.formats.ids.are_ids",
        "rescore.formats.ids.begin_with_ids",
        "rescore.formats.text.split_trn",
    }


TOOLKITS = ("acoustic", "alignments", "espnet", "lattices", "lines", "ocr")
"""Modules of toolkits' formats."""
READING = ("ids", "outputs", "reading", "references", "rows", "segments", "texts")
"""Modules that read all formats, or files of texts."""


def test_reading_names_no_toolkit() -> None:
    """Formats say what they are: the table of formats names their modules."""
    named = []
    for module in (*READING, "unknown"):
        own = set(imports(MODULES[f"rescore.formats.{module}"]))
        named += [
            (module, name) for name in TOOLKITS if f"rescore.formats.{name}" in own
        ]
    assert not named
