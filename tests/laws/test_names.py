"""A name has one meaning: each public function and class in the files that docs/code.md
names has a name of its own, and each public class of all rooms.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from rescore import parts
from rescore.parts import Registry
from tests.conftest import ROOT
from tests.sources import tree_of

READ = sorted(
    ROOT / name
    for name in set(
        re.findall(
            r"`(rescore/[\w/]+\.py)`", (ROOT / "docs/code.md").read_text("utf-8")
        )
    )
)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def modules_that_are_parts() -> set[str]:
    """Modules of a table: their functions have the names of an interface."""
    modules = set()
    for table in vars(parts).values():
        if isinstance(table, Registry):
            modules.update(table.target(name) for name in table.shipped)
    return modules


def public_pages() -> dict[str, set[str]]:
    """The names that other packages may import, and so keep."""
    pages = {}
    for line in (ROOT / "docs/imports.md").read_text("utf-8").splitlines():
        module, *names = re.findall(r"`([\w.]+)`", line) or [""]
        pages[module] = set(names)
    return pages


def definitions() -> dict[str, list[str]]:
    """The modules that define each name."""
    modules: dict[str, list[str]] = {}
    interfaces = modules_that_are_parts()
    public = public_pages()
    for path in READ:
        module = module_of(path)
        if module in interfaces:
            continue
        for node in tree_of(path).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            is_free = node.name not in public.get(module, ())
            if is_free and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(module)
    return modules


def test_the_glossary_of_the_code_is_short() -> None:
    """A row explains one word, and no word has two rows."""
    _, _, glossary = (ROOT / "docs/code.md").read_text("utf-8").partition("## Words")
    words = re.findall(r"^\| ([\w, ]+) \|", glossary, re.MULTILINE)[1:]
    assert "column" in words
    assert len(set(words)) == len(words) <= 20
    assert all(word.isalpha() for word in words)


def test_a_name_stands_for_one_thing() -> None:
    defined = definitions()
    assert len(defined) > 200
    shared = {name: found for name, found in defined.items() if len(found) > 1}
    assert not shared


def test_a_class_has_a_name_of_its_own() -> None:
    """In all rooms, but for the papers' systems, which stand alone."""
    modules: dict[str, list[str]] = {}
    for path in sorted((ROOT / "rescore").rglob("*.py")):
        if "research" in path.parts:
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(module_of(path))
    assert len(modules) > 400
    shared = {name: found for name, found in modules.items() if len(found) > 1}
    assert not shared
