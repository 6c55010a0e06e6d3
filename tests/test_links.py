"""Links of all Markdown pages of the repository lead to a file or a section of it. No
address of the web is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.conftest import ROOT

FOLDERS = ("docs", "examples", "models", "data", "tests", ".github")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^()\s>]+)>?[^()]*\)")
CODE = re.compile(r"^( *)```.*?^\1```|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
WEB = ("http://", "https://", "mailto:")


def pages() -> list[Path]:
    """All Markdown files of the repository, and no file of an installed package."""
    found = sorted(ROOT.glob("*.md"))
    for folder in FOLDERS:
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


def links(text: str) -> Iterator[str]:
    """Targets of the links of a page, without those in code."""
    for match in LINK.finditer(CODE.sub("", text)):
        yield match[1]


def sections(text: str) -> set[str]:
    """The names under which links reach places of a page: the words of a heading in
    lower case with hyphens, as GitHub and MkDocs make them, and ids in HTML.
    """
    names = set(re.findall(r'id="([^"]+)"', text))
    for match in HEADING.finditer(CODE.sub(_without_marks, text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
        words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        name = re.sub(r"\s", "-", words)
        number = 1
        unique = name
        while unique in names:
            unique = f"{name}-{number}"
            number += 1
        names.add(unique)
    return names


def _without_marks(code: re.Match[str]) -> str:
    """The text of code in a line; nothing of a block of code."""
    return "" if "```" in code[0] else code[0].strip("`")


def broken(page: Path, root: Path) -> list[str]:
    """The links of a page that lead nowhere, or out of the repository."""
    text = page.read_text(encoding="utf-8")
    inner = [link for link in links(text) if not link.startswith(WEB)]
    return [link for link in inner if not leads_somewhere(page, link, root)]


def leads_somewhere(page: Path, link: str, root: Path) -> bool:
    name, _, section = unquote(link).partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(root):
        return False
    return not section or section in sections(target.read_text(encoding="utf-8"))


def test_all_pages_are_looked_at() -> None:
    names = {str(page.relative_to(ROOT)) for page in pages()}
    assert {"README.md", "SECURITY.md", "docs/index.md"} <= names
    assert "examples/plugin/README.md" in names


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_sections(page: Path) -> None:
    assert broken(page, ROOT) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `rescore` page\n\n"
        "[good](page.md#a-rescore-page), [own](#a-rescore-page), [web](https://a.b/c),"
        " [no file](absent.md), [no section](page.md#absent), [out](../),"
        " `[code](absent.py)`\n\n"
        "```\n[block](absent.txt)\n```\n",
        encoding="utf-8",
    )
    assert broken(page, tmp_path) == ["absent.md", "page.md#absent", "../"]


def test_the_site_has_the_files_beside_the_docs_that_pages_link_to() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    copied = re.search(r"^SITE_FILES := (.*)$", makefile, re.MULTILINE)
    assert copied is not None
    folders = [ROOT / "docs", *(ROOT / name for name in copied[1].split())]
    for page in (ROOT / "docs").rglob("*.md"):
        for link in links(page.read_text(encoding="utf-8")):
            if link.startswith((*WEB, "#")):
                continue
            target = (page.parent / link.partition("#")[0]).resolve()
            assert any(map(target.is_relative_to, folders)), f"{page.name}: {link}"
