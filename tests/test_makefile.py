"""`make demo` goes on where KenLM's module cannot be compiled, and says so in one
line.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rescore.service.command import ServiceOptions
from tests.conftest import ROOT


def test_kenlm_is_no_condition(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("pyproject.toml", ".venv/torch", ".venv/installed"):
        (tmp_path / name).touch()
    # a Python without kenlm, and one that installs nothing
    for name in ("python", "pip"):
        (tmp_path / ".venv" / "bin" / name).write_text(
            "#!/bin/sh\nexit 1\n", encoding="utf-8"
        )
        (tmp_path / ".venv" / "bin" / name).chmod(0o755)
    done = subprocess.run(
        ["make", ".venv/ngram"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stderr
    assert "ngram:lm.arpa is read in NumPy" in done.stdout
    plan = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert "kenlm" in plan or (ROOT / ".venv" / "ngram").exists()


def test_torch_without_gpu_libraries_comes_from_one_place() -> None:
    """README, FAQ, Makefile, Dockerfile and the action name the same index, each before
    `rescore` is installed.
    """
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/faq.md", "Makefile")
    }
    texts |= {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("Dockerfile", "action.yml")
    }
    index = re.search(r"^TORCH_INDEX \?= (\S+)$", texts["Makefile"], re.MULTILINE)
    assert index is not None
    for name, text in texts.items():
        assert set(
            re.findall(r"https://download\.pytorch\.org/\S*?(?=[`\s])", text)
        ) == {index[1]}, name
    for name, package in (
        ("README.md", "install ."),
        ("Dockerfile", "/tmp/*.whl"),
        ("action.yml", 'install "$ACTION"'),
    ):
        assert texts[name].index(index[1]) < texts[name].index(package), name


def test_the_image_runs_the_service_and_not_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last = lines[len(lines) - lines[::-1].index("FROM python:3.12-slim") :]
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert users and not {"0", "root"} & {user.partition(":")[0] for user in users}
    assert any("serve]" in line or "serve," in line for line in last)
    assert 'ENTRYPOINT ["rescore"]' in last


@pytest.mark.parametrize("arguments", ["serve", "test.json"])
def test_the_image_checks_the_health_of_the_service_alone(
    arguments: str, tmp_path: Path
) -> None:
    """The check asks the usual port, at which nothing answers here."""
    (line,) = re.findall(
        r"^HEALTHCHECK .* CMD (.*)$",
        (ROOT / "Dockerfile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    _, flag, check = json.loads(line)
    (tmp_path / "cmdline").write_bytes(f"python\0rescore\0{arguments}\0".encode())
    port = next(one for one in ServiceOptions.declared() if one.name == "port").default
    assert f":{port}/health" in check
    check = check.replace("/proc/1/cmdline", str(tmp_path / "cmdline"))
    check = check.replace(f":{port}/", ":1/")
    done = subprocess.run([sys.executable, flag, check], capture_output=True)
    assert (done.returncode == 0) == (arguments != "serve")
