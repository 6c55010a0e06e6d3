"""As many threads as the process may use cores, not as many as the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from rescore.lms.devices import (
    cache_size,
    choose_device,
    choose_precision,
    cpu_multiplies_bfloat16,
    cpu_name,
    token_budget,
    usable_cores,
)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("", 8)],
)
def test_quota(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: set(range(8)), raising=False
    )
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(tmp_path / "cpu.max") == cores
    assert usable_cores(tmp_path / "absent") == 8


def test_threads_are_only_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        for cores, wanted in ((8, 4), (3, 3)):
            monkeypatch.setattr(
                "rescore.lms.devices.usable_cores", lambda cores=cores: cores
            )
            choose_device("cpu")
            assert torch.get_num_threads() == wanted
    finally:
        torch.set_num_threads(threads)


def test_batches_fit_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("index0", "32K"), ("index3", "32M"), ("index2", "1M")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(size + "\n")
    assert cache_size(tmp_path) == 32 << 20
    assert cache_size(tmp_path / "absent") == 16 << 20
    (tmp_path / "index3" / "size").write_text("many\n")
    assert cache_size(tmp_path) == 16 << 20
    for cache, tokens in ((1 << 10, 256), (20 << 20, 1024), (1 << 40, 4096)):
        monkeypatch.setattr("rescore.lms.devices.cache_size", lambda cache=cache: cache)
        assert token_budget(torch.device("cpu"), 20 << 10) == tokens


def test_a_cpu_has_a_name(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: A CPU: 3 GHz\nflags : fpu\n")
    assert cpu_name(file) == "A CPU: 3 GHz"
    file.write_text("processor\t: 0\n")
    assert cpu_name(file) == cpu_name(tmp_path / "absent") != ""


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags : fpu avx2 avx512f avx512_bf16", True),
        ("flags : fpu avx2 avx512f", False),
        ("Features : fp asimd bf16 i8mm", True),
        ("Features : fp asimd asimdhp", False),
    ],
)
def test_a_cpu_without_bfloat16_is_told(
    flags: str,
    found: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "cpuinfo").write_text(flags + "\n")
    assert cpu_multiplies_bfloat16(tmp_path / "cpuinfo") is found
    assert cpu_multiplies_bfloat16(tmp_path / "absent") is None
    for says in (found, None):
        monkeypatch.setattr(
            "rescore.lms.devices.cpu_multiplies_bfloat16", lambda says=says: says
        )
        caplog.clear()
        for name in ("float32", "bf16", "int8"):
            assert choose_precision(name, torch.device("cpu")) == name
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == (says is False)
        assert all("--precision bf16: this CPU" in line for line in lines)
