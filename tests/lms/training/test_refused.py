"""What `rescore train` refuses before anything is written."""

from __future__ import annotations

from pathlib import Path

from rescore.lms.backends import shipped_models
from rescore.lms.config import NetworkConfig
from tests.conftest import Run, assert_one_line_error

TINY = (
    "--config",
    "tiny.json",
    "--held-out",
    "2",
    "--batch-tokens",
    "100",
    "--device",
    "cpu",
    "--text",
    "text.txt",
)
LINES = [
    f"the {noun} is {colour}"
    for noun in ("house", "river", "garden")
    for colour in ("red", "blue", "old", "near")
]


def tiny(folder: Path) -> None:
    (folder / "text.txt").write_text("\n".join(LINES * 3))
    NetworkConfig(
        "tta", 60, layers=1, d_model=8, heads=2, d_ff=16, max_positions=24
    ).save(folder / "tiny.json")


def test_a_model_of_another_kind_is_not_overwritten(
    rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    assert (
        rescore("train", "--lm", "tta", *TINY, "--steps", "1", "--out", "lm").returncode
        == 0
    )
    before = {path.name: path.read_bytes() for path in (tmp_path / "lm").glob("*.*")}
    done = rescore(
        "train", "--lm", "lexical", "--pairs", "text.txt", "text.txt", "--out", "lm"
    )
    assert_one_line_error(done, "--out lm: holds a model of kind tta, not lexical")
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "lm").glob("*.*")
    } == before


def test_weights_of_a_network_that_starts_from_equal_ones(
    rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    assert (
        rescore(
            "train", "--lm", "tta", *TINY, "--steps", "0", "--out", "tta"
        ).returncode
        == 0
    )
    assert (
        rescore(
            "train",
            "--lm",
            "unilm",
            *TINY,
            "--steps",
            "1",
            "--init",
            "tta",
            "--out",
            "new",
        ).returncode
        == 0
    )


def test_what_would_have_no_effect(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    done = rescore(
        "train", "--lm", "tta", *TINY, "--steps", "1", "--resume", "--out", "none"
    )
    assert_one_line_error(done, "--out none: there is nothing to resume")
    assert not (tmp_path / "none").exists()


def test_text_without_a_word_that_occurs_again(rescore: Run, tmp_path: Path) -> None:
    """As in Chinese, where a line is a word: the lexicon is empty, and the card is
    written all the same.
    """
    tiny(tmp_path)
    lines = [f"我们去公园玩{number}次的时候天气很好\n" for number in range(120)]
    (tmp_path / "text.txt").write_text("".join(lines), encoding="utf-8")
    done = rescore("train", "--lm", "tta", *TINY, "--steps", "1", "--out", "new")
    assert done.returncode == 0, done.stderr
    assert "\ntokens_per_word: " in (tmp_path / "new" / "README.md").read_text(
        encoding="utf-8"
    )


def test_a_card_with_a_damaged_number(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    assert (
        rescore(
            "train", "--lm", "tta", *TINY, "--steps", "0", "--out", "new"
        ).returncode
        == 0
    )
    lists = '{"id": "u", "hyps": [{"text": "a", "score": -1.0}]}\n'
    (tmp_path / "l.jsonl").write_text(lists, encoding="utf-8")
    for value in ("abc", "1,17", "nan", "-1", "inf"):
        (tmp_path / "new" / "README.md").write_text(
            f"---\nkind: tta\ntokens_per_word: {value}\n---\n", encoding="utf-8"
        )
        done = rescore("score", "l.jsonl", "--lm", "tta:new", "-o", "o.jsonl")
        assert_one_line_error(
            done, "README.md: tokens_per_word is", value, "write a number"
        )


def test_a_model_without_a_training_is_not_overwritten(
    rescore: Run, tmp_path: Path
) -> None:
    """As every shipped or downloaded one."""
    tiny(tmp_path)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / "lm").mkdir(exist_ok=True)
        (tmp_path / "lm" / name).write_bytes(
            (shipped_models() / "tta-small" / name).read_bytes()
        )
    before = {path.name: path.read_bytes() for path in (tmp_path / "lm").iterdir()}
    done = rescore("train", "--lm", "tta", *TINY, "--steps", "1", "--out", "lm")
    assert_one_line_error(
        done, "--out lm: holds a model; give another folder, or delete this one"
    )
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "lm").iterdir()
    } == before


def test_options_of_another_kind(rescore: Run, tmp_path: Path) -> None:
    """Refused in one line; a kind's own help shows its options alone."""
    tiny(tmp_path)
    for kind, option in (
        ("tta", "--mask-rate"),
        ("ngram", "--steps"),
        ("bilm", "--order"),
        ("unilm-bw", "--context"),
    ):
        done = rescore(
            "train", "--lm", kind, "--text", "text.txt", "--out", "x", option, "2"
        )
        assert_one_line_error(done, f"train --lm {kind} takes no {option}; give it to")
    assert not (tmp_path / "x").exists()
    helps = (
        rescore("train", "--lm", kind, "--help-all").stdout
        for kind in ("bilm", "ngram")
    )
    own, other = (text.partition("\nOptions:")[2] for text in helps)
    assert (
        "--mask-rate" in own
        and "--pairs" in own
        and "--steps" in own
        and "--order" not in own
    )
    assert "--order" in other and "--steps" not in other and "--pairs" not in other
