"""The whole tool as a model: random lists, formats, options and stages in sequence, and
what holds in whatever order.

The quick suite runs few sequences; `RESCORE_SEQUENCES=10000 pytest
tests/reliability/test_stateful.py` runs many.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from rescore import formats
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Done, run_main
from tests.lms.test_ngram import ARPA

SEQUENCES = int(os.environ.get("RESCORE_SEQUENCES", "6"))
STATUSES = {0, 1, 2, 130, 141, 143}
WORDS = st.lists(
    st.sampled_from(["the", "old", "clock", "owl", "ä", "-", "a's", "12"]), max_size=5
).map(" ".join)
SCORES = st.floats(-1e6, 0).map(lambda value: round(value, 3)) | st.sampled_from(
    [0.0, -0.0, -1e300, float("-inf")]
)
ONE, OTHER = ("--lm", "ngram:lm.arpa"), ("--lm", "ngram:lower:lm.arpa")
LOSSLESS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
FORMATS = (
    "espnet1",
    "espnet2",
    "kaldi",
    "srilm",
    "fairseq",
    "moses",
    "icefall",
    "sockeye",
    "hyporadise",
    "csv",
    "tsv",
)


@st.composite
def lists(draw: st.DrawFn) -> list[NbestList]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        texts = draw(st.lists(WORDS, min_size=1, max_size=4))
        hypotheses = [Hypothesis(text, {"s2s": draw(SCORES)}) for text in texts]
        found.append(
            NbestList(
                f"spk{number % 2}-{number}", hypotheses, (draw(WORDS.filter(bool)),)
            )
        )
    return found


class Tool(RuleBasedStateMachine):
    """Files of lists; each rule is a command on some of them."""

    files = Bundle("files")
    scored = Bundle("scored")

    def __init__(self) -> None:
        super().__init__()
        self.before = Path.cwd()
        self.top = Path(tempfile.mkdtemp())
        self.folder = self.top / "work"
        self.folder.mkdir()
        os.chdir(self.folder)
        Path("lm.arpa").write_text(ARPA, encoding="utf-8")
        self.number = 0

    def teardown(self) -> None:
        os.chdir(self.before)
        shutil.rmtree(self.top)

    def name(self, ending: str) -> str:
        self.number += 1
        return f"f{self.number}{ending}"

    def run(self, *arguments: str, status: tuple[int, ...] = (0,)) -> Done:
        """A command twice: the same bytes on stdout, and an exit status that is
        promised.
        """
        done, again = run_main(*arguments), run_main(*arguments)
        assert done.returncode in STATUSES and done.returncode in status, (
            arguments,
            done,
        )
        assert done.returncode == again.returncode and done.stdout == again.stdout, (
            arguments,
            done,
            again,
        )
        return done

    @invariant()
    def nothing_outside(self) -> None:
        assert [path.name for path in self.top.iterdir()] == ["work"]
        assert not [
            path.name for path in self.folder.iterdir() if path.suffix == ".tmp"
        ]

    @initialize(target=files, value=lists(), ending=st.sampled_from(LOSSLESS))
    def begin(self, value: list[NbestList], ending: str) -> str:
        return self.more(value, ending)

    @rule(target=files, value=lists(), ending=st.sampled_from(LOSSLESS))
    def more(self, value: list[NbestList], ending: str) -> str:
        name = self.name(ending)
        formats.write(value, name)
        return name

    @rule(target=files, file=files, ending=st.sampled_from(LOSSLESS))
    def convert(self, file: str, ending: str) -> str:
        """Between the native formats nothing is lost."""
        name = self.name(ending)
        self.run("convert", file, "-o", name)
        assert formats.read([Path(name)]) == formats.read([Path(file)])
        return name

    @rule(file=files, toolkit=st.sampled_from(FORMATS))
    def there_and_back(self, file: str, toolkit: str) -> None:
        """What a format loses it says; what it says nothing about comes back."""
        name = self.name("")
        first = run_main("convert", file, "--to", toolkit, "-o", name)
        assert first.returncode in (0, 2), first
        if first.returncode:
            return
        done = run_main(
            "convert", name, "--format", toolkit, "-o", name + ".back.jsonl"
        )
        if first.stderr:  # something is lost, and said to be
            assert done.returncode in (0, 2), done
            return
        assert done.returncode == 0, (toolkit, done)
        given, back = (
            formats.read([Path(file)]),
            formats.read([Path(name + ".back.jsonl")]),
        )
        assert [[h.text for h in one.hypotheses] for one in back] == [
            [h.text for h in one.hypotheses] for one in given
        ]

    @rule(target=scored, file=files, cached=st.booleans(), swapped=st.booleans())
    def score(self, file: str, cached: bool, swapped: bool) -> str:
        """Any order of --lm, with a cache or without, gives equal columns."""
        name, other = self.name(".jsonl"), self.name(".jsonl")
        cache = ("--cache", "cache") if cached else ()
        lms, turned = (*ONE, *OTHER), (*OTHER, *ONE)
        done = self.run("score", file, *lms, *cache, "-o", name, status=(0, 2))
        if done.returncode:
            return self.fallback()
        self.run("score", file, *(turned if swapped else lms), "-o", other)
        for one, two in zip(
            formats.read([Path(name)]), formats.read([Path(other)]), strict=True
        ):
            assert [h.scores for h in one.hypotheses] == [
                h.scores for h in two.hypotheses
            ]
            assert one.header.records == two.header.records
        return name

    def fallback(self) -> str:
        name = self.name(".jsonl")
        formats.write(
            [
                NbestList(
                    "u",
                    [
                        Hypothesis(
                            "a", {"s2s": -1.0, "ngram": -1.0, "ngram:lower": -1.0}
                        )
                    ],
                    ("a",),
                )
            ],
            name,
        )
        return name

    @rule(
        file=scored,
        decide=st.sampled_from(["best", "mbr", "rover"]),
        negative=st.booleans(),
    )
    def tune_and_rerank(self, file: str, decide: str, negative: bool) -> None:
        """The figure that tuning says is the one that reranking the same lists
        measures.
        """
        more = ("--allow-negative", "ngram") if negative else ()
        weights = self.name(".json")
        tuned = self.run(
            "tune", file, "--decide", decide, *more, "-o", weights, status=(0, 2)
        )
        if tuned.returncode:
            return
        report = self.name(".json")
        self.run("rerank", file, "--weights", weights, "--report", report)
        found = json.loads(Path(report).read_text())["metrics"][0]["reranked"]
        said = json.loads(Path(weights).read_text())["tuning"]["value"]
        assert abs(found - said) < 1e-9, (found, said)

    @rule(file=files, dev=files, decide=st.sampled_from(["best", "mbr", "rover"]))
    def roads(self, file: str, dev: str, decide: str) -> None:
        """Any split into stages gives the signature of `run`."""
        report, staged, weights = (self.name(".json") for _ in range(3))
        done = self.run(
            file,
            *ONE,
            "--dev",
            dev,
            "--decide",
            decide,
            "--report",
            report,
            status=(0, 2),
        )
        if done.returncode:
            return
        names = {name: self.name(".jsonl") for name in (dev, file)}
        for name, out in names.items():
            self.run("score", name, *ONE, "-o", out)
        self.run("tune", names[dev], "--decide", decide, "-o", weights)
        self.run("rerank", names[file], "--weights", weights, "--report", staged)
        assert (
            json.loads(Path(staged).read_text())["signature"]
            == json.loads(Path(report).read_text())["signature"]
        )

    @rule(file=files | scored, metric=st.sampled_from(["wer", "cer", "bleu", "chrf"]))
    def measure(self, file: str, metric: str) -> None:
        self.run("eval", file, "--metric", metric, "--report", "-")

    @rule(file=files | scored)
    def in_place(self, file: str) -> None:
        """An input is never written over."""
        whole = Path(file).read_bytes()
        self.run("convert", file, "-o", file, status=(2,))
        self.run("rerank", file, "--report", file, status=(2,))
        assert Path(file).read_bytes() == whole


TestTool = Tool.TestCase
TestTool.settings = settings(
    max_examples=SEQUENCES,
    stateful_step_count=8,
    deadline=None,
    derandomize="RESCORE_SEQUENCES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
