"""Parts of other packages: what an installed package declares by entry points is in the
tables, and a package that cannot be loaded is told and left out.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tests.conftest import ROOT

Installed = Callable[..., str]
PROGRAM = """
import importlib, sys
for name in list(sys.modules):
    if name.partition(".")[0] == "rescore":
        del sys.modules[name]
sys.path.append({site!r})
importlib.import_module("rescore.cli.start").main()
"""
"""The program `rescore` in a fork. It imports the package again, so it sees packages
that were installed after the fork's server started.
"""


@pytest.fixture
def rescore_with(tmp_path: Path) -> Installed:
    """Install a package with entry points beside rescore, and return what `rescore`
    prints with it: stdout and stderr.
    """
    site = tmp_path / "site"

    def run(entry_points: str, module: str, *arguments: object, status: int = 0) -> str:
        declared = site / "loud-1.0.dist-info"
        declared.mkdir(parents=True, exist_ok=True)
        (declared / "METADATA").write_text("Name: loud\nVersion: 1.0\n")
        (declared / "entry_points.txt").write_text(entry_points)
        (site / "loud.py").write_text(module)
        output = tmp_path / "output"
        output.unlink(missing_ok=True)
        words = [str(argument) for argument in arguments]
        program = PROGRAM.format(site=str(site))
        process = processes.start(words, tmp_path, output, program)
        found = processes.ended(process)
        told = output.read_text("utf-8")
        assert found == status, told
        return told

    return run


FORMAT = '''
import json
from rescore.nbest import Hypothesis, NbestList

class Shouts:
    """lists that are shouted"""
    {place}

    def sniff(self, source):
        return "shouts" in source.head

    def read(self, source, options):
        for number, line in enumerate(source.lines()):
            texts = json.loads(line)["shouts"]
            yield NbestList(str(number), [Hypothesis(text, {{"s2s": 0.0}}) for text in texts])

FORMAT = Shouts()
'''  # noqa: E501
POINTS = "[rescore.formats]\nshouts = loud:FORMAT\n"


def test_a_format_is_detected_before_the_catch_all(
    rescore_with: Installed, tmp_path: Path
) -> None:
    (tmp_path / "lists").write_text('{"shouts": ["HEY", "HO"], "text": ["a"]}\n')
    told = rescore_with("", FORMAT.format(place=""), "convert", "lists")
    assert "HEY" not in told
    for place in ("", "from rescore.formats.source import Place; place = Place.SHAPE"):
        told = rescore_with(POINTS, FORMAT.format(place=place), "convert", "lists")
        assert '"text": "HEY"' in told
    last = "from rescore.formats.source import Place; place = Place.ANYTHING"
    assert "HEY" in rescore_with(POINTS, FORMAT.format(place=last), "convert", "lists")


def test_an_error_that_a_format_does_not_expect_names_the_place(
    rescore_with: Installed, tmp_path: Path
) -> None:
    lines = '{"shouts": ["HEY"]}\n' * 2
    (tmp_path / "lists").write_text(lines + '{"whispers": ["hey"]}\n')
    told = rescore_with(POINTS, FORMAT.format(place=""), "convert", "lists", status=2)
    (error,) = [line for line in told.splitlines() if "error" in line]
    assert "lists: line 3: format shouts of another package cannot read this" in error
    assert "KeyError: 'shouts'" in error and "Traceback" not in told


def test_names_and_descriptions_are_in_the_help(rescore_with: Installed) -> None:
    points = POINTS + "[rescore.commands]\nshout = loud:command\n"
    module = FORMAT.format(place="") + (
        "from rescore.cli.bridge import command as make\n"
        "@make('shout')\n"
        "def command() -> None:\n    '''Shout.'''\n    print('HEY')\n"
    )
    assert "shout       Shout." in rescore_with(points, module, "--help")
    assert rescore_with(points, module, "shout") == "HEY\n"
    whole = rescore_with(points, module, "run", "--help-all")
    assert ",shouts" in whole.replace(" ", "").replace("\n", "")


def test_a_broken_package_is_told_and_left_out(
    rescore_with: Installed, tmp_path: Path
) -> None:
    (tmp_path / "lists").write_text('{"hyps": ["a"], "shouts": []}\n')
    told = rescore_with(POINTS, "import nothing_of_this_name", "convert", "lists")
    assert '"text": "a"' in told
    warning = "format shouts of package loud cannot be loaded (ModuleNotFoundError:"
    assert told.count(warning) == 1 and "update or uninstall the package" in told
    named = rescore_with(
        *(POINTS, "raise ValueError('no licence')", "convert", "lists"),
        *("--format", "shouts"),
        status=2,
    )
    line = named.splitlines()[-1]
    assert line.startswith("rescore: error: format shouts of package loud cannot be")
    assert "(ValueError: no licence)" in line


def test_shipped_names_stay(rescore_with: Installed, tmp_path: Path) -> None:
    (tmp_path / "lists").write_text('{"u": {"hyp_1": {"score": 1, "text": "a"}}}')
    points = "[rescore.formats]\nnative = loud:FORMAT\n"
    told = rescore_with(
        points, FORMAT.format(place=""), "convert", "lists", "--help-all"
    )
    assert "format native of package loud is ignored" in told


KINDS_OF_THE_PAGE = """[rescore.models]
skipping = my_package.kinds:SkippingKind
pairs = my_package.pairs_kind:PairsKind
"""


@pytest.fixture
def page(tmp_path: Path) -> str:
    """Write the modules of docs/extend.md, docs/readers.md and docs/networks.md, as an
    author would copy them; return the entry points of the pages.
    """
    text = ""
    for name in ("extend.md", "readers.md", "networks.md"):
        text += (ROOT / "docs" / name).read_text("utf-8")
    blocks = re.findall(
        r"^```(python|toml)\n(.+?)^```$", text, re.DOTALL | re.MULTILINE
    )
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    points: dict[str, list[str]] = {}
    for language, code in blocks:
        module = re.match(r"# (my_package/\w+\.py)", code)
        if module:
            (site / module[1]).write_text(code)
        if language == "toml" and "my_package" in code:
            for group, parts in tomllib.loads(code)["project"]["entry-points"].items():
                lines = [f"{name} = {part}" for name, part in parts.items()]
                points.setdefault(group, []).extend(lines)
    sections = [f"[{group}]\n" + "\n".join(points[group]) for group in points]
    return "\n".join(sections) + "\n" + KINDS_OF_THE_PAGE


def test_each_module_of_the_page_is_written(page: str, tmp_path: Path) -> None:
    assert len(list((tmp_path / "site" / "my_package").glob("*.py"))) == 8
    assert "hesitations = my_package" in page
    assert "smooth = my_package" in page


SAID = """{"u": {"ref": "we go", "hyp_1": {"score": -1, "text": "um we go"},
"hyp_2": {"score": -2, "text": "we go"}}, "v": {"ref": "i see", "hyp_1":
{"score": -1, "text": "uh i see"}, "hyp_2": {"score": -2, "text": "i sea"}}}"""


def test_the_feature_of_the_page_has_a_bonus(
    rescore_with: Installed, page: str, tmp_path: Path
) -> None:
    (tmp_path / "l.json").write_text(SAID)
    set_bonus = rescore_with(page, "", "run", "l.json", "--hesitation-bonus", -2)
    assert "-2 a hesitation" in set_bonus
    tuned = ("--hesitation-bonus", "tune", "--no-bagging")
    rescore_with(page, "", "tune", "l.json", *tuned, "-o", "w.json")
    assert json.loads((tmp_path / "w.json").read_text())["weights"]["hesitations"] < -1
    rescore_with(page, "", "rerank", "l.json", "--weights", "w.json", "-o", "r.json")
    sorted_lists = json.loads((tmp_path / "r.json").read_text())
    assert sorted_lists["u"]["hyp_1"]["text"] == "we go"


def test_the_expansion_of_the_page_adds_hypotheses(
    rescore_with: Installed, page: str, tmp_path: Path
) -> None:
    (tmp_path / "l.json").write_text(SAID)
    told = rescore_with(page, "", "run", "l.json", "--smooth", "-o", "out.json")
    assert "oracle of the toolkit's own" in told
    # A file with the new origin can be read, too.
    told = rescore_with(page, "", "convert", "out.json")
    assert told.count('"origin": "smoothed"') == 2


def test_the_format_of_the_page_reads_its_file(
    rescore_with: Installed, page: str, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "readers.md").read_text("utf-8")
    written = re.search(r"```text\n(# mydecoder .+?)```", text, re.DOTALL)
    assert written
    (tmp_path / "x.nbest").write_text(written[1])
    rescore_with(page, "", "convert", "x.nbest", "-o", "x.jsonl")
    (line,) = (tmp_path / "x.jsonl").read_text("utf-8").splitlines()
    nbest = json.loads(line)
    assert nbest["id"] == "call_17/seg_003" and nbest["ref"] == "the old clock ticked"
    assert nbest["fields"] == {"channel": "A", "speaker": "anna"}
    assert nbest["columns"]["am"]["role"] == "component"
    first, second = nbest["hyps"]
    assert second["text"] == "the old clock sticked"
    assert first["score"] == pytest.approx(-1235.7 * math.log(10))
    told = rescore_with(page, "", "eval", "x.jsonl", "--ref", "x.nbest")
    assert " 0.00 " in told  # --ref reads the reference of the file
    (tmp_path / "bad").write_text("# mydecoder 2.1\n== u ch=A spk=b\n1 ac=x lm=1 | a\n")
    told = rescore_with(page, "", "convert", "bad", status=2)
    assert "bad: line 3: ac is 'x', not a number" in told


def test_the_networks_of_the_page_train_and_score(
    rescore_with: Installed, page: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("the old clock\na new clock\n" * 20)
    config = '{"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 100}'
    (tmp_path / "tiny.json").write_text(config)
    for kind, own in (("skipping", ()), ("pairs", ("--pair-share", 0.9))):
        train = ("train", "--lm", kind, "--text", "text", "--config", "tiny.json")
        steps = ("--steps", 2, "--batch-tokens", 99, "--out", kind)
        rescore_with(page, "", *train, *own, *steps)
        score = ("score", "--text", "text", "--lm", f"{kind}:{kind}")
        assert kind in rescore_with(page, "", *score)
    other = (*train, *steps, "--resume", "--steps", 3)
    told = rescore_with(page, "", *other, status=2)
    assert "pair-share 0.9, not 0.5" in told


VERSION = """
from rescore.lms.kinds import TtaKind

