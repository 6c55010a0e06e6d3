"""Files of toolkits that look a little different from what their own formats say; small
ones of the same form.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rescore import formats
from rescore.columns import Role
from tests.conftest import Run, assert_one_line_error

Expected = list[tuple[str, list[tuple[str, float | None]]]]

CASES: dict[str, tuple[str, str, Expected]] = {
    # Marian: OutputPrinter::print with --n-best.
    "marian": (
        "n.best",
        "0 ||| a b ||| F0= -1.66 F1= -2 ||| -0.8\n",
        [("0", [("a b", -0.8)])],
    ),
    # Moses: lists of the mert tests, where the number stands close to the bars.
    "moses": (
        "n.best",
        "0||| a b ||| d: -1 lm= -2 ||| -3\n".replace("d:", "d="),
        [("0", [("a b", -3.0)])],
    ),
    # icefall: store_transcripts_and_timestamps in icefall/utils.py.
    "icefall": (
        "recogs.txt",
        (
            "c-1:\tref=['A', 'B']\nc-1:\thyp=['A']\nc-1:\ttimestamp_ref=[0.1,"
            " 0.2]\nc-1:\ttimestamp_hyp=[0.1]\n"
        ),
        [("c-1", [("A", None)])],
    ),
    # Google's reference of SpeechRecognitionAlternative: 0.0 says that the confidence
    # was not set.
    "google not set": (
        "call.json",
        (
            '{"results": [{"alternatives": [{"transcript": "a", "confidence": 0.9},'
            ' {"transcript": "b", "confidence": 0.0}, {"transcript": "c", "confidence":'
            " 0.0}]}]}"
        ),
        [("call", [("a", None), ("b", None), ("c", None)])],
    ),
    "google all set": (
        "call.json",
        (
            '{"results": [{"alternatives": [{"transcript": "a", "confidence": 1.0}, '
            '{"transcript": "b", "confidence": 0.25}]}]}'
        ),
        [("call", [("a", 0.0), ("b", math.log(0.25))])],
    ),
    # WeNet: decoder_main.cc with --output_nbest; empty sentences are left out.
    "wenet": (
        "nbest.txt",
        "wav u1\ncandidate -1.5 a b\ncandidate -2 a\nwav u2\nwav u3\ncandidate -3 c\n",
        [
            ("u1", [("a b", -1.5), ("a", -2.0)]),
            ("u2", [("", 0.0)]),
            ("u3", [("c", -3.0)]),
        ],
    ),
    "hyps and scores": (
        "l.jsonl",
        '{"hyps": ["a b", "a"], "scores": [-1, -2]}\n{"hyps": ["c"], "scores": [-3]}\n',
        [("1", [("a b", -1.0), ("a", -2.0)]), ("2", [("c", -3.0)])],
    ),
    # Hugging Face: evaluation scripts that keep `sentence` of Common Voice beside the
    # beams.
    "predictions": (
        "l.json",
        (
            '[{"predictions": ["a b", "a"], "sequences_scores": [-0.5, -0.75],'
            ' "sentence": "a b"}]'
        ),
        [("1", [("a b", -0.5), ("a", -0.75)])],
    ),
    # Azure: detailed output of the speech-to-text REST API.
    "azure": (
        "call.json",
        json.dumps(
            {
                "RecognitionStatus": "Success",
                "Offset": 1,
                "DisplayText": "A b.",
                "NBest": [
                    {
                        "Confidence": 0.5,
                        "Lexical": "a b",
                        "ITN": "a b",
                        "Display": "A b.",
                    },
                    {"Confidence": 0.25, "Lexical": "a", "ITN": "a", "Display": "A."},
                ],
            }
        ),
        [("call", [("a b", math.log(0.5)), ("a", math.log(0.25))])],
    ),
    # Google: SpeechRecognitionResult; only the first alternative has a confidence.
    "google": (
        "call.json",
        json.dumps(
            {
                "results": [
                    {
                        "alternatives": [
                            {"transcript": "a b", "confidence": 0.5},
                            {"transcript": "a"},
                        ]
                    },
                    {"alternatives": []},
                ]
            }
        ),
        [("call", [("a b", None), ("a", None)])],
    ),
    # AWS Transcribe with ShowAlternatives.
    "aws": (
        "call.json",
        json.dumps(
            {
                "jobName": "j",
                "results": {
                    "transcripts": [{"transcript": "a b"}],
                    "segments": [
                        {
                            "start_time": "0",
                            "alternatives": [
                                {"transcript": "a b", "items": []},
                                {"transcript": "a"},
                            ],
                        }
                    ],
                },
            }
        ),
        [("call", [("a b", None), ("a", None)])],
    ),
    # Vosk: SetMaxAlternatives; what it calls confidence is a score.
    "vosk": (
        "call.json",
        (
            '{"alternatives": [{"confidence": 231.5, "text": "a b"}, {"confidence":'
            ' 230.25, "text": "a"}]}'
        ),
        [("call", [("a b", 231.5), ("a", 230.25)])],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_read(case: str, tmp_path: Path) -> None:
    name, content, expected = CASES[case]
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = formats.read([tmp_path / name])
    assert [nbest.id for nbest in found] == [name for name, _ in expected]
    for nbest, (_, hypotheses) in zip(found, expected, strict=True):
        assert [one.text for one in nbest.hypotheses] == [
            text for text, _ in hypotheses
        ]
        for rank, (one, (_, score)) in enumerate(
            zip(nbest.hypotheses, hypotheses, strict=True), 1
        ):
            assert one.scores["s2s"] == pytest.approx(
                -math.log(rank) if score is None else score
            )


def test_features_have_their_names(tmp_path: Path) -> None:
    columns = {"marian": ["F0", "F1"], "moses": ["d", "lm"]}
    for case, names in columns.items():
        (tmp_path / "n").write_text(CASES[case][1])
        assert formats.read([tmp_path / "n"])[0].columns(Role.COMPONENT) == names


def test_references_come_along(tmp_path: Path) -> None:
    for case, references in {"predictions": ("a b",), "icefall": ("A B",)}.items():
        name, content, _ = CASES[case]
        (tmp_path / name).write_text(content)
        assert formats.read([tmp_path / name])[0].references == references


def test_parts_of_scores_in_records(tmp_path: Path) -> None:
    apart = {
        "sequences": ["a", "b"],
        "sequences_scores": [-1, -2],
        "am_scores": [-3, -4],
    }
    (tmp_path / "l.jsonl").write_text(json.dumps(apart))
    nbest = formats.read([tmp_path / "l.jsonl"])[0]
    assert [one.scores for one in nbest.hypotheses] == [
        {"s2s": -1, "am_scores": -3},
        {"s2s": -2, "am_scores": -4},
    ]
    assert nbest.columns(Role.COMPONENT) == ["am_scores"]
    objects = {"hypotheses": [{"text": "a", "score": -1, "lm_score": -2}]}
    (tmp_path / "l.jsonl").write_text(json.dumps(objects))
    nbest = formats.read([tmp_path / "l.jsonl"])[0]
    assert nbest.hypotheses[0].scores == {"s2s": -1, "lm_score": -2} and nbest.columns(
        Role.COMPONENT
    ) == ["lm_score"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (
            (
                '{"utts": {"u": {"output": [[{"rec_text": "A", "score": 1}],'
                ' [{"rec_text": "B", "score": 1}]]}}}'
            ),
            ["several speakers", "one file per speaker"],
        ),
        (
            '{"results": [{"results": [{"results": []}]}]}',
            ["phrase 1: no alternatives"],
        ),
        (
            '{"recognizedPhrases": [{"nBest": [{"confidence": 1}]}]}',
            ['phrase 1, alternative 1: the key "lexical" is missing'],
        ),
        ('{"alternatives": [7]}', ['alternative 1: the key "text" is missing']),
        (
            '{"NBest": [{"Lexical": "a", "Confidence": "x"}]}',
            ['Confidence is "x", not a number'],
        ),
        ('{"id": "u", "hyps": ["a", 7]}', ["line 1, hyps 2: expected a text"]),
        (
            '{"hypotheses": [{"text": "a", "score": null}, {"text": "b", "score": 1}]}',
            ["hypothesis 1: no first-pass score (null is no score)", "--s2s rank"],
        ),
        (
            '{"hypotheses": [{"text": "a", "score": -1, "am_score": "x"}]}',
            ['am_score is "x", not a number'],
        ),
        (
            '{"hypotheses": [{"text": "a", "score": -1, "lm_score": [1]}]}',
            ["lm_score is [1], not a number"],
        ),
        (
            '{"hypotheses": [{"text": "a", "score": -1, "scores": {"lm": -2}}]}',
            ["scores is {", "not a number"],
        ),
        (
            '{"sequences": ["a", "b"], "sequences_scores": [-1, null]}',
            ["hypothesis 2: no first-pass score (null is no score)", "--s2s rank"],
        ),
        (
            '{"sequences": ["a", "b"], "am_scores": -1}',
            ["0 scores for 2 hypotheses in am_scores"],
        ),
        ('{"hyps": ["a", "b"], "scores": [-1]}', ["1 score for 2 hypotheses"]),
        ("0 ||| a ||| F0= x ||| -1\n", ["line 1: score is 'x'"]),
        ("0 ||| a ||| 0-0 ||| F0= -1\n", ["line 1: score is"]),
        (
            "0 ||| a b ||| WordScores= -0.1 -0.2 ||| F0= -1.66 ||| -0.8\n",
            ["line 1: score is"],
        ),
        (
            "0 ||| a b ||| 1.5\n",
            [
                "line 1: expected `id ||| hypothesis ||| features ||| total`, found 3"
                " columns"
            ],
        ),
    ],
)
def test_refused(content: str, parts: list[str], rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(content)
    assert_one_line_error(rescore("convert", "x"), *parts)


def test_keys_without_hypotheses(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"said": "a", "nll": 1}\n')
    assert_one_line_error(
        rescore("convert", "x.jsonl"),
        "no hypotheses in the keys said, nll",
        "--field text=KEY",
    )
    done = rescore("convert", "x.jsonl", "--field", "text=spoken")
    assert_one_line_error(done, "no hypotheses in the keys said, nll")


NULLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a usual key": ("score", ()),
    "--field": ("cumulative_logprob", ("--field", "score=cumulative_logprob")),
    "--shape": ("p", ("--shape", "mine.toml")),
    "a part": ("am_score", ()),
}
"""The key of a score, and the options that name it."""


@pytest.mark.parametrize("case", NULLS)
def test_a_score_that_is_null_is_no_score(
    case: str, rescore: Run, tmp_path: Path
) -> None:
    key, options = NULLS[case]
    (tmp_path / "mine.toml").write_text(
        'alternatives = "hypotheses[]"\ntext = "text"\nscore = "p"\nscale = "log"\n'
    )
    hypotheses = [{"text": text, key: None} for text in ("a", "b")]
    (tmp_path / "x.json").write_text(json.dumps({"hypotheses": hypotheses}))
    done = rescore("convert", "x.json", *options)
    assert done.returncode == 0, done.stderr
    assert "no scores; the order in the file ranks them" in done.stderr
