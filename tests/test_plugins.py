"""Parts of other packages: what an installed package declares by entry points is in the
tables, and a package that cannot be loaded is told and left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

Installed = Callable[..., str]


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
        done = subprocess.run(
            [sys.executable, "-m", "rescore", *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

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


def test_the_networks_of_the_page_train_and_score(
    rescore_with: Installed, tmp_path: Path
) -> None:
    """The code of docs/extend.md, as an author would copy it."""
    page = (ROOT / "docs" / "extend.md").read_text("utf-8")
    modules = re.findall(
        r"^```python\n# (my_package/\w+\.py)(.+?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert len(modules) == 4
    (tmp_path / "site" / "my_package").mkdir(parents=True)
    for name, code in modules:
        (tmp_path / "site" / name).write_text(f"#{code}")
    (tmp_path / "text").write_text("the old clock\na new clock\n" * 20)
    config = '{"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 100}'
    (tmp_path / "tiny.json").write_text(config)
    for kind, own in (("skipping", ()), ("pairs", ("--pair-share", 0.9))):
        train = ("train", "--lm", kind, "--text", "text", "--config", "tiny.json")
        steps = ("--steps", 2, "--batch-tokens", 99, "--out", kind)
        rescore_with(KINDS_OF_THE_PAGE, "", *train, *own, *steps)
        score = ("score", "--text", "text", "--lm", f"{kind}:{kind}")
        assert kind in rescore_with(KINDS_OF_THE_PAGE, "", *score)
    other = (*train, *steps, "--resume", "--steps", 3)
    told = rescore_with(KINDS_OF_THE_PAGE, "", *other, status=2)
    assert "pair_share" in told


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
