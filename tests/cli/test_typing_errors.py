"""A typing error, or a file for another command: one line that names what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.lms import load
from tests.conftest import ROOT, Run, assert_one_line_error, run_main


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tta-samll", "'tta-samll' is not one of"),
        ("tta-samll", "; did you mean tta-small?"),
        ("hf:owner/model", "; did you mean hf-"),
        ("lm.arpa", "give --lm ngram:lm.arpa"),
        ("hf:masked", "give --lm hf-masked:masked"),
        ("hf:causal", "give --lm hf-causal:causal"),
        ("masked", "give --lm hf-masked:masked"),
        ("hf:translation", "give --lm hf-seq2seq:translation"),
        ("network", "give --lm tta:network"),
        ("hf-causal:network", "name it tta:network"),
    ],
)
def test_names_of_models(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {
        "masked": {"architectures": ["BertForMaskedLM"]},
        "causal": {"architectures": ["LlamaForCausalLM"]},
        "translation": {"architectures": ["MarianMTModel"]},
        "network": {"kind": "tta"},
    }
    for name, config in configs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(
            json.dumps(config), encoding="utf-8"
        )
    (tmp_path / "lm.arpa").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        load(spec)
    assert message in str(error.value) and "Hub" not in str(error.value)


def test_a_folder_that_is_misspelled_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "exp" / "small-lm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"did you mean small-lm\?"):
        load("hf-causal:exp/smal-lm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "utt1 hello there\nutt2 good day\n",
            "a 1-best text, with one text for each utterance; to measure it: ",
        ),
        (
            "hello there (utt1)\ngood day (utt2)\n",
            "to measure it: rescore eval {} --ref FILE",
        ),
        (
            (
                "2024-01-01 12:00:00 | INFO | fairseq_cli.generate | loading model(s)"
                " from model.pt\n"
            ),
            "a fairseq log that ends before its first S- or H- line",
        ),
        (
            '{"weights": {"s2s": 1}, "origin": "given", "tuned": "given"}',
            "these are weights, not lists",
        ),
        ("a line\nand another\n", "not an N-best list of a known format"),
    ],
)
def test_files_that_are_no_lists(
    text: str, message: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text(text, encoding="utf-8")
    assert_one_line_error(rescore("run", "text", "--lm", "tta"), message.format("text"))


def test_paths(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a", "score": -1}]}\n', encoding="utf-8"
    )
    assert_one_line_error(
        rescore("test.jsnl"),
        "test.jsnl: no such file or folder; did you mean test.jsonl?",
    )
    assert_one_line_error(
        rescore("run", "test.jsnl"),
        "test.jsnl: no such file or folder; did you mean test.jsonl?",
    )
    assert_one_line_error(
        rescore("test.jsonl", "--ref", "tset.jsonl"), "did you mean test.jsonl?"
    )
    for name in ("test_a", "test_b"):
        formats.write(
            formats.read([ROOT / "data" / "dev.json"])[:2],
            str(tmp_path / "decode" / name),
            "espnet2",
        )
    (tmp_path / "decode" / "log").mkdir()
    message = (
        "decode: a folder of several sets; it holds test_a, test_b: give decode/test_a"
    )
    assert_one_line_error(rescore("run", "decode"), message)


LATTICE = "0 1 a a 0.5\n1 2 b b 1\n1 2 c c 2\n2 0.1\n"
BINARY = "\udcd6\udcfd\udcb2~\6\0\0\0vector\x08\0\0\0standard"


@pytest.mark.parametrize(
    "text",
    [
        LATTICE,
        (
            "utt-1"
            " \n0\t1\tthe\t1.2,3.4,1_2\n1\t2\tcat\t2.2,5.4,1_2\n2\t1.0,2.0,\n\nutt-2"
            " \n0\t1\ta\t1,2,\n1\n\n"
        ),
        BINARY,
        f"utt-1 \0B{BINARY}",
    ],
    ids=["openfst", "kaldi", "openfst-binary", "kaldi-binary"],
)
def test_a_lattice_that_is_not_read(text: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lat").write_text(text, encoding="utf-8", errors="surrogateescape")
    (tmp_path / "ref").write_text("utt-1 the cat\nutt-2 a\n", encoding="utf-8")
    for command in ("run", "eval", "convert"):
        assert_one_line_error(
            rescore(command, "lat", "--ref", "ref"),
            "lat: a lattice of OpenFst or Kaldi, which is not read; write N-b",
        )


def test_numbers_as_ids_and_words_are_no_lattice(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(
        "".join(f"{number} {number % 7} 5 3\n" for number in range(40)),
        encoding="utf-8",
    )
    done = rescore("eval", "text", "--ref", "text")
    assert done.returncode == 0 and " 0.00 " in done.stdout


def test_weights_are_applied_by_rerank() -> None:
    done = run_main("run", ROOT / "data" / "dev.json", "--weights", "w.json")
    assert_one_line_error(done, "to apply weights: rescore rerank NBEST --weights FILE")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("rerank", "l.json", "--lm", "tta"),
            "to add them: rescore score NBEST --lm MODEL -o FILE, or run",
        ),
        (
            ("check", ROOT / "data" / "dev.json", "--golden", "r.json"),
            "r.json: cannot be read",
        ),
        (
            ("check", "r.json", "--golden", ROOT / "data" / "dev.json"),
            "give a file of `rescore run --report` or",
        ),
        (("eval", "l.json", "-o", "r.json"), "to write them as JSON: --report FILE"),
        (("eval", "l.json", "--nonsense"), "--nonsense"),
    ],
)
def test_options_of_other_commands(arguments: tuple[str, ...], message: str) -> None:
    assert_one_line_error(run_main(*arguments), message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "u1.ctm",
            "r 1 0 1 a\n",
            (
                "If each file is the text of a whole recording: rescore eval set"
                " --whole --ref REF"
            ),
        ),
        (
            "u1.txt",
            "0 1 a a 0.5\n1 2 b\n2\n",
            "a folder of OpenFst lattices (u1.txt), which are not read; write N-best",
        ),
        ("u1.fst", "\0", "a folder of OpenFst lattices (u1.fst)"),
        (
            "t.json",
            '[{"input": ["a", "b"], "output": "a"}]',
            "with N-best lists (hyporadise); give the files: set/*.json",
        ),
    ],
)
def test_folders_of_files(
    name: str, text: str, message: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / name).write_text(text, encoding="utf-8")
    (tmp_path / "ref").write_text("u1 a\n", encoding="utf-8")
    assert_one_line_error(rescore("eval", "set", "--ref", "ref"), message)


def test_rerank_tells_what_it_wrote(rescore: Run, tmp_path: Path) -> None:
    hyps = [
        {"text": "a", "score": -1, "scores": {"lm": -9}},
        {"text": "b", "score": -2, "scores": {"lm": -1}},
    ]
    lines = [
        json.dumps({"id": "u", "hyps": hyps}),
        json.dumps({"id": "v", "hyps": hyps[:1]}),
    ]
    (tmp_path / "l.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "w.json").write_text(
        '{"weights": {"s2s": 0.5, "lm": 0.5}}', encoding="utf-8"
    )
    given = ("rerank", "l.jsonl", "--weights", "w.json")
    assert (
        rescore(*given, "--best", "b.trn").stderr
        == "rescore: b.trn: 2 texts, 1 changed\n"
    )
    assert (
        rescore(*given, "--best", "b.trn", "--quiet").stderr
        == ""
        == rescore(*given).stderr
    )
    assert rescore(*given).stdout == "u b\nv a\n"
