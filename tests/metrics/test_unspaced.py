"""Chinese, Japanese, Korean, Thai: the mixed error rate, tokenizers, normal forms, and
texts without blanks.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import sacrebleu

from rescore.errors import UserError, installed_by
from rescore.metrics import Normaliser, choose_metric, value
from rescore.metrics.base import settings_on
from rescore.metrics.mt import Bleu, Chrf
from rescore.metrics.wer import CharacterErrorRate, ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning.record import Tuning
from tests.conftest import Run

CHINESE = {"u1": "今天天气很好我们出去走走", "u2": "他说明天会下雨"}


def test_the_mixed_error_rate_by_hand() -> None:
    metric = choose_metric("mer", [])
    assert metric.words("我用 Python3写代码 วันนี้") == [
        *"我用",
        "python3",
        *"写代码",
        *"วันนี้",
    ]
    # 用 -> 有, python3 -> python, 码 is deleted; of ten words
    assert metric.statistics(
        ["我有python 写代 ok"], [("我用 Python3写代码 OK",)]
    ).tolist() == [[2, 1, 0, 7]]
    assert (
        metric.name,
        metric.settings["tok"],
        metric.details(metric.statistics(["a"], [("a",)])[0])["ref_words"],
    ) == (
        "MER",
        "mixed",
        1,
    )
    again = choose_metric(
        "mer", [], Tuning().with_figures(metric, 0.0, 0.0).metric_options
    )
    assert again.settings == metric.settings and again.words == metric.words


def test_characters_as_words() -> None:
    split = Normaliser(split_characters=True)
    word, character = ErrorRate(normaliser=split), CharacterErrorRate(normaliser=split)
    assert word.statistics(["今天 天汽"], [("今天天气",)]).tolist() == [[1, 0, 0, 4]]
    # blanks count, as in ESPnet
    assert character.statistics(["今天 天汽"], [("今天天气",)]).tolist() == [
        [1, 0, 1, 4]
    ]
    assert word.settings["tok"] == "character" and character.settings["tok"] == "char"


def test_normal_forms() -> None:
    assert Normaliser(nfkc=True)("\uff21\uff22\uff23\uff11\uff12\uff13 ｶﾞ") == [
        "abc123",
        "ガ",
    ]
    assert Normaliser(nfkc=True).settings == {"case": "lc", "nfkc": "yes"}
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    basic = Normaliser(whisper_basic=True)
    assert basic("¿Qué tal, [risas] señor?") == ["qué", "tal", "señor"]
    assert basic.settings["whisper-basic"].startswith("0.1.")


def test_chrf_plus_plus_is_sacrebleus() -> None:
    references, hypotheses = (
        ["the cat (sat) on a mat.", "an owl"],
        ["a cat sat on the mat.", "an howl, too"],
    )
    metric = choose_metric("chrF++", [])
    assert (
        isinstance(metric, Chrf)
        and metric.name == "chrF++"
        and metric.settings["nw"] == "2"
    )
    rows = metric.statistics(hypotheses, [(one,) for one in references])
    wanted = sacrebleu.corpus_chrf(hypotheses, [references], word_order=2).score
    assert value(metric, rows.sum(axis=0)) == pytest.approx(wanted)
    assert wanted != pytest.approx(
        sacrebleu.corpus_chrf(hypotheses, [references]).score
    )


@pytest.mark.parametrize(
    ("name", "package", "text"),
    [
        ("ja-mecab", "MeCab", "今日は天気がいいです"),
        ("ko-mecab", "mecab_ko", "오늘은 날씨가 좋습니다"),
    ],
)
def test_tokenizers_of_words(name: str, package: str, text: str) -> None:
    pytest.importorskip(package, reason=f"needs {package}")
    metric = Bleu(tokenise=name)
    assert metric.settings["tok"].startswith(name)
    rows = metric.statistics([text, text[:-2]], [(text,), (text,)])
    assert metric.values(rows[:1])[0] == pytest.approx(100) and rows[0, 9] > 3
    wanted = sacrebleu.corpus_bleu(
        [text, text[:-2]], [[text, text]], tokenize=name
    ).score
    assert value(metric, rows.sum(axis=0)) == pytest.approx(wanted)


def test_a_tokenizer_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sacrebleu.tokenizers import tokenizer_spm

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(
        UserError,
        match=re.escape(
            f"--tokenize flores200 needs further packages; {installed_by('cjk')}"
        ),
    ):
        Bleu(tokenise="flores200")
    monkeypatch.undo()
    pytest.importorskip("sentencepiece", reason="needs sentencepiece")

    def no_network(*arguments: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", no_network)
    with pytest.raises(UserError, match="sacreBLEU cannot get its model"):
        Bleu(tokenise="flores200")
    with pytest.raises(
        UserError, match=r"--tokenize 'zhh' is not one of .*; did you mean zh"
    ):
        Bleu(tokenise="zhh")


def some_list(name: str, *references: str) -> NbestList:
    return NbestList(name, [Hypothesis("a b", {"s2s": 0.0})], references)


def test_signatures_say_how_many_references() -> None:
    for metric in (Bleu(tokenise="none"), Chrf(), choose_metric("ter", [])):
        lists = [some_list("u", "a b", "a c"), some_list("v", "a", "b")]
        assert settings_on(metric, lists)["nrefs"] == "2"
        assert settings_on(metric, [*lists, some_list("w", "a")])["nrefs"] == "var"
        assert settings_on(metric, lists[:0])["nrefs"] == "1"
    assert "nrefs" not in settings_on(ErrorRate(), lists)
    tokenised = [some_list("u", "a b.", "a c .", "b c .")]
    assert choose_metric("bleu", tokenised).settings["tok"] == "none"  # two of three


def test_signatures_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    entry = {"ref": ["a b c d", "a b c e"], "hyp_1": {"score": -1, "text": "a b c d"}}
    (tmp_path / "l.json").write_text(json.dumps({"u": entry}), encoding="utf-8")
    found = json.loads(
        rescore("eval", "l.json", "--metric", "bleu", "--report", "-").stdout
    )
    assert "|nrefs:2|" in found["signature"]


def test_text_without_blanks_is_pointed_out(rescore: Run, tmp_path: Path) -> None:
    for name in ("ref", "hyp"):
        lines = "".join(f"{key} {text}\n" for key, text in CHINESE.items())
        (tmp_path / name).write_text(
            lines.replace("雨", "雪") if name == "hyp" else lines, encoding="utf-8"
        )
    common = ["eval", "hyp", "--ref", "ref"]
    hint = (
        "WER counts words between spaces, but these texts have no spaces between words;"
        " give --metric cer"
    )
    done = rescore(*common)
    assert (
        "50.00" in done.stdout
        and done.stderr.count(hint) == 1
        and done.stderr.count("\n") == 1
    )
    for more in (
        ["--metric", "cer"],
        ["--metric", "mer"],
        ["--split-characters"],
        ["--split-mixed"],
    ):
        done = rescore(*common, *more)
        assert done.stderr == "" and "5.26" in done.stdout, done.stderr
    # words apart
    (tmp_path / "ref").write_text(
        "u1 今天 天气 很 好\nu2 오늘은 날씨가 좋습니다\n", encoding="utf-8"
    )
    assert rescore(*common).stderr == ""
