"""Hostile or damaged models, and files without end: an error in one line, in little
time and memory.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, assert_one_line_error, write_json
from tests.large.test_huggingface import build

ENTRY = {
    "ref": "the old",
    "hyp_1": {"score": -1, "text": "the owl"},
    "hyp_2": {"score": -2, "text": "the old"},
}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_json(tmp_path / "l.json", {"u": ENTRY})


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "lm"))


def within(megabytes: int, seconds: int) -> Callable[[], None]:
    """What limits a child to so much memory beside what it has to begin with, and so
    much processor time.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return limit


def rescore_within(
    folder: Path, limit: Callable[[], None], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rescore", *arguments],
        cwd=folder,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("option", ["--weights", "--golden"])
def test_a_file_without_end(lists: Path, option: str) -> None:
    command = ["rerank", "l.json"] if option == "--weights" else ["check", "l.json"]
    done = rescore_within(lists.parent, within(500, 20), *command, option, "/dev/zero")
    assert_one_line_error(done, "/dev/zero: more than 67,108,864 bytes")


def test_sizes_are_those_of_the_weights_before_there_is_room_for_them(
    folder: Path, lists: Path
) -> None:
    config = json.loads((folder / "config.json").read_text())
    # 200 GB
    write_json(folder / "config.json", config | {"layers": 900, "d_ff": 900_000})
    done = rescore_within(
        lists.parent, within(1500, 60), "score", "l.json", "--lm", "tta:lm"
    )
    assert_one_line_error(done, "config.json asks for ")


def test_layers_of_hugging_face(rescore: Run, lists: Path, tmp_path: Path) -> None:
    built = build("gpt2", tmp_path / "gpt2")
    for name, value in (
        ("n_layer", 100_000),
        ("n_embd", 10**9),
        ("vocab_size", 10**400),
    ):
        config = json.loads((built / "config.json").read_text())
        write_json(tmp_path / "gpt2" / "config.json", config | {name: value})
        assert_one_line_error(
            rescore("score", lists, "--lm", f"hf-causal:{built}"),
            f"config.json: {name} is {str(value)[:6]}",
        )
        write_json(built / "config.json", config)


def change_unk(tokenizer: dict[str, Any]) -> None:
    tokenizer["model"]["unk_token"] = "[NOBODY]"


def truncate(tokenizer: dict[str, Any]) -> None:
    tokenizer["truncation"] = {
        "direction": "Right",
        "max_length": 1,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    tokenizer["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }


def far_ids(tokenizer: dict[str, Any]) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    last = max(vocabulary, key=lambda token: vocabulary[token])
    vocabulary[last] = 1_000_000


def test_a_tokenizer_that_cannot_cut(rescore: Run, folder: Path, lists: Path) -> None:
    spoil(folder, change_unk)
    assert_one_line_error(
        rescore("score", lists, "--lm", "tta:lm"),
        "tokenizer.json: cannot cut",
        "Missing [UNK]",
    )


def test_ids_beyond_the_vocabulary(rescore: Run, folder: Path, lists: Path) -> None:
    spoil(folder, far_ids)
    assert_one_line_error(
        rescore("score", lists, "--lm", "tta:lm"), "tokenizer.json: ids are not 0 to"
    )


def test_a_tokenizer_neither_cuts_off_nor_fills_up(
    rescore: Run, folder: Path, model: Path, lists: Path
) -> None:
    def hypotheses(lm: str) -> list[dict[str, Any]]:
        lines = rescore("score", lists, "--lm", lm).stdout.splitlines()
        return [json.loads(line)["hyps"] for line in lines]

    whole = hypotheses(f"tta:{model}")
    spoil(folder, truncate)
    assert len(whole) == 1 and hypotheses("tta:lm") == whole


def spoil(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    change(tokenizer)
    write_json(folder / "tokenizer.json", tokenizer)


def test_a_panic_of_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no Exception."""
    from rescore.errors import UserError
    from rescore.lms import tokenizer

    class Panic(BaseException):
        pass

    def panic(*arguments: object, **options: object) -> None:
        raise Panic("index out\nof bounds")

    found = tokenizer.Tokenizer.load(folder / "tokenizer.json")
    monkeypatch.setattr(
        found, "_tokenizer", type("Library", (), {"encode_batch": panic})()
    )
    with pytest.raises(
        UserError, match="cannot cut text into tokens \\(index out of bounds\\)"
    ):
        found.encode(["a"])
    monkeypatch.setattr(
        found,
        "_tokenizer",
        type(
            "Library",
            (),
            {"encode_batch": lambda *a, **o: exec("raise KeyboardInterrupt")},
        )(),
    )
    with pytest.raises(KeyboardInterrupt):
        found.encode(["a"])


def test_folds_are_two_or_more(rescore: Run, lists: Path) -> None:
    for number in ("0", "1", "-3"):
        assert_one_line_error(
            rescore(lists, "--lm", "tta", "--folds", number), "--folds", "from 2 on"
        )


def test_text_has_no_byte_order_mark(rescore: Run, model: Path, tmp_path: Path) -> None:
    """A mark is not scored, and a carriage return ends no line."""
    for text, plain in (
        ("\ufeffthe old\r\nclock\n", "the old\nclock\n"),
        ("the\rold\n", "the old\n"),
    ):
        (tmp_path / "t").write_bytes(text.encode())
        (tmp_path / "p").write_bytes(plain.encode())
        found = [
            rescore("score", "--text", name, "--lm", f"tta:{model}").stdout
            for name in ("t", "p")
        ]
        assert found[0] == found[1] and "PPL" in found[0]
    (tmp_path / "t").write_text("\ufeffthe old\n")
    assert_one_line_error(
        rescore("score", "--text", "t", "--lm", f"tta:{model}", "--strict"),
        "begins with a byte order mark",
    )
