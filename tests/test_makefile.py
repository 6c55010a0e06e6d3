"""`make demo` goes on where KenLM's module cannot be compiled, and says so in one
line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from rescore.service.command import ServiceOptions
from rescore.service.health import health_of
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


class Healthy(BaseHTTPRequestHandler):
    """Answers `GET /health`."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a service that is healthy."""
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        answering = Thread(target=server.serve_forever)
        answering.start()
        yield server.server_port
        server.shutdown()
        answering.join()


def check_of_image() -> list[str]:
    """The words of the command that checks the health of the image."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    python, *words = json.loads(line)
    assert python == "python"
    return [sys.executable, *words]


@pytest.mark.parametrize(
    ("arguments", "is_healthy"),
    [
        ("serve --port {port}", True),
        ("-q serve --lm tta --port={port} --host 0.0.0.0", True),
        ("serve --port {unused}", False),
        ("serve --host=127.0.0.1 --port {unused}", False),
        ("serve --port 0", True),
        ("test.json --port {unused}", True),
    ],
)
def test_the_image_checks_the_health_of_the_service_alone(
    arguments: str, is_healthy: bool, port: int, tmp_path: Path
) -> None:
    """It asks the port at which the service listens, without a proxy."""
    words = arguments.format(port=port, unused=1).split()
    command = "".join(f"{word}\0" for word in ["python", "rescore", *words])
    (tmp_path / "cmdline").write_text(command)
    done = subprocess.run(
        [*check_of_image(), str(tmp_path / "cmdline")],
        capture_output=True,
        text=True,
        env=os.environ | {"http_proxy": "http://127.0.0.1:1"},
    )
    assert (done.returncode == 0) == is_healthy, done.stderr
    assert len(done.stderr.splitlines()) == int(not is_healthy)


def test_the_image_asks_the_usual_address_without_options() -> None:
    defaults = {one.name: one.default for one in ServiceOptions.declared()}
    url = f"http://{defaults['host']}:{defaults['port']}/health"
    assert health_of(["rescore", "serve"]) == url
    assert health_of(["rescore", "serve", "--host", "::"]) == url.replace(
        "127.0.0.1", "[::1]"
    )
    assert health_of(["rescore", "test.json"]) is None
