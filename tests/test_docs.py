"""Every command in the docs runs, on small lists that stand under the names which the
docs use.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rescore import formats
from rescore.cli.bridge import Offer
from rescore.cli.main import COMMANDS
from rescore.cli.train import trained_kinds
from rescore.lms import backends, checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.nbest import Hypothesis
from rescore.research import probe, similarity
from tests.cli.test_recipe import espnet1, espnet2
from tests.conftest import (
    ROOT,
    SENTENCES,
    Run,
    fewer_samples,
    parameters_of,
    read_report,
    run_main,
    some_lists,
)
from tests.formats import scorers
from tests.large.speech_models import build_speech, sound
from tests.large.test_huggingface import build as causal_model
from tests.large.test_seq2seq import build as translation_model
from tests.lms.test_ngram import ARPA
from tests.metrics.test_exact import batch
from tests.research.a3t.conftest import speak
from tests.research.test_hypernyms import tools

pytestmark = pytest.mark.docs

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = {"--null", "--only", "--train", "--with", "--write-compact"}
"""Options of other programs and of scripts that the docs name."""
TINY = {
    "layers": 1,
    "d_model": 16,
    "heads": 2,
    "d_ff": 16,
    "vocab_size": 300,
    "max_positions": 40,
}


def commands(page: Path) -> list[str]:
    """The indented lines and the steps of workflows that call rescore, joined where
    they end in a backslash; the loops of docs/results, which need the public sets, are
    in fences.
    """
    text = re.sub(r"```bash\n(?s:.*?)```", "", page.read_text(encoding="utf-8"))
    text = re.sub(r" \\\n +", " ", text)
    found = re.findall(r"^    (?:\$ |  - run: )?(rescore .*)$", text, re.MULTILINE)
    return [re.sub(r"\s+(#|>>).*", "", line) for line in found]


def test_there_are_commands() -> None:
    counts = {page.name: len(commands(page)) for page in PAGES}
    assert (
        counts["README.md"] >= 5
        and counts["tutorial.md"] >= 10
        and counts["results-files.md"] >= 5
    )


def test_options_in_the_docs_are_options_of_commands() -> None:
    known = {"--version"}
    for name in COMMANDS:
        known |= {
            opt
            for one in parameters_of(name)
            for opt in (*one.opts, *one.secondary_opts)
        }
    kinds = trained_kinds()
    for name in kinds:
        options = kinds[name].training_options()
        assert options is not None
        known |= {
            opt
            for one in Offer(options).parameters()
            for opt in (*one.opts, *one.secondary_opts)
        }
    for page in PAGES:
        if page.name == "upgrade.md":
            continue  # names what was removed
        named = set(
            re.findall(r"`(--[a-z][a-z0-9-]*)[ `=]", page.read_text(encoding="utf-8"))
        )
        assert named <= known | OTHERS, (page.name, named - known - OTHERS)


def test_the_tutorial_prints_what_the_page_says(rescore: Run, tmp_path: Path) -> None:
    """Each command of the page, and the lines below it, in their order; `...` stands
    for further lines.
    """
    (tmp_path / "data").symlink_to(ROOT / "data")
    text = re.sub(
        r" \\\n +", " ", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    )
    printed: Iterator[str] = iter(())
    for line in re.findall(r"^    (.*)$", text, re.MULTILINE):
        if line.startswith("$ rescore "):
            done = rescore(*shlex.split(line)[2:])
            assert done.returncode == 0, done.stderr
            printed = iter([*done.stdout.splitlines(), *done.stderr.splitlines()])
        elif line.startswith("$ head -n 1 "):
            printed = iter(
                (tmp_path / line.split()[-1])
                .read_text(encoding="utf-8")
                .splitlines()[:1]
            )
        elif line not in ("", "..."):
            assert line in printed, line  # searches on from the line before


DEMO = "rescore data/test.json --lm tta --dev data/dev.json"
"""The command whose figures several pages show."""


def test_pages_show_what_the_demo_prints(rescore: Run, tmp_path: Path) -> None:
    """Each line below the command in README and index, and each figure that the page
    about the output explains.
    """
    (tmp_path / "data").symlink_to(ROOT / "data")
    done = rescore(*shlex.split(DEMO)[1:])
    assert done.returncode == 0, done.stderr
    printed = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    for name in ("README.md", "docs/index.md"):
        _, found, below = (ROOT / name).read_text("utf-8").partition(f"$ {DEMO}\n")
        assert found, name
        block = re.match(r"(?:    .*\n|\n)+", below)
        assert block is not None
        for line in block[0].splitlines():
            assert not line.strip() or line.removeprefix("    ") in printed, line
    page = (ROOT / "docs" / "output.md").read_text("utf-8")
    quoted = re.findall(r"^\| `([^`]*)` \|", page, re.MULTILINE)
    figures = [quote for quote in quoted if re.search(r"\d\.\d|\d{3}@|^116", quote)]
    assert len(figures) >= 8
    everything = "\n".join(printed)
    for quote in figures:
        assert quote in everything or quote in DECISIONS_SHOWN, quote


DECISIONS_SHOWN = {"decide:mbr,4.66", "p:randomisation,..."}
"""What other commands print, and the page explains."""


def test_a_page_is_read_in_minutes() -> None:
    lengths = {
        str(page.relative_to(ROOT)): len(page.read_text(encoding="utf-8").splitlines())
        for page in PAGES
    }
    assert not {
        name: length
        for name, length in lengths.items()
        if length > 220 and "results/" not in name
    }


def short(line: str) -> list[str]:
    """The command without what would take long: a model of hours becomes one of two
    steps.
    """
    line = line.replace("--config small", "--config tiny.json")
    line = re.sub(
        r"--(minutes|steps) \d+", "--steps 2 --batch-tokens 200 --held-out 5", line
    )
    line = re.sub(r" --engine \S+| --workers \d+", "", line)  # tests/engines has them
    line = re.sub(r"train --lm (ctc|a3t) ", r"train --lm \1 --steps 2 ", line)
    line = line.replace("/usr/share/wordnet", "wordnet")
    line = line.replace("rescore bench ", "rescore bench --lengths 5,20 ")
    if "--lm ngram" in line and line.startswith("rescore train"):
        line += " --discount-fallback"
    return shlex.split(line)[1:]


@pytest.fixture(scope="module")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped models with their cards and tokenizers, but networks of one small
    layer, which need little time.
    """
    folder = Path(
        shutil.copytree(ROOT / "models", tmp_path_factory.mktemp("shipped") / "models")
    )
    torch.manual_seed(0)
    for path in folder.glob("*/config.json"):
        if (path.parent / "model.safetensors").exists():
            config, tokenizer = (
                NetworkConfig.load(path),
                Tokenizer.load(path.parent / "tokenizer.json"),
            )
            # the docs name three layers of this one
            layers = 3 if path.parent.name == "tta-small" else 1
            small = replace(config, layers=layers, d_model=32, heads=2, d_ff=32)
            checkpoint.save(path.parent, checkpoint.build(small), tokenizer)
    return folder


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Path:
    """A folder with all that the commands name."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "data").mkdir()
    for name in ("dev", "test"):
        lists = formats.read([ROOT / "data" / f"{name}.json"])[:5]
        for index, nbest in enumerate(lists):
            del nbest.hypotheses[4:]
            nbest.fields = {"document": "ab"[index % 2]}
        for path in (folder / "data" / f"{name}.json", folder / f"{name}.json"):
            formats.write(lists, str(path))
        texts = [nbest.references[0] for nbest in lists]
        (folder / f"{name}.en").write_text("\n".join(texts) + "\n", encoding="utf-8")
        (folder / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        moses, log = [], []
        for index, nbest in enumerate(lists):
            log += [f"S-{index}\tein Satz", f"T-{index}\t{nbest.references[0]}"]
            for hypothesis in nbest.hypotheses:
                score = hypothesis.scores["s2s"]
                moses.append(
                    f"{index} ||| {hypothesis.text} ||| LM0= {score / 2} TM0= -1 |||"
                    f" {score}"
                )
                log += [
                    f"H-{index}\t{score / 1e3}\t{hypothesis.text}",
                    f"P-{index}\t-0.1",
                ]
        (folder / f"{name}.nbest").write_text("\n".join(moses) + "\n", encoding="utf-8")
        (folder / f"{name}.generate.txt").write_text(
            "\n".join(log) + "\n", encoding="utf-8"
        )
    for system in ("marian", "nllb", "opus"):
        (folder / system).mkdir()
        for name in ("dev", "test"):
            shutil.copy(folder / f"{name}.nbest", folder / system)
    for kind in ("tta", "bilm", "unilm"):
        shutil.copytree(tiny_models / kind, folder / "networks" / kind)
    (folder / "wordnet").mkdir()
    tools().write(folder / "wordnet")
    decoded = folder / "decoded"
    decoded.mkdir()
    for name in ("dev", "test"):
        espnet2(decoded, name, 4)
        (folder / "exp" / "asr").mkdir(parents=True, exist_ok=True)
        shutil.copytree(decoded / name, folder / f"{name}_other")
        shutil.copy(decoded / f"{name}.ref", folder / f"{name}_other" / "text")
        shutil.move(decoded / name, folder / "exp" / "asr" / f"decode_{name}")
        (folder / "data" / name).mkdir()
        shutil.move(decoded / f"{name}.ref", folder / "data" / name / "text")
        espnet1(decoded, name)
        shutil.move(decoded / name, folder / "exp" / f"decode_{name}")
    (folder / "data" / "sentences.txt").write_text(
        "\n".join(SENTENCES) + "\n", encoding="utf-8"
    )
    paragraphs = "".join(f"{text}\n{text}\u00b6\n" for text in SENTENCES)
    (folder / "documents.txt").write_text(paragraphs, encoding="utf-8")
    for name in ("novels.txt", "general.txt", "transcripts.txt"):
        (folder / name).write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    both = [
        f"{name}.{language}"
        for name in ("train", "general", "talks", "valid")
        for language in ("de", "en")
    ]
    for name in ("corpus.en", *both):
        few = [" ".join(line.split()[:4]) for line in SENTENCES]
        (folder / name).write_text("\n".join(few) + "\n", encoding="utf-8")
    for name in ("Helsinki-NLP/opus-mt-de-en", "Helsinki-NLP/opus-mt-en-de"):
        translation_model("marian", folder / name)
    # a local folder comes before the hub
    causal_model("gpt2", folder / "Qwen" / "Qwen3-0.6B")
    entries = [
        {"input": ["the old clock", "the odd clock"], "output": "the old clock"}
    ] * 5
    for name in ("test_wsj_score", "test_chime4", "test_atis"):
        (folder / f"{name}.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "corpus.txt.xz").write_bytes(lzma.compress("\n".join(SENTENCES).encode()))
    (folder / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    (folder / "models").symlink_to(tiny_models)
    shutil.copy(ROOT / "data" / "two.json", folder / "data" / "two.json")
    shutil.copy(ROOT / "data" / "golden.json", folder / "data" / "golden.json")
    shutil.copy(ROOT / "data" / "test.json", folder / "ref.json")
    shutil.copy(ROOT / "data" / "test.json", folder / "other.json")
    lists = formats.read([folder / "test.json"])
    (folder / "ref.trn").write_text(
        "".join(f"{one.references[0]} ({one.id})\n" for one in lists), encoding="utf-8"
    )
    for name in ("hyp.stm", "other.stm", "ref.stm"):
        spoken = "talk 1 anna 0 2 an owl\ntalk 1 ben 1 4 hoots at night\n"
        (folder / name).write_text(spoken, encoding="utf-8")
    for name in ("hyp.seglst.json", "ref.seglst.json"):
        said = {"session_id": "talk", "speaker": "anna", "words": "an owl"}
        (folder / name).write_text(json.dumps([said]), encoding="utf-8")
    for name in ("output", "output-v2", "other", "output.1688", "other.1688"):
        shutil.copy(folder / "ref.trn", folder / f"{name}.trn")
    (folder / "names.txt").write_text(
        "\n".join(lists[0].references[0].split()), encoding="utf-8"
    )
    pairs = "1\tthe old clock\tthe clock\n2\ta house\tthe house\n3\tan owl\tthe owl\n"
    for name in ("pairs.tsv", "sts-dev.csv"):
        (folder / name).write_text(pairs, encoding="utf-8")
    head = "sentence_A\tsentence_B\tentailment_label\trelatedness_score\n"
    rows = "the old clock\tthe clock\tNEUTRAL\t3\nan owl\tan owl\tENTAILMENT\t5\n"
    (folder / "SICK.txt").write_text(head + rows * 10, encoding="utf-8")
    words = "clock\tN\t2-1\tthe old clock\tthe clock\nowl\tN\t1-0\tan owl\towl\n" * 10
    (folder / "dev.data.txt").write_text(words, encoding="utf-8")
    (folder / "dev.gold.txt").write_text("T\nF\n" * 10, encoding="utf-8")
    table = "utt,what,cost,lm_logp\n1,a b,2,-7\n1,a,1,-9\n"
    (folder / "lists.csv").write_text(table, encoding="utf-8")
    (folder / "refs.csv").write_text("talk,truth\n1,a b\n", encoding="utf-8")
    formats.write(formats.read([folder / "test.json"]), str(folder / "lists.jsonl"))
    formats.write(
        formats.read([folder / "test.generate.txt"]), str(folder / "beam.jsonl")
    )
    for name in ("dev", "test"):
        written = formats.read([folder / f"{name}.json"])
        formats.write(written, str(folder / f"{name}.jsonl"))
        for nbest in written:
            nbest.hypotheses[:] = [Hypothesis(nbest.hypotheses[0].text, {"s2s": -1.0})]
        formats.write(written, str(folder / f"{name}.llm.jsonl"))
    for name in ("dev", "test"):
        shutil.copytree(
            folder / "exp" / "asr" / f"decode_{name}", folder / f"{name}_strong"
        )
        shutil.copy(folder / "data" / name / "text", folder / f"{name}_strong" / "text")
        for text in list((folder / f"{name}_strong").rglob("*best_recog/score")):
            rows = [
                line.split() for line in text.read_text(encoding="utf-8").splitlines()
            ]
            parts = [f"{row[0]} {{'decoder': {row[1]}}}" for row in rows]
            text.with_name("scores").write_text(
                "\n".join(parts) + "\n", encoding="utf-8"
            )
    places = "".join(
        f"{one.id} recording {at} {at + 1}\n" for at, one in enumerate(lists)
    )
    (folder / "data" / "segments").write_text(places, encoding="utf-8")
    for name in ("dev", "test"):
        (folder / "lats" / name).mkdir(parents=True)
        for nbest in formats.read([folder / "exp" / "asr" / f"decode_{name}"]):
            words = nbest.hypotheses[0].text.split()
            links = [
                f"J={at} S={at} E={at + 1} W={word} a=-1 l=-0.5"
                for at, word in enumerate(words)
            ]
            lattice = "\n".join(["start=0", *links, ""])
            (folder / "lats" / name / f"{nbest.id}.slf").write_text(
                lattice, encoding="utf-8"
            )
    (folder / "lm").mkdir()
    (folder / "lm" / "lm.arpa").write_text(ARPA, encoding="utf-8")
    run = [
        sys.executable,
        "-m",
        "rescore",
        "test.json",
        "--lm",
        "ngram:lm",
        "--weight",
        "0.1",
        "--report",
        "results.json",
    ]
    subprocess.run(run, cwd=folder, check=True, capture_output=True)
    _recordings(folder)
    _brain_to_text(folder)
    _speech(folder)
    _tables(folder)
    _tones(folder / "speech")
    first = lists[0].references[0].split()[0]
    (folder / "terms.txt").write_text(f"kubectl\n{first}\n", encoding="utf-8")
    (folder / "talk.srt").write_text(
        "1\n00:00:00,000 --> 00:00:02,000\nrun cube cuttle now\n", encoding="utf-8"
    )
    for name in ("test.trn", "corrected.trn"):
        shutil.copy(folder / "ref.trn", folder / name)
    shutil.copy(folder / "dev.ref.trn", folder / "dev.trn")
    _public_sets(folder)
    return folder


def _public_sets(folder: Path) -> None:
    """Give the small lists the names of the public sets of docs/results."""
    for name in ("hyporadise", "dstc2", "iwslt14-deen", "parallel-deen", "similarity"):
        (folder / name).symlink_to(folder)
    for name in ("data", "gold"):
        shutil.copy(folder / f"dev.{name}.txt", folder / f"wic-dev.{name}.txt")
    for language in ("de", "en"):
        text = (folder / f"train.{language}").read_bytes()
        (folder / f"train.{language}.xz").write_bytes(lzma.compress(text))
    for name in ("dev", "test"):
        for part in ("other", "clean"):
            (folder / "librispeech").mkdir(exist_ok=True)
            (folder / "librispeech" / f"{name}_{part}").symlink_to(
                folder / f"{name}_other"
            )
        lists = folder / f"{name}.generate.txt"
        formats.write(formats.read([lists]), str(folder / f"{name}.narrow.jsonl"))
    formats.write(formats.read([folder / "test.json"]), str(folder / "earnings.jsonl"))


def _tables(folder: Path) -> None:
    """Write the tables, scores and files of other scorers that pages name."""
    for name in ("dev", "test"):
        lists = formats.read([folder / f"{name}.json"])
        translations = formats.read([folder / f"{name}.generate.txt"])
        for stem, judged in ((name, lists), (f"{name}.generate", translations)):
            rows = ["id,rank,qe"]
            for nbest in judged:
                for rank, one in enumerate(nbest.hypotheses, 1):
                    one.scores["qe"] = -float(rank)
                    rows.append(f"{nbest.id},{rank},{-rank}")
            path = folder / f"{stem}.qe.csv"
            path.write_text("\n".join(rows), encoding="utf-8")
        formats.write(lists, str(folder / f"{name}.csv"))
    wide = "id,h1,h2,s1,s2,ref\nu1,an owl,a cowl,-1,-2,an owl\n"
    (folder / "wide.csv").write_text(wide, encoding="utf-8")
    votes = "u1,a,an owl,an owl\nu1,b,a cowl,an owl\nu2,a,it,it\nu2,b,it,it\n"
    (folder / "all.csv").write_text(
        f"id,backend_id,text,ref\n{votes}", encoding="utf-8"
    )
    for name in ("", "dev-"):
        requests = []
        gold = []
        for number in range(1, 7):
            texts = [f"So #### {number}", "Well.", f"#### {number}", "#### 7"]
            requests.append((f"gsm-{number}", texts[number % 2 :]))
            gold.append(f"gsm-{number} #### {number}\n")
        (folder / f"{name}samples.jsonl").write_text(batch(requests), encoding="utf-8")
        (folder / f"{name}gold.txt").write_text("".join(gold), encoding="utf-8")
    samples = "clip,sample_0,sample_1,ref\nu-1,an owl,a cowl,an owl\n"
    (folder / "samples.csv").write_text(samples, encoding="utf-8")
    _other_samples(folder, requests)
    single = []
    for question, texts in requests:
        for number, text in enumerate(texts):
            single.append((f"{question}-{number}", [text]))
    (folder / "batch.jsonl").write_text(batch(single), encoding="utf-8")
    for number in (1, 2):
        shutil.copy(folder / "test.jsonl", folder / f"seed{number}.jsonl")
    for name in ("old", "new"):
        shutil.copy(folder / "test.jsonl", folder / f"{name}.jsonl")
    for name in ("dev", "test"):  # two references of each sentence
        for number in (0, 1):
            shutil.copy(folder / f"{name}.en", folder / f"{name}.en.{number}")
    (folder / "hyp.tsv").write_text("u-1 an owl hoots\n", encoding="utf-8")
    biased = 'u-1\tan owl hoots\t["owl"]\t["owl", "cowl"]\n'
    (folder / "test-clean.biasing_100.tsv").write_text(biased, encoding="utf-8")
    said = [("anna-1", ("an owl", "a owl")), ("ben-1", ("it", "it"))]
    (folder / "wer_test.txt").write_text(scorers.speechbrain(said), encoding="utf-8")
    (folder / "errs-test.txt").write_text(scorers.icefall(said), encoding="utf-8")
    for name in ("a", "b"):
        (folder / "exp" / name).mkdir(parents=True)
        result = folder / "exp" / name / "result.txt"
        result.write_text(scorers.sclite(said), encoding="utf-8")


def _other_samples(folder: Path, requests: Sequence[tuple[str, list[str]]]) -> None:
    """The samples of lm-evaluation-harness and of vLLM, and a row for each sample."""
    harness, vllm, rows = [], [], []
    for question, texts in requests:
        harness.append({"doc_id": question, "target": "#### 1", "resps": [texts]})
        outputs = [{"text": text, "cumulative_logprob": -1.0} for text in texts]
        vllm.append({"request_id": question, "outputs": outputs})
        rows += [{"id": question, "text": text} for text in texts]
    for name, records in (
        ("samples_gsm8k", harness),
        ("outputs", vllm),
        ("rows", rows),
    ):
        lines = [json.dumps(record) + "\n" for record in records]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _speech(folder: Path) -> None:
    """A sound for each list, and speech models under the names that the docs use."""
    for model, name in (
        ("whisper", "openai/whisper-small"),
        ("moonshine", "UsefulSensors/moonshine-base"),
    ):
        (folder / name).mkdir(parents=True)
        build_speech(model, folder / name)
    (folder / "wav").mkdir()
    lines = []
    for number, nbest in enumerate(
        formats.read([folder / f"{name}.json" for name in ("dev", "test")])
    ):
        path = sound(folder / "wav" / f"{nbest.id}.wav", 1.5, number)
        lines.append(f"{nbest.id} {path}\n")
    (folder / "wav.scp").write_text("".join(lines), encoding="utf-8")


def _tones(folder: Path) -> None:
    """Recordings of tones with their texts, and lists about them."""
    (folder / "wav").mkdir(parents=True)
    lines = []
    entries = []
    for number, text in enumerate(("ab ca", "bc", "cab a", "b cc", "a ba", "ca bb")):
        name = f"u{number}"
        speak(text, folder / "wav" / f"{name}.wav", number)
        lines.append(f"{name} {text}\n")
        hypotheses = [{"text": text, "score": -1}, {"text": f"{text} b", "score": -2}]
        entry = {"id": name, "ref": text, "hyps": hypotheses}
        entries.append(json.dumps(entry) + "\n")
    (folder / "text").write_text("".join(lines), encoding="utf-8")
    for name in ("dev", "test"):
        (folder / f"{name}.jsonl").write_text("".join(entries), encoding="utf-8")


def _brain_to_text(folder: Path) -> None:
    """The rows of three seeds, each with its own hypotheses, and the sentences of
    dev.
    """
    for name in ("dev", "test"):
        lists = formats.read([folder / f"{name}.json"])
        for seed in (1, 2, 3):
            (folder / f"seed{seed}").mkdir(exist_ok=True)
            rows = [
                ";".join(
                    f"{one.text};{one.scores['s2s'] + seed}"
                    f";{-3.5 * len(one.text.split())};0.0;{one.scores['s2s']}"
                    for one in nbest.hypotheses[seed - 1 :]
                )
                for nbest in lists
            ]
            (folder / f"seed{seed}" / f"{name}.rows").write_text(
                "\n".join(rows) + "\n", encoding="utf-8"
            )
        sentences = [nbest.references[0] for nbest in lists]
        (folder / f"{name}.sentences").write_text(
            "\n".join(sentences) + "\n", encoding="utf-8"
        )


def _recordings(folder: Path) -> None:
    """A recording by three systems, and its reference, in the sets dev and test."""
    words = [
        "the",
        "old",
        "clock",
        "ticked",
        "on",
        "the",
        "wall",
        "and",
        "nobody",
        "looked",
        "at",
        "it",
    ]
    ctm = "".join(f"talk A {at / 2} 0.4 {word} 0.9\n" for at, word in enumerate(words))
    times = [{"start": at / 2, "end": at / 2 + 0.4} for at in range(len(words))]
    whisper = json.dumps({"segments": [{"text": " ".join(words), "words": times}]})
    for system in (
        "kaldi",
        "whisper",
        "google",
        "ref",
        "rev-kaldi",
        "speechmatics",
        "amazon",
    ):
        for name in ("dev", "test"):
            (folder / name / system).mkdir(parents=True)
            (folder / name / system / "talk.ctm").write_text(ctm, encoding="utf-8")
        (folder / system).mkdir()
        (folder / system / "talk.json").write_text(whisper, encoding="utf-8")
    (folder / "kaldi" / "talk.ctm").write_text(ctm, encoding="utf-8")
    for name in ("dev", "test"):  # and three systems for the same utterances
        own = formats.read([folder / f"{name}.json"])
        trn = "".join(f"{nbest.references[0]} ({nbest.id})\n" for nbest in own)
        texts = "".join(f"{nbest.id} {nbest.references[0]}\n" for nbest in own)
        for path in (folder / name / "whisper.trn", folder / f"{name}.ref.trn"):
            path.write_text(trn, encoding="utf-8")
        for system in ("kaldi", "google", "tesseract", "kraken", "abbyy"):
            (folder / name / f"{system}.txt").write_text(texts, encoding="utf-8")


RUN_ELSEWHERE = {"docs/results/terms.md"}
"""Pages whose commands need models or recordings that are not here;
tests/asr/test_correct_command.py runs these commands with recordings of its own.
"""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if str(page.relative_to(ROOT)) not in RUN_ELSEWHERE],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of_the_docs_run(
    page: Path,
    workspace: Path,
    tiny_models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backends, "shipped_models", lambda: tiny_models)
    fewer_samples(monkeypatch)
    monkeypatch.setattr(similarity, "TRIALS", 60)
    monkeypatch.setattr(probe, "STRENGTHS", (1e-3,))
    folder = tmp_path / "work"
    shutil.copytree(workspace, folder, symlinks=True)
    for line in commands(page):
        arguments = short(line)
        if "cpwer" in line and importlib.util.find_spec("meeteval") is None:
            continue
        monkeypatch.chdir(folder)
        if arguments[0] == "train" and "--resume" not in arguments:
            # the page makes a model that other pages have already
            place = arguments[arguments.index("--out") + 1]
            shutil.rmtree(place, ignore_errors=True)
        done = run_main(*arguments)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_python_in_the_readme(
    tmp_path: Path, rescore: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs, and prints what the command line measures."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"## In Python\n\n((?:    .*\n|\n)+)", text)
    assert code is not None
    script = "\n".join(line.removeprefix("    ") for line in code[1].splitlines())
    (tmp_path / "data").mkdir()
    for name in ("dev", "test"):
        some_lists(tmp_path / "data", name, 20)
    exec(script, {})
    first, reranked = map(float, capsys.readouterr().out.split())
    done = rescore(
        "data/test.json", "--lm", "tta", "--dev", "data/dev.json", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (first, reranked) == pytest.approx(
        (report["first_pass"], report["reranked"])
    ) and first != reranked


def test_python_of_the_docs(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace)
    blocks = re.findall(
        r"```python\n(.*?)```",
        (ROOT / "docs" / "python.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert len(blocks) == 3
    for block in blocks:
        exec(block, {})
        assert capsys.readouterr().out


def test_calls_of_python_in_the_docs_need_no_other_import() -> None:
    """Each call `rescore.NAME(...)` of a page works after `import rescore`."""
    calls = set()
    for page in PAGES:
        calls |= set(re.findall(r"\brescore(?:\.\w+)+(?=\()", page.read_text("utf-8")))
    assert len(calls) > 10
    code = "import sys, rescore\nfor name in sys.argv[1:]:\n    eval(name)\n"
    # a name with several dots comes first: a later name may import its module
    by_dots = sorted(calls, key=lambda name: -name.count("."))
    done = subprocess.run(
        [sys.executable, "-c", code, *by_dots], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr.splitlines()[-1]


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    (tmp_path / "data").mkdir()
    for name in ("dev", "test"):
        some_lists(tmp_path / "data", name, 40)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in code:
        exec(cell, names)
    assert getattr(names["results"], "reranked", 100) < getattr(
        names["results"], "first_pass", 0
    )


def test_the_workflow_of_outputs_runs_its_commands() -> None:
    """It is a workflow, and the commands that it runs are among those that run here."""
    yaml = pytest.importorskip("yaml")
    page = ROOT / "docs" / "results-files.md"
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    [workflow] = [block for block in blocks if "jobs:" in block]
    [job] = yaml.safe_load(workflow)["jobs"].values()
    lines = [step["run"] for step in job["steps"] if "run" in step]
    calls = [line.partition(" >>")[0] for line in lines if line.startswith("rescore ")]
    assert [call.split()[1] for call in calls] == ["eval", "report", "check"]
    assert set(calls) <= set(commands(page))


def test_inputs_of_the_action_stay_data(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"][
        "steps"
    ]
    scripts = [step["run"] for step in steps if "run" in step]
    assert not any("${{" in script for script in scripts)
    tool = tmp_path / "bin" / "rescore"
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" >> calls\ntouch results.md\n', encoding="utf-8"
    )
    tool.chmod(0o755)
    given = {
        "LISTS": 'test.json --lm $(touch${IFS}harm)\n  --dev "my dev\\1.json"\n',
        "GOLDEN": "a b.json",
        "TOLERANCE": "0.1",
    }
    environment = {
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": "summary.md",
        **given,
    }
    subprocess.run(
        ["bash", "-e", "-c", scripts[-1]], cwd=tmp_path, env=environment, check=True
    )
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    words = ["test.json", "--lm", "$(touch${IFS}harm)", "--dev", "my dev\\1.json"]
    assert calls[:5] == words and "a b.json" in calls
    assert not (tmp_path / "harm").exists() and (tmp_path / "summary.md").read_text(
        encoding="utf-8"
    )


def test_the_site_has_what_its_pages_link_to() -> None:
    """Pages link to files beside docs/ by the same path in the repository and on the
    site, so these are copied.
    """
    copied = re.search(
        r"^SITE_FILES := (.*)$",
        (ROOT / "Makefile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert copied is not None
    linked = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(
            r"(?:\]\(|^\[\w+\]: )((?:\.\./)+[\w./-]+)",
            page.read_text(encoding="utf-8"),
            re.MULTILINE,
        ):
            path = (page.parent / target).resolve()
            if not path.is_relative_to(ROOT / "docs"):
                assert path.exists(), (page.name, target)
                linked.add(path)
    assert len(linked) >= 7
    assert not [
        path
        for path in linked
        if not any(path.is_relative_to(ROOT / name) for name in copied[1].split())
    ]


def test_the_faq_lists_all_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs" / "faq.md").read_text("utf-8")
    table = page.partition("| extra | adds |")[2].partition("\n\n")[0]
    told = set(re.findall(r"`([\w-]+)`", table))
    extras = set(project["optional-dependencies"]) - {"dev", "server-test"}
    assert told == extras
