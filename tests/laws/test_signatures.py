"""Law 5: a signature is made of the plan, so that figures that were made differently
have different signatures, and equal signatures mean equal figures.

Every option of an experiment has a scenario here, in which its value changes. The
signature changes too, or the option is declared as one that cannot change a figure
(`rescore.options.Option.harmless`); then neither figures nor signatures change.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from rescore.asr.channel import collect, learn
from rescore.asr.systems import combined
from rescore.cli import eval as evaluating
from rescore.cli import options
from rescore.config import RunConfig
from rescore.formats import read, write
from rescore.lms.config import NetworkConfig
from rescore.lms.lexicon import Lexicon
from rescore.lms.tokenizer import Tokenizer
from rescore.metrics.base import settings_on
from rescore.metrics.listed import WordList
from rescore.options import Field, flattened, option
from rescore.parts import METRICS
from rescore.signature import parse
from rescore.tuning import Weights
from rescore.tuning.record import SIGNED_ELSEWHERE, TuningOptions
from tests.asr import test_agreement as tests_of_agreement
from tests.conftest import LEXICON, WORDS, Done, Run, networks_with_sentences
from tests.formats.samples import SAMPLES
from tests.lms.test_ngram import ARPA

CLASSES = (
    RunConfig,
    options.InputOptions,
    options.LanguageModelOptions,
    options.TunedWeights,
    options.DevLists,
    evaluating.TestOptions,
)
"""The declared classes whose options make an experiment."""


def declared() -> dict[str, Field]:
    """Return every option of an experiment, those of all parts included, by class and
    name.
    """
    every = {}
    for group in CLASSES:
        for entry in flattened(group.declared()):
            every[f"{group.__name__}.{entry.name}"] = entry
    return every


@dataclass(frozen=True)
class Scenario:
    """Two commands that differ in one option."""

    before: Sequence[str]
    change: Sequence[str]
    """What the second command has beside the arguments of the first."""
    instead: Sequence[str] = ()
    """The arguments of the first command that the second lacks."""

    def after(self) -> list[str]:
        """Return the second command."""
        kept = [word for word in self.before if word not in self.instead]
        return [*kept, *self.change]


RUN = ("run", "l.jsonl")
PLAIN = ("run", "plain.jsonl")
TUNED = (*RUN, "--dev", "dev.jsonl")
LM = (*RUN, "--weight", "0.3", "--lm", "ngram:lm.arpa")
GIVEN = (*RUN, "--weight", "0.2", "--weight", "0.2")
FOLDS = (*RUN, "--folds", "3")
CONTEXT = (*RUN, "--lm", "unilm:context=1:CAUSAL", "--weight", "0.5")
MBR = (*RUN, "--decide", "mbr", "--scale", "0.5")
RESPELL = (
    *(*PLAIN, "--dev", "plain-dev.jsonl", "--respell", "3", "--channel", "dev"),
    *("--lexicon", "lexicon.txt.xz"),
)
OPENNMT = ("run", "opennmt", "--format", "opennmt")
NETWORK = (*RUN, "--lm", "tta:MODEL", "--weight", "0.3")
EVAL = ("eval", "l.jsonl", "other.jsonl")
TEXT = ("eval", "text", "--ref", "ref")
WORDY = (*GIVEN, "--words", "words", "--boost", "2")

SCENARIOS = {
    "RunConfig.lm_norm": Scenario(LM, ("--lm-norm", "mean")),
    "RunConfig.weights": Scenario(LM, ("--weight", "0.6"), ("--weight", "0.3")),
    "RunConfig.word_bonus": Scenario(LM, ("--word-bonus", "2")),
    "RunConfig.token_bonus": Scenario(NETWORK, ("--token-bonus", "2")),
    "RunConfig.boost": Scenario(
        (*RUN, "--words", "words"), ("--boost", "2"), ("--boost", "2")
    ),
    "RunConfig.folds": Scenario(FOLDS, ("--folds", "4"), ("--folds", "3")),
    "RunConfig.speaker": Scenario(FOLDS, ("--speaker", r"(\d)[pq]$")),
    "RunConfig.by_speaker": Scenario(RUN, ("--by-speaker",)),
    "RunConfig.by": Scenario(RUN, ("--by", "^(.)")),
    "RunConfig.bagging": Scenario(FOLDS, ("--no-bagging",)),
    "RunConfig.negative": Scenario(FOLDS, ("--allow-negative", "a")),
    "RunConfig.components": Scenario(FOLDS, ("--components",)),
    "RunConfig.recombine": Scenario(PLAIN, ("--recombine", "4")),
    "RunConfig.respell": Scenario(RESPELL, ("--respell", "1"), ("--respell", "3")),
    "RunConfig.channel": Scenario(
        RESPELL, ("--channel", "channel"), ("--channel", "dev")
    ),
    "RunConfig.lexicon": Scenario(
        RESPELL, ("--lexicon", "small.txt.xz"), ("--lexicon", "lexicon.txt.xz")
    ),
    "RunConfig.decide": Scenario(GIVEN, ("--decide", "mbr", "--scale", "1")),
    "RunConfig.scale": Scenario(MBR, ("--scale", "0.01"), ("--scale", "0.5")),
    "RunConfig.no_word": Scenario(
        (*RUN, "--decide", "rover", "--scale", "0.1"), ("--no-word", "0.9")
    ),
    "RunConfig.votes": Scenario(
        ("run", "votes.jsonl", "--ref", "votes.ref", "--decide", "rover"),
        ("--votes", "equal"),
    ),
    "RunConfig.metrics": Scenario(
        (*MBR, "--metric", "wer", "--metric", "bleu"),
        ("--metric", "bleu", "--metric", "wer"),
        ("--metric", "wer", "bleu"),
    ),
    "RunConfig.case_sensitive": Scenario(RUN, ("--case-sensitive",)),
    "RunConfig.split_hyphens": Scenario(RUN, ("--split-hyphens",)),
    "RunConfig.drop_punctuation": Scenario(RUN, ("--drop-punctuation",)),
    "RunConfig.drop_apostrophes": Scenario(RUN, ("--drop-apostrophes",)),
    "RunConfig.drop_unknown": Scenario(RUN, ("--drop-unknown",)),
    "RunConfig.unicode_basic": Scenario(RUN, ("--unicode-basic",)),
    "RunConfig.replace": Scenario(
        (*RUN, "--replace", "rules"), ("--replace", "others"), ("--replace", "rules")
    ),
    "RunConfig.answer": Scenario(RUN, ("--answer", "[a-z]+"), ("--answer", "[a-d]+")),
    "RunConfig.drop_marks": Scenario(RUN, ("--drop-marks",)),
    "RunConfig.language": Scenario(RUN, ("--language", "tr")),
    "RunConfig.nfkc": Scenario(RUN, ("--nfkc",)),
    "RunConfig.split_characters": Scenario(
        (*GIVEN, "--metric", "cer", "--word-bonus", "3"), ("--split-characters",)
    ),
    "RunConfig.split_mixed": Scenario(RUN, ("--split-mixed",)),
    "RunConfig.align": Scenario(RUN, ("--align", "jiwer")),
    "RunConfig.words": Scenario(WORDY, ("--words", "more"), ("--words", "words")),
    "RunConfig.tokenise": Scenario((*RUN, "--metric", "bleu"), ("--tokenize", "char")),
    "InputOptions.ref": Scenario(RUN, ("--ref", "ref")),
    "InputOptions.scores": Scenario(
        (*PLAIN, "--folds", "3", "--scores", "qe.csv"),
        ("--scores", "more.csv"),
        ("--scores", "qe.csv"),
    ),
    "DevLists.dev_scores": Scenario(
        (
            *(*PLAIN, "--dev", "plain-dev.jsonl", "--scores", "qe.csv"),
            *("--dev-scores", "qe-dev.csv"),
        ),
        ("--dev-scores", "more-dev.csv"),
        ("--dev-scores", "qe-dev.csv"),
    ),
    "InputOptions.src": Scenario((*RUN, "--metric", "wer"), ("--src", "ref")),
    "InputOptions.ref_format": Scenario(TEXT, ("--ref-format", "plain")),
    "InputOptions.format_name": Scenario(
        ("eval", "moses", "--ref", "moses.ref", "--metric", "wer"), ("--format", "text")
    ),
    "InputOptions.s2s": Scenario(RUN, ("--s2s", "rank")),
    "InputOptions.acoustic_scale": Scenario(
        ("eval", "nbest", "--ref", "kaldi.ref"), ("--acoustic-scale", "9")
    ),
    "InputOptions.size": Scenario(
        (*OPENNMT, "--nbest-size", "2"),
        ("--nbest-size", "3"),
        ("--nbest-size", "2"),
    ),
    "InputOptions.lenpen": Scenario(
        ("run", "fairseq", "--s2s", "sum"), ("--lenpen", "0.5")
    ),
    "InputOptions.fields": Scenario(
        ("eval", "table.csv", "--field", "score=a"),
        ("--field", "score=b"),
        ("--field", "score=a"),
    ),
    "InputOptions.shape": Scenario(
        ("eval", "said.json", "--ref", "said.ref", "--shape", "text.toml"),
        ("--shape", "other.toml"),
        ("--shape", "text.toml"),
    ),
    "InputOptions.recordings": Scenario(
        (*CONTEXT, "--recordings", "recordings"),
        ("--recordings", "singly"),
        ("--recordings", "recordings"),
    ),
    "InputOptions.strict": Scenario(RUN, ("--strict",)),
    "LanguageModelOptions.lm": Scenario(LM, ("ngram:other.arpa",), ("ngram:lm.arpa",)),
    "LanguageModelOptions.device": Scenario(NETWORK, ("--device", "cpu")),
    "LanguageModelOptions.precision": Scenario(NETWORK, ("--precision", "int8")),
    "LanguageModelOptions.batch_tokens": Scenario(NETWORK, ("--batch-tokens", "30")),
    "LanguageModelOptions.cache": Scenario(NETWORK, ("--cache", "cache")),
    "TunedWeights.weights": Scenario(("rerank", "l.jsonl"), ("--weights", "w.json")),
    "DevLists.dev": Scenario(TUNED, ("--dev", "other.jsonl"), ("--dev", "dev.jsonl")),
    "DevLists.dev_ref": Scenario(TUNED, ("--dev-ref", "dev.ref")),
    "DevLists.dev_src": Scenario(TUNED, ("--dev-src", "dev.ref")),
    "TestOptions.test": Scenario(EVAL, ("--test", "mapsswe")),
    "TestOptions.by_speaker": Scenario(EVAL, ("--by-speaker",)),
    "TestOptions.speaker": Scenario((*EVAL, "--by-speaker"), ("--speaker", "(.)$")),
}

NOT_HERE = {
    "RunConfig.whisper_english": "needs the package of Whisper's normaliser",
    "RunConfig.whisper_basic": "needs the package of Whisper's normaliser",
    "RunConfig.steps": "needs a package's step: tests/laws/test_steps.py",
    "RunConfig.collar": "needs the package meeteval",
    "RunConfig.numbers": "needs the package text2num",
    "RunConfig.open_asr": "needs the leaderboard's code",
    "RunConfig.model": "needs a model of COMET",
    "InputOptions.audio": "needs a model that listens",
    "LanguageModelOptions.prompt": "needs a model of Hugging Face",
    "LanguageModelOptions.engine": "needs Ray",
    "LanguageModelOptions.workers": "needs Ray",
    "TunedWeights.force_weights": "without it there is an error in place of figures",
    "InputOptions.allow_missing": "without it there is an error in place of figures",
    "InputOptions.merge": "without it there is an error in place of figures",
}
"""Options whose scenario is elsewhere: settings of metrics and fingerprints of models
hold them (tests/metrics/test_open_asr.py, tests/mt, tests/large, tests/scoring).
"""


def some_lists(seed: int, number: int = 12) -> list[dict[str, Any]]:
    """Return lists in which every option has an effect."""
    draw = random.Random(seed)
    lists = []
    for index in range(number):
        words = ["The", "old", draw.choice(WORDS), "by", "the-sea", "o'clock"]
        words += [draw.choice(WORDS), "<unk>", "\u2460,"]
        reference = " ".join(words)
        hyps = []
        for place in range(5):
            heard = list(words)
            for _ in range(place % 3 + 1):
                wrong = draw.choice([*WORDS, "the", "clock", "sea", "1", "old"])
                heard[draw.randrange(len(heard))] = wrong
            if draw.random() < 0.5:
                heard.pop()
            scores = {name: -round(9 * draw.random(), 3) for name in ("a", "b", "am")}
            text = " ".join(heard)
            hyps.append({"text": text, "score": -place - 0.5, "scores": scores})
        columns = {}
        for name, role in (("a", "lm"), ("b", "lm"), ("am", "component")):
            columns[name] = {
                "model": name,
                "fingerprint": "0123456789ab" if role == "lm" else "",
                "norm": "sum",
                "precision": "float32",
                "role": role,
            }
        name = f"{'wxyz'[index % 4]}-{seed}{index:02}{'pq'[index % 2]}"
        entry = {"id": name, "ref": reference, "hyps": hyps, "columns": columns}
        lists.append(entry)
    return lists


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_scores(path: Path, lists: Sequence[dict[str, Any]], seed: int) -> None:
    """Write a file of --scores: more wrong words give a lower number."""
    draw = random.Random(seed)
    rows = ["id,rank,qe"]
    for entry in lists:
        right = entry["ref"].split()
        for rank, hyp in enumerate(entry["hyps"], 1):
            wrong = len(right) - len(set(right).intersection(hyp["text"].split()))
            rows.append(f"{entry['id']},{rank},{-wrong - draw.random():.3f}")
    write_lines(path, rows)


def write_files(folder: Path, models: dict[str, Path]) -> None:
    """Write the files of the scenarios."""
    lists = some_lists(1)
    for name, entries in (("", lists), ("dev", some_lists(2, 16))):
        write_lines(folder / f"{name or 'l'}.jsonl", map(json.dumps, entries))
        for entry in entries:
            for hyp in entry["hyps"]:
                hyp["scores"] = {}
        plain = [entry | {"columns": {}} for entry in entries]
        name = f"plain-{name}".strip("-")
        write_lines(folder / f"{name}.jsonl", map(json.dumps, plain))
    for name, entries in (("", some_lists(1)), ("-dev", some_lists(2, 16))):
        write_scores(folder / f"qe{name}.csv", entries, 3)
        write_scores(folder / f"more{name}.csv", entries, 4)
    lists = some_lists(1)
    other = [entry | {"hyps": entry["hyps"][1:]} for entry in lists]
    write_lines(folder / "other.jsonl", map(json.dumps, other))
    ids = [entry["id"] for entry in lists]
    write_lines(folder / "ref", (f"{name} the old clock" for name in ids))
    dev = [entry["id"] for entry in some_lists(2, 16)]
    write_lines(folder / "dev.ref", (f"{name} the clock" for name in dev))
    texts = [f"{entry['id']} {entry['hyps'][0]['text']}" for entry in lists]
    write_lines(folder / "text", texts)
    write_lines(folder / "recordings", (f"{name} r" for name in ids))
    write_lines(folder / "singly", (f"{name} {name}" for name in ids))
    write_lines(folder / "moses", [f"{n} ||| the old ||| F= 1 ||| -1" for n in (0, 1)])
    write_lines(folder / "moses.ref", ["the clock"] * 2)
    write_lines(folder / "opennmt", ["the old", "the", "old", "clock", "a", "b"] * 2)
    lines = ["S-0\tx", "T-0\told clock", "H-0\t-0.5\told clock b c", "H-0\t-0.4\told"]
    write_lines(folder / "fairseq", lines)
    (folder / "words").write_text("clock\nold\n")
    (folder / "rules").write_text("clock\tclocks\n")
    (folder / "others").write_text("clock\told\n")
    (folder / "more").write_text("gardener\nmeadow\nsea\n")
    (folder / "lm.arpa").write_text(ARPA)
    (folder / "other.arpa").write_text(ARPA.replace("-1.6\tclock", "-0.2\tclock"))
    LEXICON.save(folder / "lexicon.txt.xz")
    Lexicon(dict.fromkeys(WORDS[:5], 100), 10_000).save(folder / "small.txt.xz")
    learn(collect(read([str(folder / "plain.jsonl")]))).save(folder / "channel")
    weights = Weights({"s2s": 0.1, "a": 0.9})
    weights.save(folder / "w.json")
    rows = ["id,ref,text,a,b"]
    for entry in lists:
        for hyp in entry["hyps"]:
            a, b = (hyp["scores"][name] for name in "ab")
            rows.append(f'{entry["id"]},old,"{hyp["text"]}",{a},{b}')
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    for name, text in SAMPLES["kaldi"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    systems = tests_of_agreement.systems((0.1, 0.2, 0.4), number=12)
    write(combined(systems), str(folder / "votes.jsonl"))
    heard = systems["a"]
    write_lines(
        folder / "votes.ref", (f"{one.id} {one.references[0]}" for one in heard)
    )
    said = [{"text": "old", "other": "new"}]
    (folder / "said.ref").write_text("said old\n")
    (folder / "said.json").write_text(json.dumps({"said": said}))
    for name in ("text", "other"):
        shape = f'results = "said[]"\ntext = "{name}"\n'
        (folder / f"{name}.toml").write_text(shape)
    (folder / "kaldi.ref").write_text("spk-a hello world\nspk-b yes\n")


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    models: dict[str, Path],
    config: NetworkConfig,
    tokenizer: Tokenizer,
) -> Iterator[Path]:
    """A folder with the files of the scenarios."""
    place = tmp_path_factory.mktemp("signatures")
    write_files(place, models)
    (place / "MODEL").symlink_to(models["tta"])
    reads_neighbours = replace(config, kind="unilm").with_neighbours(1)
    causal = networks_with_sentences([reads_neighbours], tokenizer, tmp_path_factory)
    (place / "CAUSAL").symlink_to(causal["unilm"])
    yield place


def measured(rescore: Run, arguments: Sequence[str]) -> tuple[Any, Any]:
    """Return the figures and the signatures of a command."""
    done: Done = rescore(*arguments, "--report", "report.json")
    assert done.returncode == 0, (arguments, done.stderr)
    report = json.loads(Path("report.json").read_text())
    systems = report if isinstance(report, list) else [report]
    figures = []
    signatures = [system["signature"] for system in systems]
    for system in systems:
        for row in system.get("metrics", system.get("systems", [])):
            figures.append([row.get(name) for name in FIGURES])
            signatures.append(row.get("signature") or system["signature"])
    return figures, signatures


FIGURES = (
    *("metric", "value", "first_pass", "reranked", "oracle", "intervals", "p_value"),
    *("low", "high"),
)
"""The fields of a row that are figures; rows of different reports have some of them."""


def test_every_option_has_a_scenario() -> None:
    every = declared()
    assert len(every) > 50
    assert set(every) == {*SCENARIOS, *NOT_HERE}


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_value_has_another_signature(
    rescore: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(folder)
    scenario = SCENARIOS[name]
    before, ours = measured(rescore, scenario.before)
    after, theirs = measured(rescore, scenario.after())
    if declared()[name].about.harmless:
        assert (after, theirs) == (before, ours)
    else:
        assert not set(theirs) & set(ours), (before, after)
    for line in (*ours, *theirs):
        assert str(parse(line)) == line


OF_COMMANDS = {
    "lms": "LanguageModelOptions.lm",
    "force_weights": "TunedWeights.force_weights",
    "dev": "DevLists.dev",
    "columns": "RunConfig.negative",
    "count_tokens": "RunConfig.token_bonus",
}
"""Fields of the configuration that commands have as options of their own, and the
option under test; the weights of columns, and of a count, stand in signatures.
"""


def test_every_field_of_the_configuration_is_an_option() -> None:
    own = {entry.name for entry in RunConfig.declared()}
    settable = {entry.name for entry in RunConfig.all_fields()}
    assert settable == {*own, *OF_COMMANDS}
    assert set(OF_COMMANDS.values()) <= {*SCENARIOS, *NOT_HERE}


OTHERS: dict[str, Any] = {
    "bonuses": ("words",),
    "bagging": False,
    "negative": ("lm",),
    "given": {"words": 0.5},
}


def test_every_field_of_tuning_is_signed_in_folds() -> None:
    assert {entry.name for entry in fields(TuningOptions)} == {
        *OTHERS,
        *SIGNED_ELSEWHERE,
    }
    for name, value in OTHERS.items():
        assert name in replace(TuningOptions(), **{name: value}).for_signature


def forgetful(metric: type[Any]) -> type[Any]:
    """Return a metric of another package: with an option more, and with the settings of
    the metric that it is made from.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(metric.Options):  # type: ignore[misc, name-defined]
        outer_option: int = option(0, "An option.")

    class Forgetful(metric):  # type: ignore[misc]
        settings = property(lambda self: {"case": "lc"})

    Forgetful.Options = Options
    return Forgetful


@pytest.mark.parametrize("name", [name for name in METRICS.shipped if name != "comet"])
def test_options_of_metrics_from_outside_are_signed(name: str) -> None:
    kind = forgetful(METRICS[name])
    values = {}
    if "words" in METRICS[name].Options.__dataclass_fields__:
        values["words"] = WordList(("clock",), "words")
    metric = kind.choose(kind.Options(**values, outer_option=3), ())
    assert settings_on(metric, [])["outer-option"] == "3"
    usual = kind.choose(kind.Options(**values), ())
    assert "outer-option" not in settings_on(usual, [])
