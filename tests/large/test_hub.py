"""Models by name: a cache laid out as huggingface_hub lays it out stands in for the
hub.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.large import hub
from rescore.lms import load, without_context
from tests.conftest import Run, assert_one_line_error, write_json
from tests.large.test_huggingface import build

constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one causal model, `owner/tiny-gpt`."""
    folder = tmp_path / "hub"
    repository = folder / "models--owner--tiny-gpt"
    build("gpt2", tmp_path / "model")
    shutil.copytree(tmp_path / "model", repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_a_name_is_found_in_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cache)
    by_name, by_folder = load("hf-causal:owner/tiny-gpt"), load("hf-causal:model")
    assert (
        by_name.score(without_context(["the old clock"]))[0].sum
        == by_folder.score(without_context(["the old clock"]))[0].sum
    )
    assert by_name.fingerprint == by_folder.fingerprint
    assert (
        by_name.name == "hf-causal"
        and by_name.model == f"hf-causal:owner/tiny-gpt@{COMMIT[:12]}"
    )


def test_the_signature_names_model_and_revision(cache: Path, rescore: Run) -> None:
    lists = write_json(
        cache / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    done = rescore(lists, "--lm", "hf-causal:owner/tiny-gpt", "--weight", "0.3")
    assert done.returncode == 0, done.stderr
    assert f"lm:hf-causal=hf-causal:owner/tiny-gpt%40{COMMIT[:12]}@" in done.stdout


def test_a_revision_can_be_asked_for(cache: Path) -> None:
    folder, revision = hub.find(Path(f"owner/tiny-gpt@{COMMIT}"))
    assert folder.name == COMMIT and revision == f"owner/tiny-gpt@{COMMIT[:12]}"
    with pytest.raises(UserError, match="not in the Hugging Face cache"):
        hub.find(Path("owner/tiny-gpt@other"))


def test_unknown_and_offline_is_one_line(cache: Path, rescore: Run) -> None:
    lists = write_json(
        cache / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    done = rescore(lists, "--lm", "hf-causal:owner/unknown", "--weight", "0.3")
    assert_one_line_error(
        done, "owner/unknown: no such folder", "HF_HUB_OFFLINE is set"
    )


def test_only_data_is_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def download(name: str, **options: object) -> str:
        asked.update(options, name=name)
        raise OSError("no route to host")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(
        UserError,
        match=r"owner/unknown: no such folder.* failed: OSError: no route to host",
    ):
        hub.find(Path("owner/unknown@v1"))
    assert asked["name"] == "owner/unknown" and asked["revision"] == "v1"
    assert not any(
        pattern.endswith((".bin", ".py", ".pt", "*")) for pattern in hub.FILES
    )
    assert asked["allow_patterns"] == hub.FILES


def test_a_name_without_an_owner(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest models have none: `gpt2`."""
    (cache / "hub" / "models--owner--tiny-gpt").rename(cache / "hub" / "models--gpt2")
    assert load("hf-causal:gpt2").model == f"hf-causal:gpt2@{COMMIT[:12]}"
    with pytest.raises(
        UserError, match="distilgpt2: no such folder, and not in the Hugging Face cache"
    ):
        load("hf-causal:distilgpt2")


def test_a_configuration_alone_is_no_model(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = cache / "hub" / "models--owner--tiny-gpt" / "snapshots" / COMMIT
    for weights in snapshot.glob("*.safetensors"):
        weights.unlink()
    asked: list[str] = []

    def download(name: str, **options: object) -> str:
        asked.append(name)
        return str(cache / "model")

    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        load("hf-causal:owner/tiny-gpt")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    load("hf-causal:owner/tiny-gpt")
    assert asked == ["owner/tiny-gpt"]


@pytest.mark.parametrize(
    "path", ["exp/model/last", "../model", "/abs/model", "a b/c", ".hidden/x"]
)
def test_paths_are_no_names(cache: Path, path: str) -> None:
    assert hub.find(Path(path)) == (Path(path), None)
