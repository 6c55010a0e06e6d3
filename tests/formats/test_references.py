"""References: which kind a file is, several of them, and what is said where it is not
clear.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.formats.references import References, read_references
from tests.conftest import Run, assert_one_line_error


def read(path: Path, ids: list[str], kind: str | None = None) -> list[str]:
    found = read_references(References((str(path),), kind), ids)
    return [found[name][0] for name in ids]


def test_words_that_are_ids_of_others(tmp_path: Path) -> None:
    """Lines are plain where their number fits and not every line begins with an id."""
    ref = tmp_path / "ref"
    ref.write_text("2 cats\ntwo dogs\n")
    assert read(ref, ["1", "2"]) == ["2 cats", "two dogs"]
    assert read(ref, ["two", "2"], "kaldi") == ["dogs", "cats"]


def test_numbers_that_may_be_ids_or_words(tmp_path: Path) -> None:
    ref = tmp_path / "ref"
    ref.write_text("1 cat sat\n0 dogs ran\n")
    assert (
        read(ref, ["0", "1"])
        == read(ref, ["0", "1"], "kaldi")
        == ["dogs ran", "cat sat"]
    )
    assert read(ref, ["0", "1"], "plain") == ["1 cat sat", "0 dogs ran"]
    ref.write_text("1 cat sat\n1 dog ran\n")
    assert read(ref, ["0", "1"]) == ["1 cat sat", "1 dog ran"]
    ref.write_text("0 a\n1 b\n10 c\n2 d\n")  # sorted as Kaldi sorts
    assert read(ref, ["0", "1", "2", "10"]) == ["a", "b", "d", "c"]


def test_stm_is_for_whole_recordings(tmp_path: Path) -> None:
    ref = tmp_path / "ref.stm"
    ref.write_text(
        ";; a comment\nu2 1 spk 0.00 1.50 <o,f0> B C\nu1 1 spk 0.00 2.50 A\n"
    )
    with pytest.raises(
        UserError,
        match=r"ref.stm: is an STM, for whole recordings; add --whole to rescore eval",
    ):
        read(ref, ["u1", "u2"])


def test_trn_that_begins_with_alternatives_is_no_json(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref.trn").write_text("{ uh / @ } the cat (u1)\n[noise] yes (u2)\n")
    assert read_references(str(tmp_path / "ref.trn"), ["u1", "u2"]) == {
        "u1": ("uh the cat", "the cat"),
        "u2": ("[noise] yes",),
    }
    (tmp_path / "noise.trn").write_text("[noise] yes (u2)\nthe cat (u1)\n")
    assert read(tmp_path / "noise.trn", ["u2"]) == ["[noise] yes"]
    assert " 0.00 " in rescore("eval", "noise.trn", "--ref", "ref.trn").stdout


def test_a_manifest_beside_numbered_lists(tmp_path: Path) -> None:
    ref = tmp_path / "m.json"
    ref.write_text(
        '{"audio_filepath": "a.wav", "text": "one", "pred_text": ""}\n'
        '{"audio_filepath": "b.wav", "text": "two", "pred_text": ""}\n'
    )
    assert read(ref, ["1", "2"]) == ["one", "two"]
    assert read(ref, ["b", "a"]) == ["two", "one"]


def test_several_references(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a b", "score": -1}, {"text": "c", "score":'
        " -2}]}\n"
    )
    (tmp_path / "one").write_text("u x y\n")
    (tmp_path / "two").write_text("u a b\n")
    first = rescore("eval", "l.jsonl", "--ref", "one").stdout
    both = rescore("eval", "l.jsonl", "--ref", "one", "--ref", "two").stdout
    assert "100.00" in first and "0.00" in both and "100.00" not in both


def test_the_option_that_is_missing_is_named(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a b", "score": -1}]}\n'
    )
    (tmp_path / "r").write_text("u a\n")
    assert_one_line_error(
        rescore("l.jsonl", "--ref", "r", "--dev", "l.jsonl"), "give --dev-ref FILE"
    )
    assert_one_line_error(rescore("tune", "l.jsonl"), "give --ref FILE")
    (tmp_path / "r").write_text("a b\n")
    assert_one_line_error(
        rescore("eval", "l.jsonl", "--ref", "r", "--ref-format", "trn"),
        "does not end in (id)",
    )


def test_a_segments_file_has_times(rescore: Run, tmp_path: Path) -> None:
    hypothesis = {"text": "a", "score": -1, "times": [[0, 1]]}
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"id": "spk-1", "hyps": [hypothesis]}) + "\n"
    )
    (tmp_path / "segments").write_text("spk-1 talk\n")
    assert_one_line_error(
        rescore("rerank", "l.jsonl", "--best", "p.ctm", "--segments", "segments"),
        "utterance spk-1: expected",
    )


def test_plain_lines_of_a_part_of_numbered_lists(tmp_path: Path) -> None:
    """A sentence that begins with a number of a list is no line of Kaldi text."""
    ref = tmp_path / "ref"
    ref.write_text("the cat\nthe dog\n54 percent\n", encoding="utf-8")
    assert read(ref, ["3", "19", "54"]) == ["the cat", "the dog", "54 percent"]
    ref.write_text("3 the cat\n19 the dog\n54 percent\n", encoding="utf-8")
    assert read(ref, ["3", "19", "54"]) == ["the cat", "the dog", "percent"]


def test_lists_of_a_translator_are_references_and_sources(
    rescore: Run, tmp_path: Path
) -> None:
    """Ids are numbers, and an output in plain lines, of which some begin with such
    numbers, has the same order.
    """
    lines = [
        f"S-{number}\tein satz\nT-{number}\tone sentence"
        f" {number}\nH-{number}\t-0.1\t{number % 2} sentence {number}\n"
        for number in range(4)
    ]
    (tmp_path / "log").write_text("".join(lines))
    assert rescore("convert", "log", "-o", "lists.jsonl").returncode == 0
    for best in ("best.txt", "best", "best.trn"):
        assert rescore("run", "log", "--best", best).returncode == 0
        for references in ("log", "lists.jsonl"):
            done = rescore(
                "eval",
                best,
                "--ref",
                references,
                "--metric",
                "wer",
                "--report",
                "r.json",
            )
            assert done.returncode == 0, done.stderr
            (figures,) = json.loads((tmp_path / "r.json").read_text())["systems"]
            assert figures["value"] == pytest.approx(100 / 3), (best, references)
            assert (
                rescore("eval", best, "--ref", references).stdout.split()[0] == "BLEU"
            )
    done = rescore("eval", "best.txt", "--ref", "lists.jsonl", "--ref-format", "plain")
    assert_one_line_error(
        done, "lists.jsonl: is JSON, not lines of text; leave out --ref-format"
    )
    (tmp_path / "source").write_text(
        '{"id": "0", "src": "ein satz", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    (tmp_path / "no-source.jsonl").write_text(
        '{"id": "0", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert (
        rescore(
            "convert", "no-source.jsonl", "--src", "source", "-o", "with.jsonl"
        ).returncode
        == 0
    )
    assert json.loads((tmp_path / "with.jsonl").read_text())["src"] == "ein satz"
    assert_one_line_error(
        rescore("convert", "source", "--src", "no-source.jsonl", "-o", "x.jsonl"),
        "no source texts in it",
    )


def test_texts_beside_kaldi_text_with_numbers_do_not_go_by_order(
    rescore: Run, tmp_path: Path
) -> None:
    """Kaldi sorts numbers as strings."""
    (tmp_path / "ref").write_text(
        "".join(f"{number} word {number} here\n" for number in (0, 1, 10, 11, 2, 3))
    )
    (tmp_path / "lists.jsonl").write_text(
        "".join(
            f'{{"id": "{number}", "ref": "a", "hyps": [{{"text": "a", "score": 0}}]}}\n'
            for number in range(4)
        )
    )
    (tmp_path / "plain.txt").write_text(
        "".join(f"word {number} here\n" for number in (0, 1, 2, 3, 10, 11))
    )
    assert_one_line_error(
        rescore("eval", "plain.txt", "--ref", "ref"),
        "its lines have no ids such as 0, 1 of ref",
    )
    (tmp_path / "twice").write_text("0 a\n1 b\n2 c\n2 d\n")
    assert_one_line_error(
        rescore("eval", "twice", "--ref", "lists.jsonl"), "utterance 2 is duplicated"
    )
    (tmp_path / "rows.txt").write_text(
        "utt-1 ||| a ||| -1\nutt-2 ||| a ||| -2\nutt-1 ||| b ||| -3\n"
    )
    assert_one_line_error(
        rescore("eval", "rows.txt", "--ref", "ref"),
        "line 3: utterance utt-1 is duplicated",
        "the file is read as Kaldi text",
    )


def test_sources_of_lists_and_manifests(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "0", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    (tmp_path / "empty.jsonl").write_text(
        '{"id": "0", "src": "", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert (
        rescore(
            "convert", "l.jsonl", "--src", "empty.jsonl", "-o", "o.jsonl"
        ).returncode
        == 0
    )
    assert json.loads((tmp_path / "o.jsonl").read_text())["src"] == ""
    (tmp_path / "manifest.jsonl").write_text(
        '{"audio_filepath": "0.wav", "text": "x y"}\n'
    )
    done = rescore("convert", "l.jsonl", "--src", "manifest.jsonl", "-o", "o.jsonl")
    assert json.loads((tmp_path / "o.jsonl").read_text())["src"] == "x y", done.stderr
    (tmp_path / "list.csv").write_text("uid,english\n0,x\n")
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--src", "list.csv", "-o", "x.jsonl"),
        "--field src=NAME",
    )


def test_a_table_without_a_column_names_its_columns(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a b", "score": -1}]}\n'
    )
    asked = "which column has the {}? Say it with --field {}=NAME ({})"
    tables = [
        ("id,dur\nu,1\n", asked.format("references", "ref", "id, dur")),
        ("clip_id,gold_words\nu,a b\n", asked.format("references", "ref", "clip_id, ")),
        ("name,ref\nu,a b\n", asked.format("ids", "id", "name, ref")),
    ]
    for ending, sign in ((".csv", ","), (".tsv", "\t")):
        for text, said in tables:
            path = tmp_path / f"g{ending}"
            path.write_text(text.replace(",", sign))
            done = rescore("eval", "l.jsonl", "--ref", path)
            assert_one_line_error(done, said.rpartition(" (")[0])
    path.write_text("u\ta b\n")  # Kaldi text with tabs
    assert rescore("eval", "l.jsonl", "--ref", path).returncode == 0


@pytest.mark.parametrize("output", ["l.jsonl", "out.txt", "out.trn"])
def test_plain_lines_of_another_number_name_both_numbers(
    output: str, rescore: Run, tmp_path: Path
) -> None:
    texts = {
        "l.jsonl": '{"id": "u", "hyps": ["a"]}\n{"id": "v", "hyps": ["a"]}\n',
        "out.txt": "a\na\n",
        "out.trn": "a (u)\na (v)\n",
    }
    (tmp_path / output).write_text(texts[output])
    (tmp_path / "ref").write_text("a\na\na\n")
    done = rescore("eval", output, "--ref", "ref", "--ref-format", "plain")
    assert_one_line_error(done, "ref: 3 lines for 2 utterances of", "as --ref-format")


@pytest.mark.parametrize("flags", [[], ["--ref-format", "plain"]])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("run", "lists.jsonl"),
        *product(("eval", "combine"), ("lists.jsonl", "lines.txt")),
    ],
)
def test_fewer_plain_references_name_the_option_that_leaves_out(
    name: str, command: str, flags: list[str], rescore: Run, tmp_path: Path
) -> None:
    texts = ["an owl", "the cat", "the dog"]
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "lists.jsonl").write_text(
        "".join(
            f'{{"id": "{number}", "hyps": [{{"text": "{text}", "score": 0}}]}}\n'
            for number, text in enumerate(texts, 1)
        )
    )
    (tmp_path / "ref.txt").write_text("an owl\na cat\n")
    outputs = [name]
    if command == "combine":
        (tmp_path / "other.txt").write_text((tmp_path / "lines.txt").read_text())
        outputs.append("other.txt")
    line = [command, *outputs, "--ref", "ref.txt", *flags]
    done = rescore(*line)
    assert done.returncode == 2
    assert "ref.txt: 2 lines for 3 utterances" in done.stderr
    assert "--allow-missing" in done.stderr
    done = rescore(*line, "--allow-missing")
    assert done.returncode == 0, done.stderr