class Versioned(TtaKind):
    version = {version!r}
    architecture = "rescore.lms.networks:TTA"
"""


def test_the_version_of_a_kind_is_in_fingerprints(
    rescore_with: Installed, tmp_path: Path
) -> None:
    (tmp_path / "l.json").write_text(
        '{"u": {"ref": "a b", "hyp_1": {"score": -1, "text": "a"}}}'
    )
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "models" / "tta-small", copy)
    config = (copy / "config.json").read_text().replace('"tta"', '"versioned"')
    (copy / "config.json").write_text(config)
    points = "[rescore.models]\nversioned = loud:Versioned\n"
    command = ("l.json", "--lm", "versioned:copy", "--weight", 0.5)
    told = set()
    for version in ("1", "2"):
        done = rescore_with(points, VERSION.format(version=version), *command)
        told.update(re.findall(r"lm:versioned=versioned@(\w+)", done))
    assert len(told) == 2


def test_the_function_of_the_docs_is_a_model(
    rescore_with: Installed, tmp_path: Path
) -> None:
    """`--lm mine` needs no path, and the column has the name of the entry point."""
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(# my_package/models.py\n.*?)```", page, re.DOTALL)
    assert found
    declared = "[rescore.models]\nmine = loud:mine\n"
    lists = []
    for number in range(4):
        hypotheses = [
            {"text": "a considerable clock", "score": -1.0},
            {"text": "a clock", "score": -2.0},
        ]
        lists.append({"id": f"u{number}", "ref": "a clock", "hyps": hypotheses})
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, lists)) + "\n")

    def run(*arguments: object, status: int = 0) -> str:
        return rescore_with(declared, found[1], *arguments, status=status)

    run("score", "l.jsonl", "--lm", "mine", "-o", "s.jsonl")
    first = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[0])
    assert [entry["scores"]["mine"] for entry in first["hyps"]] == [-1.0, 0.0]
    told = run("l.jsonl", "--dev", "l.jsonl", "--lm", "mine")
    assert "lambda: mine 0" in told and "lm:mine=mine@v1" in told
    assert "mine reads no file; give --lm mine" in run(
        "l.jsonl", "--lm", "mine:x", "--weight", "0.5", status=2
    )
    assert "minus the number of long words" in run("run", "--help-all")


def test_the_tests_of_the_example_pass() -> None:
    """They show authors of a format how to test it."""
    folder = ROOT / "examples" / "plugin"
    paths = os.pathsep.join([str(ROOT), str(folder)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "... " in done.stdout, done.stdout


def test_a_model_that_cannot_be_imported_ends_no_training(
    rescore_with: Installed,
) -> None:
    declared = "[rescore.models]\nloud = loud:Loud\n"
    said = rescore_with(declared, "import no_such_module\n", "train", "--help")
    assert "Train a language model" in said and "no_such_module" in said
    named = rescore_with(
        declared, "import no_such_module\n", "train", "--lm", "loud", status=2
    )
    assert "loud of package loud cannot be loaded" in named
