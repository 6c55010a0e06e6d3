"""Word translation models as back-ends: scores are those of loops over dictionaries."""

from __future__ import annotations

import math
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rescore import api
from rescore.errors import UserError
from rescore.lms import Question, load
from rescore.mt.lexical.estimation import train
from rescore.mt.lexical.model import LexicalModel
from rescore.rescorer import Rescorer
from tests.conftest import Run, assert_one_line_error, write_json
from tests.mt import lexical_definition
from tests.mt.test_lexical_training import WORDS, pairs

SOURCES = ["das alte haus", "Die Uhr tickt , 🙂 !", "", "unbekannt obama", "und"]
TEXTS = ["sad etla suah", "EID ruh tkcit", "", "obama x 🙂", " ".join(WORDS * 50)]


@pytest.fixture(scope="module", params=["none", "diagonal"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder: Path = tmp_path_factory.mktemp("lexical")
    for side, name in enumerate(("a.txt", "b.txt")):
        (folder / name).write_text(
            "".join(f"{one[side]}\n" for one in pairs()), encoding="utf-8"
        )
    train(
        (folder / "a.txt", folder / "b.txt"),
        folder / "lm",
        pieces=0,
        alignment=request.param,
    )
    return folder / "lm"


def defined(
    folder: Path, source: list[str], target: list[str], channel: bool
) -> list[tuple[float, float]]:
    """What the definition gives for the counts in the folder."""
    model = LexicalModel.load(folder)
    direction = "channel" if channel else "direct"
    table, words = model.tables[direction], ["", *model.vocabulary]
    counts = {
        (words[given], words[word]): float(table.counts[place])
        for given in range(table.size)
        for place, word in enumerate(
            table.words[table.starts[given] : table.starts[given + 1]],
            table.starts[given],
        )
    }
    sides = [[other.split() for other in side] for side in zip(*pairs(), strict=True)]
    given, predicted = (target, source) if channel else (source, target)
    return lexical_definition.log_probs(
        given,
        predicted,
        counts,
        Counter(word for text in sides[0 if channel else 1] for word in text),
        set(model.vocabulary),
        model.config.alignment[direction].tension,
        model.config.smoothing.strength,
        model.config.smoothing.copied,
        defaultdict(float, zip(words, table.totals.tolist(), strict=True)),
    )


@pytest.mark.parametrize("limit", [1 << 22, 7])
def test_equal_to_the_definition(
    folder: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescore.mt.lexical.model.LINKS", limit)
    asked = [(source, text) for source in SOURCES for text in TEXTS]
    cut = LexicalModel.load(folder).cut
    for option, channel, of_source in (("", False, False), (":channel", True, True)):
        lm = load(f"lexical{option}:{folder}")
        unexplained = load(
            f"lexical{':coverage' if channel else ':channel:coverage'}:{folder}"
        )
        scores, shares = (
            one.score([Question(both[1], both[0]) for both in asked])
            for one in (lm, unexplained)
        )
        for (source, text), found, share in zip(asked, scores, shares, strict=True):
            sides = cut([source, text])
            expected = defined(folder, sides[0], sides[1], channel)
            assert found.tokens == share.tokens == sides[0 if of_source else 1]
            np.testing.assert_allclose(
                found.log_probs, [one for one, _ in expected], rtol=1e-9, atol=1e-9
            )
            np.testing.assert_allclose(
                share.log_probs, [-null for _, null in expected], rtol=1e-9, atol=1e-9
            )


def test_a_score_does_not_depend_on_its_neighbours(folder: Path) -> None:
    asked = [Question(text, source) for source in SOURCES for text in TEXTS]
    lm = load(f"lexical:channel:{folder}")
    for one, found in zip(asked, lm.score(asked), strict=True):
        assert lm.score([one])[0].sum == pytest.approx(found.sum, abs=1e-9)


def test_probabilities_add_up(folder: Path) -> None:
    """Over the vocabulary, and one unknown word for all."""
    model = LexicalModel.load(folder)
    table, size = model.tables["direct"], len(model.vocabulary) + 1
    everything = np.concatenate([np.arange(1, size), [size + 7]])
    for given in (1, size // 2, size - 1):
        t = table.probabilities(
            np.full(len(everything), given), everything, model.config.smoothing
        )
        # what was too small for an entry is lost
        assert (t > 0).all() and t.sum() == pytest.approx(1, abs=1e-2)


def test_unknown_words_are_told_and_copied(folder: Path) -> None:
    lm = load(f"lexical:channel:{folder}")
    kept, lost = lm.score(
        [Question("dnu obama", "und obama"), Question("dnu merkel", "und obama")]
    )
    assert kept.unknown == (1,) and kept.sum > lost.sum + 1


def test_length(folder: Path) -> None:
    config = LexicalModel.load(folder).config
    lm = load(f"lexical:length:{folder}")
    same, longer, empty = lm.score(
        [
            Question("sad suah", "das haus"),
            Question("a b c d e f g h", "das haus"),
            Question("", ""),
        ]
    )
    away = (math.log(3 / 3) - config.length_mean) / config.length_deviation
    density = math.exp(-away * away / 2) / (
        config.length_deviation * math.sqrt(2 * math.pi)
    )
    assert same.sum == pytest.approx(math.log(density))
    assert longer.sum < same.sum and math.isfinite(empty.sum)


def test_fingerprints_differ_by_reading_and_not_by_place(
    folder: Path, tmp_path: Path
) -> None:
    readings = ["", ":channel", ":coverage", ":channel:coverage", ":length"]
    prints = {load(f"lexical{one}:{folder}").fingerprint for one in readings}
    assert len(prints) == 5
    shutil.copytree(folder, tmp_path / "moved")
    assert load(f"lexical:{tmp_path / 'moved'}").fingerprint in prints


def test_the_main_job_with_cache(folder: Path, rescore: Run, tmp_path: Path) -> None:
    lists = {}
    for number, (source, target) in enumerate(pairs(20, seed=8)):
        worse = {"score": -1, "text": "falsch " + target}
        lists[f"u{number}"] = {
            "ref": target,
            "src": source,
            "hyp_1": worse,
            "hyp_2": {"score": -1.1, "text": target},
        }
    write_json(tmp_path / "l.json", lists)
    lms = (
        "--lm",
        f"lexical:channel:{folder}",
        "--lm",
        f"lexical:coverage:{folder}",
        "--lm",
        f"lexical:length:{folder}",
        "--word-bonus",
        "tune",
    )
    first = rescore(
        "l.json", "--dev", "l.json", *lms, "--cache", "c", "--best", "b.txt"
    )
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "b.txt").read_text(encoding="utf-8").count("falsch") < 10
    again = rescore("l.json", "--dev", "l.json", *lms, "--cache", "c")
    assert again.stdout == first.stdout and "0 were computed" in again.stderr
    assert_one_line_error(
        rescore(
            "l.json", "--lm", f"lexical:length:channel:{folder}", "--weight", "0.1"
        ),
        "length",
    )


READINGS = (
    "lexical",
    "lexical:channel",
    "lexical:coverage",
    "lexical:channel:coverage",
    "lexical:length",
)


def test_all_is_each_reading(
    folder: Path, rescore: Run, translations: Path, tmp_path: Path
) -> None:
    every = [part for name in READINGS for part in ("--lm", f"{name}:lower:{folder}")]
    short = rescore(
        "score",
        translations,
        "--lm",
        f"lexical:all:lower:{folder}",
        "-o",
        "short.jsonl",
    )
    assert short.returncode == 0, short.stderr
    assert rescore("score", translations, *every, "-o", "long.jsonl").returncode == 0
    assert (tmp_path / "short.jsonl").read_text() == (
        tmp_path / "long.jsonl"
    ).read_text()
    both = [
        rescore(translations, "--dev", translations, *lms)
        for lms in (("--lm", f"lexical:all:lower:{folder}"), every)
    ]
    assert both[0].returncode == 0 and both[0].stdout == both[1].stdout


def test_all_in_other_commands(folder: Path, rescore: Run, translations: Path) -> None:
    name = f"lexical:all:{folder}"
    compared = rescore(
        "compare",
        translations,
        "--dev",
        translations,
        "--lm",
        name,
        "--style",
        "markdown",
    )
    rows = [line.split(" | ")[0] for line in compared.stdout.splitlines()[2:6]]
    assert compared.returncode == 0 and rows == [
        "| oracle",
        "| first pass",
        "| lexical:all",
        "",
    ], compared.stdout
    weighed = rescore(
        translations,
        "--lm",
        name,
        *(part for _ in READINGS for part in ("--weight", "0.1")),
    )
    assert weighed.returncode == 0, weighed.stderr
    assert_one_line_error(
        rescore(translations, "--lm", name, "--weight", "0.1"),
        f"1 --weight for lexical:{folder}, ",
        "; give one for each --lm",
    )
    assert_one_line_error(
        rescore(translations, "--lm", f"lexical:all:channel:{folder}"),
        "leave out channel",
    )
    assert_one_line_error(
        rescore(translations, "--lm", "ngram:all:lm.arpa", "--weight", "0.1"), "lm.arpa"
    )


def test_all_in_python(folder: Path, translations: Path) -> None:
    scored = api.score(api.read(translations), f"lexical:all:{folder}")
    assert [
        column for column in scored[0].header.records if column.startswith("lexical")
    ] == list(READINGS)
    assert len(Rescorer(f"lexical:all:{folder}", dict.fromkeys(READINGS, 0.1)).lms) == 5
    with pytest.raises(UserError, match=r"stands for 5 models.*; give lexical:"):
        api.load(f"lexical:all:{folder}")


def test_damaged_folders_are_told(folder: Path, rescore: Run, tmp_path: Path) -> None:
    lists = write_json(
        tmp_path / "l.json",
        {"u": {"ref": "x", "src": "y", "hyp_1": {"score": -1, "text": "x"}}},
    )
    files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def told(*parts: str, **damage: bytes | None) -> None:
        (tmp_path / "lm").mkdir(exist_ok=True)
        for name, content in files.items():
            changed = damage.get(name.partition(".")[0], content)
            (tmp_path / "lm" / name).unlink(missing_ok=True)
            if changed is not None:
                (tmp_path / "lm" / name).write_bytes(changed)
        assert_one_line_error(
            rescore(lists, "--lm", "lexical:lm", "--weight", "0.1"), *parts
        )

    told("no model.safetensors", model=None)
    told(
        "model.safetensors: not a whole safetensors file",
        model=files["model.safetensors"][:-100],
    )
    told("config.json", "not valid JSON", config=b"{")
    told("vocabulary.json", vocabulary=b'["a", 3]')
    told("do not fit the vocabulary", vocabulary=b'["a", "b"]')
    arrays = load_file(folder / "model.safetensors")
    save_file(
        arrays | {"direct.words": arrays["direct.words"] + 1000},
        tmp_path / "x.safetensors",
    )
    told("do not fit", model=(tmp_path / "x.safetensors").read_bytes())
    save_file(
        arrays | {"channel.totals": arrays["channel.totals"].astype(np.float32)},
        tmp_path / "x.safetensors",
    )
    told("of another type", model=(tmp_path / "x.safetensors").read_bytes())
    assert_one_line_error(
        rescore(lists, "--lm", "lexical", "--weight", "0.1"), "no lexical is shipped"
    )
