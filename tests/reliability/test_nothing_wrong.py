"""Nothing wrong without an error, nothing lost: each of these once went wrong in
silence.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.formats import read, read_references, source
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.metrics.alignment import align
from rescore.metrics.counting import error_counts
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.test_ngram import ARPA

ENTRY = {
    "ref": "the old",
    "hyp_1": {"score": -1, "text": "the owl"},
    "hyp_2": {"score": -2, "text": "the old"},
}
LONG = "a" * 35 + "!"


def test_errors_of_any_length() -> None:
    random = np.random.default_rng(0)
    reference = [str(word) for word in random.integers(0, 5000, 12_000)]
    hypothesis = [
        "x" if spoilt else word
        for word, spoilt in zip(reference, random.random(12_000) < 0.1, strict=True)
    ]
    wrong = sum(one != other for one, other in zip(reference, hypothesis, strict=True))
    assert error_counts([reference], [hypothesis]).tolist() == [[wrong, 0, 0]]
    assert error_counts([["a"]], [["b"] * 66_000]).tolist() == [[1, 0, 65_999]]
    assert error_counts([["b"] * 66_000], [["a"]]).tolist() == [[1, 65_999, 0]]


def slowly_aligned(
    reference: list[str], hypothesis: list[str]
) -> list[tuple[str | None, str | None]]:
    """From the end: of equally cheap steps a pair of words, then an insertion, then a
    deletion.
    """

    @cache
    def cost(i: int, j: int) -> int:
        if not i or not j:
            return 3 * (i + j)
        change = 4 * (reference[i - 1] != hypothesis[j - 1])
        return min(cost(i - 1, j - 1) + change, cost(i - 1, j) + 3, cost(i, j - 1) + 3)

    i, j = len(reference), len(hypothesis)
    pairs: list[tuple[str | None, str | None]] = []
    while i or j:
        if (
            i
            and j
            and cost(i, j)
            == cost(i - 1, j - 1) + 4 * (reference[i - 1] != hypothesis[j - 1])
        ):
            i, j = i - 1, j - 1
            pairs.append((reference[i], hypothesis[j]))
        elif j and cost(i, j) == cost(i, j - 1) + 3:
            j -= 1
            pairs.append((None, hypothesis[j]))
        else:
            i -= 1
            pairs.append((reference[i], None))
    return pairs[::-1]


def test_alignment_by_its_definition() -> None:
    random = np.random.default_rng(1)
    for _ in range(150):
        one, other = (
            list(map(str, random.integers(0, 4, random.integers(0, 30))))
            for _ in range(2)
        )
        assert align(one, other) == slowly_aligned(one, other)


def test_pipes_are_read_whole(rescore: Run, tmp_path: Path) -> None:
    lines = [
        f"{index} ||| ä€ {'wörter ' * 8}||| LM0= -1 ||| -1.5\n" for index in range(3000)
    ]
    packed = "".join(lines).encode()
    done = rescore("convert", "-", input=packed)
    assert done.returncode == 0 and done.stdout.count("\n") == 3000
    (tmp_path / "m").write_bytes(packed)
    command = f'"{sys.executable}" -m rescore convert <(cat m)'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == 3000


def test_outputs_and_references_may_be_pipes(tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("u1 a b\nu2 c\n")
    (tmp_path / "ref").write_text("u1 a b\nu2 d\n")
    command = f'"{sys.executable}" -m rescore eval <(cat hyp) --ref <(cat ref)'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "33.33" in done.stdout, done.stderr


def test_columns_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    scores = {name: -float(index) for index, name in enumerate("abcdefgh")}
    table = {
        f"u{index}": {
            "ref": "a b",
            **{
                f"hyp_{rank}": {
                    "score": -rank,
                    "text": "a b" if rank == index % 3 else "b",
                    "scores": scores,
                }
                for rank in range(3)
            },
        }
        for index in range(5)
    }
    write_json(tmp_path / "l.json", table)
    found = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-m", "rescore", "convert", "l.json"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1 and list(
        json.loads(found.pop().splitlines()[0])["hyps"][0]["scores"]
    ) == list("abcdefgh")


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u0085", "\x0c", "\x0b", "\x1c", "\r"]
)
def test_only_newlines_end_lines(separator: str, tmp_path: Path) -> None:
    (tmp_path / "ref").write_text(
        f"u1 one{separator}two\nu2 three\n", encoding="utf-8", newline=""
    )
    assert read_references(tmp_path / "ref", ["u1", "u2"]) == {
        "u1": ("one two",),
        "u2": ("three",),
    }
    (tmp_path / "ref.trn").write_text(
        f"one{separator}two (u1)\nthree (u2)\n", encoding="utf-8", newline=""
    )
    assert read_references(tmp_path / "ref.trn", ["u1", "u2"]) == {
        "u1": ("one two",),
        "u2": ("three",),
    }


def test_ids_with_blanks_and_brackets(tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"a b (c)": ENTRY, "d": ENTRY})
    assert read_references(tmp_path / "l.json", ["a b (c)", "d"]) == {
        "a b (c)": ("the old",),
        "d": ("the old",),
    }


@pytest.mark.parametrize("text", ["u1 a\nu1 b\nu2 c\n", "a (u1)\nb (u1)\nc (u2)\n"])
def test_ids_that_come_twice(text: str, tmp_path: Path) -> None:
    (tmp_path / "ref").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="line 2: utterance u1 is duplicated"):
        read_references(tmp_path / "ref", ["u1", "u2"])


def test_keys_that_come_twice(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a", "text": "b", "score": 1}]}\n'
    )
    assert_one_line_error(
        rescore("convert", "l.jsonl"), "l.jsonl: line 1", "text is duplicated"
    )


def test_an_output_has_to_be_whole(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref.trn").write_text("a (u1)\nb (u2)\n")
    (tmp_path / "hyp.trn").write_text("a (u1)\n")
    assert_one_line_error(
        rescore("eval", "hyp.trn", "--ref", "ref.trn"), "no text in hyp.trn", "first u2"
    )
    (tmp_path / "ref").write_text("u1 a\nu2 b\nu3 c\n")
    (tmp_path / "hyp").write_text("u1 a\nu3 c\n")
    assert_one_line_error(
        rescore("eval", "hyp", "--ref", "ref"), "no text in hyp", "first u2"
    )
    assert " 0.00 " in rescore("eval", "hyp", "--ref", "ref", "--allow-missing").stdout


def test_plain_texts_stay_plain(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("the cat\nthe dog\na cow\n")
    (tmp_path / "hyp").write_text("the cat\na dog\na cow\n")
    assert "16.67" in rescore("eval", "hyp", "--ref", "ref").stdout


def test_espnet2_texts_and_scores_fit(tmp_path: Path) -> None:
    best = tmp_path / "logdir" / "output.1" / "1best_recog"
    best.mkdir(parents=True)
    (best / "text").write_text("u1 a\n")
    (best / "score").write_text("u1 -1\nu2 -2\n")
    with pytest.raises(UserError, match="text: no text for utterance u2"):
        read([tmp_path])
    (best / "score").write_text("u1 1.2.3\n")
    with pytest.raises(UserError, match=r"utterance u1: score is '1.2.3'"):
        read([tmp_path])


def test_no_nan_from_a_checkpoint_or_a_weight(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(model, tmp_path / "lm"))
    weights = load_file(folder / "model.safetensors")
    weights["blocks.0.fc1.bias"][0] = float("nan")
    save_file(weights, folder / "model.safetensors")
    write_json(tmp_path / "l.json", {"u": ENTRY})
    assert_one_line_error(
        rescore("score", "l.json", "--lm", "tta:lm"),
        "blocks.0.fc1.bias has values that are not num",
    )
    (tmp_path / "w.json").write_text('{"weights": {"s2s": NaN}}')
    assert_one_line_error(
        rescore("rerank", "l.json", "--weights", "w.json"), "weight of s2s is nan"
    )
    assert_one_line_error(
        rescore("l.json", "--lm", f"tta:{model}", "--weight", "nan"),
        "nan: expected a number from",
    )


def test_texts_of_several_lines(rescore: Run, tmp_path: Path) -> None:
    write_json(
        tmp_path / "l.json",
        {"u": {"hyp_1": {"score": 0, "text": "one\ntwo\u2028three"}}},
    )
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    for name, expected in (
        ("b", "u one two three\n"),
        ("b.trn", "one two three (u)\n"),
        ("b.txt", "one two three\n"),
    ):
        assert (
            rescore(
                "rerank", "l.json", "--weights", "w.json", "--best", name
            ).returncode
            == 0
        )
        assert (tmp_path / name).read_text() == expected
    for bad in ("a b", "a\nb", ""):
        write_json(tmp_path / "l.json", {bad: {"hyp_1": {"score": 0, "text": "x"}}})
        done = rescore("rerank", "l.json", "--weights", "w.json", "--best", "c")
        assert_one_line_error(done, "cannot be written in this format")
        assert not (tmp_path / "c").exists()


def test_training_twice_gives_the_same_bytes(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(
        "\n".join(SENTENCES[:60]) + "\nqq ww ee rr\n", encoding="utf-8"
    )
    config = {
        "layers": 1,
        "d_model": 16,
        "heads": 2,
        "d_ff": 16,
        "vocab_size": 300,
        "max_positions": 40,
    }
    write_json(tmp_path / "c.json", config)
    for out in ("one", "two"):
        options = [
            "--config",
            "c.json",
            "--steps",
            "2",
            "--batch-tokens",
            "200",
            "--held-out",
            "5",
        ]
        done = rescore(
            "train", "--lm", "tta", "--text", "t.txt", "--out", out, *options
        )
        assert done.returncode == 0, done.stderr
    for name in ("tokenizer.json", "config.json", "model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (
            tmp_path / "two" / name
        ).read_bytes()
    texts = {train_wordpiece(["ab cd ef gh"] * 3, 40).fingerprint for _ in range(5)}
    assert len(texts) == 1


def test_vocabulary_keeps_its_size() -> None:
    letters = [chr(0x4E00 + index) for index in range(20_000)]
    assert (
        train_wordpiece(
            [" ".join(letters), "x" * 1_000_000, "the old clock " * 50], 800
        ).vocab_size
        <= 800
    )


def test_rec_text_null(tmp_path: Path) -> None:
    output = [{"rec_text": None, "score": -1.0}]
    write_json(tmp_path / "data.json", {"utts": {"u": {"output": output}}})
    with pytest.raises(
        UserError,
        match="utterance u, hypothesis 1: rec_text: expected a text, found null",
    ):
        read([tmp_path / "data.json"])


def test_a_scale_below_zero(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    write_json(
        tmp_path / "w.json",
        {"weights": {"s2s": 1}, "decision": {"name": "mbr", "scale": -1}},
    )
    assert_one_line_error(
        rescore("rerank", "l.json", "--weights", "w.json"),
        "must be 0 or a number above 0",
    )


@pytest.mark.parametrize(
    ("name", "content", "arguments", "part"),
    [
        (
            "ref",
            f"{LONG} " + " " * 200_000 + "\n",
            ["tune", "l.json", "--ref", "ref", "--word-bonus"],
            "empty",
        ),
        (
            "c",
            "{}",
            ["run", "l.json", "--folds", "2", "--speaker", "((a+))+$"],
            "does not match it",
        ),
        (
            "c",
            "{}",
            ["run", "l.json", "--folds", "2", "--speaker", "(?=a)"],
            "'(?=a)' is not a regular expr",
        ),
        (
            "c",
            "{}",
            ["run", "l.json", "--folds", "2", "--speaker", "\udcff"],
            "not UTF-8",
        ),
        (
            "c",
            "{}",
            ["run", "l.json", "--folds", "2", "--speaker", "(a?){36}(a){36}$"],
            "does not match it",
        ),
    ],
)
def test_nothing_runs_away(
    rescore: Run,
    tmp_path: Path,
    name: str,
    content: str,
    arguments: list[str],
    part: str,
) -> None:
    hypothesis = {"score": -1, "text": "the owl", "scores": {"lm": -1}}
    write_json(tmp_path / "l.json", {LONG: {"ref": "the old", "hyp_1": hypothesis}})
    (tmp_path / name).write_text(content)
    began = time.process_time()
    assert_one_line_error(rescore(*arguments), part)
    assert time.process_time() - began < 5


def test_a_packed_file_has_an_end(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LARGEST_DOCUMENT", 1_000_000)
    monkeypatch.setattr(source, "LONGEST_LINE", 1_000_000)
    for start, told in (
        (b"{", ["more than 1,000,000 characters", "JSON Lines"]),
        (b"0 ||| ", ["line 1 has more than 1,0"]),
    ):
        text = start + (b" " if start == b"{" else b"a") * 1_100_000
        (tmp_path / "long").write_bytes(text)
        assert_one_line_error(rescore("convert", "long"), *told)
        (tmp_path / "long.gz").write_bytes(gzip.compress(text))
        assert_one_line_error(rescore("convert", "long.gz"), *told)


def test_a_network_too_large(rescore: Run, model: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(model, tmp_path / "lm"))
    config = json.loads((folder / "config.json").read_text())
    write_json(tmp_path / "l.json", {"u": ENTRY})
    for field, value in (
        ("layers", 1_000_000),
        ("d_ff", 10**12),
        ("layers", True),
        ("d_model", "x"),
    ):
        write_json(folder / "config.json", config | {field: value})
        assert_one_line_error(
            rescore("score", "l.json", "--lm", "tta:lm"), f"config.json: {field}"
        )


def test_bits_of_a_cache(rescore: Run, tmp_path: Path) -> None:
    """The score cache: bits that a disk turned give no wrong score and no traceback."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    write_json(tmp_path / "l.json", {f"u{index}": ENTRY for index in range(5)})
    command = ["score", "l.json", "--lm", "ngram:lm.arpa", "--cache", "cache"]
    whole = rescore(*command).stdout
    (file,) = (tmp_path / "cache").iterdir()
    content = file.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        place = int(random.integers(len(damaged)))
        damaged[place] ^= 1 << int(random.integers(8))
        file.write_bytes(damaged)
        done = rescore(*command)
        assert (done.returncode, done.stdout) == (0, whole), done.stderr
