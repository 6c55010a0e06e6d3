"""The jobs on GitHub run what `.ci/run` runs, and the files for contributors name what
is there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescore.parts import DECISIONS
from tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [
    ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml" for name in ("bug", "feature")
]
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
RELEASE_ONLY = {"dist"}
"""Targets of the release that no change needs."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(workflow: Path) -> list[str]:
    """The shell lines of all steps of a workflow."""
    lines: list[str] = []
    for job in read(workflow)["jobs"].values():
        for step in job["steps"]:
            lines += step.get("run", "").splitlines()
    return lines


def targets(lines: list[str]) -> set[str]:
    """The targets of make that shell lines name."""
    names: set[str] = set()
    for line in lines:
        match = re.match(r"make (.*)", line.partition("#")[0].strip())
        if match:
            words = re.sub(r'\w+="[^"]*"|\w+=\S+', "", match[1]).split()
            names.update(words)
    return names


def described() -> set[str]:
    """The targets that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))


def test_every_phony_target_has_a_line_in_the_help() -> None:
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].replace("\\", "").split()) == described()


def test_jobs_run_the_targets_of_ci() -> None:
    of_ci = targets(CI.splitlines())
    of_jobs = set().union(*[targets(commands(path)) for path in WORKFLOWS])
    assert len(of_ci) >= 7 and of_ci <= described()
    assert of_jobs == of_ci | RELEASE_ONLY


def test_ci_begins_with_what_the_readme_says() -> None:
    """No package is installed before `make demo` and `make test`."""
    installed = CI.index("apt-get")
    for target in ("make demo\n", "make test\n"):
        assert CI.index(target) < installed


def test_jobs_install_the_packages_that_ci_installs() -> None:
    """Packages of Debian for the tests against other tools."""
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert _packages(CI) == _packages(workflow) != set()


def _packages(script: str) -> set[str]:
    match = re.search(r"--no-install-recommends ((?:.*\\\n)*.*)", script)
    assert match is not None
    words = match[1].replace("\\", "").replace("> /dev/null", "").split()
    return set(words)


def test_jobs_have_the_oldest_and_the_newest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [
        classifier.rpartition(" ")[2]
        for classifier in project["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    ]
    assert project["requires-python"] == f">={versions[0]}"
    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_have_few_rights(path: Path) -> None:
    """A workflow reads; only the jobs that publish may do more."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert name == "publish" or "permissions" not in job, name


def test_hooks_are_the_checks_of_lint() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = repository["hooks"]
    entries = [hook["entry"] for hook in hooks]
    assert entries == [
        ".venv/bin/ruff format",
        ".venv/bin/ruff check",
        ".venv/bin/mypy",
    ]
    folders = re.search(r"ruff check (.*)$", MAKEFILE, re.MULTILINE)
    assert folders is not None
    for hook in hooks[:2]:
        assert hook["files"] == f"^({'|'.join(folders[1].split())})/"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_ask_each_question_once(path: Path) -> None:
    form = read(path)
    ids = [question["id"] for question in form["body"]]
    assert form["name"] and form["description"] and len(set(ids)) == len(ids)


def test_the_bug_form_asks_for_what_a_figure_needs() -> None:
    ids = {question["id"] for question in read(FORMS[0])["body"]}
    assert {"command", "signature", "version", "format"} <= ids


def test_the_citation_is_that_of_the_readme() -> None:
    citation = read(ROOT / "CITATION.cff")
    paper = citation["preferred-citation"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert paper["url"] in readme
    assert [author["family-names"] for author in paper["authors"]] == [
        "Shin",
        "Lee",
        "Yoon",
        "Jung",
    ]


def test_contributing_names_targets_and_a_part_that_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", page))
    assert targets(CI.splitlines()) <= named <= described()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(ROOT)
    assert "longest" not in DECISIONS
    try:
        exec(block, {"__name__": "part"})
    finally:
        DECISIONS.remove("longest")
    assert float(capsys.readouterr().out) > 0
