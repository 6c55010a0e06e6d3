"""Corrections that an instruction model writes: which lines of its answers join a list, and whether they may win."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescore as package
from rescore import formats, pipeline
from rescore.asr.propose import SHOWN, SPEECH, Dropped, Proposing, corrections, nearest, styled
from rescore.errors import UserError
from rescore.lms.function import FunctionModel
from rescore.lms.lexicon import Lexicon
from rescore.metrics.alignment import align
from rescore.nbest import Hypothesis, NbestList, Origin, Role
from rescore.pipeline import RunConfig
from rescore.plan import metrics_of
from rescore.reports.analysis import analyse
from rescore.reports.analysis import render as render_analysis
from rescore.reports.cascades import AgainstFirstPass, Proposed, proposed
from rescore.reports.results import render
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error
from tests.lms.fake import MODEL, Fake, served

WORDS = ("gardener", "lantern", "harbour", "kettle", "meadow", "ladder", "candle", "winter", "orchard", "pepper")
pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
def fake() -> Iterator[Fake]:
    with served(Fake()) as server:
        yield server


def spec(fake: Fake) -> str:
    return f"server:{fake.url}#{MODEL}"


def listed(*texts: str, reference: str = "x", name: str = "u") -> NbestList:
    hypotheses = [Hypothesis(text, {"s2s": -float(rank)}) for rank, text in enumerate(texts, 1)]
    return NbestList(name, hypotheses, (reference,))


def first_shown(prompt: str) -> str:
    """The first hypothesis in a prompt."""
    return re.findall(r"^1\. (.*)$", prompt, re.MULTILINE)[0]


def misheard(number: int, seed: int) -> list[NbestList]:
    """Lists in which every d is a t; the second hypothesis lacks a word, too."""
    draw = random.Random(seed)
    lists = []
    for index in range(number):
        said = f"the old {draw.choice(WORDS)} by the red {draw.choice(WORDS)} and the {draw.choice(WORDS)}"
        heard = said.replace("d", "t")
        lists.append(listed(heard, heard.removeprefix("the "), reference=said, name=f"s{index % 7}-{index}-{seed}"))
    return lists


def known(sentences: list[str]) -> list[float]:
    """A language model: the number of words that it does not know, times -2."""
    words = {*WORDS, "the", "old", "by", "red", "and"}
    return [-2.0 * sum(word not in words for word in text.split()) for text in sentences]


def mended(prompt: str) -> str:
    """What a good model answers: the first hypothesis, with the words that are meant."""
    meant = {word.replace("d", "t"): word for word in (*WORDS, "old", "red", "and")}
    return " ".join(meant.get(word, word) for word in first_shown(prompt).split())


def spoiled(prompt: str) -> str:
    """What a bad model answers: one word is another one that the language model knows, and no better."""
    words = first_shown(prompt).split()
    return " ".join([*words[:-1], "pepper" if words[-1] != "pepper" else "kettle"])


ANSWERS = [
    ("the old clock", ["the old clock"], {}),
    ("1. The old clock.\n2) the older clock!\n- the old clocks", ["the old clock", "the older clock"], {"MANY": 1}),
    ("the odd clock\n\nTHE  ODD CLOCK", [], {"KNOWN": 2}),
    ("the old clock\nThe old clock.", ["the old clock"], {"KNOWN": 1}),
    ("", [], {"EMPTY": 1}),
    (" \n...\n", [], {"EMPTY": 1}),
    ("the old clock ticked in the hall all night", [], {"LONG": 1}),
    ("quite unlike\nthe old clock", ["the old clock"], {"NONSENSE": 1}),
    ("the \ufffd\ufffd clock\nthe old cl\x07ock\nthe old \ud800clock", [], {"NONSENSE": 3}),
    ("<think>the old clock?\nor not</think>\nthe old block", ["the old block"], {}),
    ("<think>the old clock", [], {"EMPTY": 1}),
]


@pytest.mark.parametrize(("answer", "texts", "dropped"), ANSWERS)
def test_lines_of_an_answer(answer: str, texts: list[str], dropped: dict[str, int]) -> None:
    found = corrections(answer, ["the odd clock", "an odd clock"], 2)
    assert found == (texts, {Dropped[name]: number for name, number in dropped.items()})


def test_a_short_text_may_be_corrected() -> None:
    assert corrections("yeah", ["yes"], 1)[0] == ["yeah"]
    assert corrections("旧い時計", ["旧い時言"], 1)[0] == ["旧い時計"]


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ("3. Oktober war schön", ["3. Oktober war schön"]),
        ("1. 3. Oktober war schön\n3. 3. Oktober war schon", ["3. Oktober war schön", "3. Oktober war schon"]),
        ("2. Oktober war schön", ["Oktober war schön"]),
    ],
)
def test_a_number_that_a_hypothesis_begins_with_is_kept(answer: str, texts: list[str]) -> None:
    assert corrections(answer, ["3. Oktober war schöner", "Oktober war schöner"], 2)[0] == texts


@pytest.mark.parametrize(
    ("text", "hypotheses", "expected"),
    [
        ("The old clock, it's late.", ["the odd clock its late"], "the old clock it's late"),
        ("the old clock", ["THE ODD CLOCK"], "THE OLD CLOCK"),
        ('"The old clock."', ["The odd clock."], "The old clock."),
        ("It's 5 o'clock - now", ["It is 5"], "It's 5 o'clock now"),
    ],
)
def test_style_is_that_of_the_list(text: str, hypotheses: list[str], expected: str) -> None:
    assert styled(text, hypotheses) == expected


@given(
    st.text("ab ", max_size=12),
    st.lists(st.tuples(st.text("abAB ", max_size=12), st.sampled_from([-3.0, -1.0, float("-inf")])), min_size=1),
)
def test_nearest_against_its_definition(text: str, scored: list[tuple[str, float]]) -> None:
    """Fewest word edits, then the best score, then the order of the list."""
    originals = [Hypothesis(other, {"s2s": score}) for other, score in scored]
    edits = [sum(ours != theirs for ours, theirs in align(one.text.lower().split(), text.split())) for one in originals]
    closest = [one for one, number in zip(originals, edits, strict=True) if number == min(edits)]
    best = [one for one in closest if one.scores["s2s"] == max(other.scores["s2s"] for other in closest)]
    found, number = nearest(text, originals)
    assert found is best[0] and number == min(edits)


def test_an_example(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    fake.writes = lambda prompt: "the old clock ticked\nthe odd clock\nthe old clock tricked"
    one = listed("the odd clock", "the old clock kicked")
    lists = [one, replace(one, id="v")]
    found = package.propose(lists, spec(fake))
    for nbest in found:
        assert nbest.hypotheses[:2] == [replace(old, scores=old.scores | {"edits": 0.0}) for old in one.hypotheses]
        new = nbest.hypotheses[2:]
        assert [one.text for one in new] == ["the old clock ticked", "the old clock tricked"]
        assert [text.scores for text in new] == [{"s2s": -2.0, "edits": 1.0}] * 2
        assert {text.origin for text in new} == {Origin.PROPOSED}
        assert nbest.provenance is found[0].provenance and nbest.provenance["edits"].role is Role.COUNT
    (asked,) = fake.asked  # both lists are the same
    assert asked["temperature"] == 0 and asked["max_tokens"] == 3 * (len("the old clock kicked") // 2 + 16)
    assert asked["messages"] == [
        {
            "role": "user",
            "content": SPEECH.replace("{number}", "3").replace("{list}", "1. the odd clock\n2. the old clock kicked"),
        }
    ]
    assert "4 proposals in 2 of 2 lists (100 %); dropped: 2 in the list already" in caplog.text


def test_what_the_model_is_shown(fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The best of what systems wrote, with the source where there is one; braces in it stay."""
    caplog.set_level("INFO")
    fake.writes = lambda prompt: ""
    many = listed(*(f"the clock {number}" for number in range(SHOWN + 5, 0, -1)), "", "the {src}")
    many.hypotheses[-1].scores["s2s"] = 0.0
    many.hypotheses.append(Hypothesis("the clocks", {"s2s": 9.0}, Origin.RECOMBINED))
    package.propose([many, listed("", name="empty")], spec(fake), 1)
    assert len(fake.asked) == 1 and caplog.text.endswith("0 proposals in 0 of 2 lists (0 %); dropped: 1 empty\n")
    lines = re.findall(r"^\d+\. (.*)$", fake.asked[-1]["messages"][0]["content"], re.MULTILINE)
    assert lines == ["the {src}", *(f"the clock {number}" for number in range(SHOWN + 5, 6, -1))]
    package.propose([replace(listed("the clock"), source="die {list} Uhr")], spec(fake))
    assert "Sentence: die {list} Uhr\n\n1. the clock\n" in fake.asked[-1]["messages"][0]["content"]
    (tmp_path / "p.txt").write_text("Mend {src}:\n{list}", encoding="utf-8")
    package.propose([replace(listed("the clock"), source="die Uhr")], spec(fake), prompt=tmp_path / "p.txt")
    assert fake.asked[-1]["messages"][0]["content"] == "Mend die Uhr:\n1. the clock"
    with pytest.raises(UserError, match="the list of 'the clock' has no source"):
        package.propose([listed("the clock")], spec(fake), prompt=tmp_path / "p.txt")
    (tmp_path / "p.txt").write_text("Mend!", encoding="utf-8")
    with pytest.raises(UserError, match=r"p\.txt: expected a prompt with \{list\}"):
        package.propose([listed("the clock")], spec(fake), prompt=tmp_path / "p.txt")


def test_a_cut_answer_lacks_its_last_line(fake: Fake) -> None:
    fake.writes, fake.finish_reason = lambda prompt: "the old clock\nthe old cl", "length"
    (found,) = package.propose([listed("the odd clock")], spec(fake))
    assert [one.text for one in found.hypotheses] == ["the odd clock", "the old clock"]


def test_answers_are_kept(fake: Fake, tmp_path: Path) -> None:
    """By list, prompt, number and model."""
    fake.writes = mended
    lists = misheard(5, 1)
    first = package.propose(lists, spec(fake), cache=tmp_path)
    assert len(fake.asked) == 5
    assert package.propose(lists, spec(fake), cache=tmp_path) == first and len(fake.asked) == 5
    package.propose([*lists, *misheard(2, 3)], spec(fake), cache=tmp_path)
    assert len(fake.asked) == 7
    (tmp_path / "p.txt").write_text("Mend:\n{list}", encoding="utf-8")
    package.propose(lists, spec(fake), 2, cache=tmp_path)
    package.propose(lists, spec(fake), prompt=tmp_path / "p.txt", cache=tmp_path)
    fake.models[0]["revision"] = "abc"
    package.propose(lists, spec(fake), cache=tmp_path)
    assert len(fake.asked) == 7 + 3 * 5


def test_what_was_written_before_the_server_died_is_kept(fake: Fake, tmp_path: Path) -> None:
    fake.writes = mended
    kept: list[str] = []
    again: list[str] = []
    fake.trouble = lambda number, text: "hang up" if number > 12 else kept.append(text)  # type: ignore[func-returns-value]
    lists = misheard(30, 1)
    with pytest.raises(UserError, match="start the server again, and run the same command again: with --cache"):
        package.propose(lists, spec(fake), cache=tmp_path)
    with sqlite3.connect(next(tmp_path.glob("*.sqlite3"))) as database:
        assert database.execute("SELECT COUNT(*) FROM scores").fetchone() == (12,)
    fake.trouble = lambda number, text: again.append(text)  # type: ignore[func-returns-value]
    proposed = package.propose(lists, spec(fake), cache=tmp_path)
    assert len(kept) == 12 and not {*kept} & {*again}
    assert proposed == package.propose(lists, spec(fake))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tta", "--propose tta: give server:"),
        ("server:chat:URL", "--propose server:chat:http.*: give server:"),
        ("server", "--propose server: give the address and the model"),
        ("server:localhost:1#m", "--propose server: 'localhost:1' is no address"),
        ("server:URL#tiny/modle", r"did you mean tiny/model\?"),
        ("server:http://127.0.0.1:1#m", "cannot be reached"),
    ],
)
def test_wrong_models(fake: Fake, given: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        package.propose([], given.replace("URL", fake.url))
    assert "\n" not in str(error.value)


def test_what_is_refused(fake: Fake, rescore: Run) -> None:
    formats.write(misheard(3, 1), "l.jsonl")
    run = ("l.jsonl", "--lm", "tta-small", "--propose", spec(fake))
    assert_one_line_error(rescore(*run), "--propose needs --dev")
    assert_one_line_error(rescore(*run, "--folds", "2", "--plateau"), "cannot be combined with --propose")
    assert_one_line_error(rescore(*run, "--folds", "2", "--propose-prompt", "p.txt"), "p.txt: no such file")
    assert_one_line_error(rescore(*run[:3], "--max-new", "2"), "--max-new needs --propose")
    fake.trouble = lambda number, text: (400, {}, b'{"error": {"message": "too long"}}')
    assert_one_line_error(rescore("score", *run), "400 Bad Request (too long), for the list of 'the olt")
    for answer in (b'{"choices": []}', b'{"choices": [{"message": {"content": [1]}}]}', b'{"choices": [7]}'):
        fake.trouble = lambda number, text, answer=answer: (200, {}, answer)
        with pytest.raises(UserError, match=r"the answer to the list of 'the olt .*' is no chat completion"):
            package.propose(misheard(3, 1), spec(fake))
    scored = replace(misheard(1, 1)[0], hypotheses=[Hypothesis("a", {"s2s": -1.0, "tta": -1.0})])
    with pytest.raises(UserError, match="propose corrections of lists before they are scored"):
        package.propose([scored], spec(fake))


@pytest.fixture
def config(fake: Fake) -> RunConfig:
    return RunConfig(propose=spec(fake), max_new=2)


@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_good_proposals_win(fake: Fake, config: RunConfig, decide: str) -> None:
    fake.writes = mended
    test, dev = misheard(30, 1), misheard(60, 2)
    outcome = pipeline.run(test, replace(config, decide=decide), dev, lambda: [FunctionModel(known)])
    results = outcome.results
    assert results.reranked == 0.0 and results.first_pass and results.first_pass > 20 and not results.excluded
    against = AgainstFirstPass(30, 30, 0, 0)
    assert results.proposed == Proposed(30, 30, against, against)
    assert "lm:edits=propose:2:v2@" in results.signature and ",prompt:" in results.signature
    assert results.metrics[0].own_oracle == results.first_pass


@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_bad_proposals_do_no_harm(fake: Fake, config: RunConfig, decide: str, caplog: pytest.LogCaptureFixture) -> None:
    """The references are what was heard; the language model prefers the proposals."""
    fake.writes = spoiled
    test, dev = misheard(30, 1), misheard(60, 2)
    for nbest in [*test, *dev]:
        nbest.references = (nbest.hypotheses[0].text,)
    config = replace(config, decide=decide)
    outcome = pipeline.run(test, config, dev, lambda: [FunctionModel(known)])
    assert outcome.weights.excluded == {Origin.PROPOSED} and "without:proposed" in outcome.results.signature
    assert outcome.results.reranked == outcome.results.first_pass == 0.0
    assert outcome.results.proposed == Proposed(30, 30, AgainstFirstPass(30, 0, 0, 30), AgainstFirstPass(0))
    without = pipeline.run(test, replace(config, propose=None), dev, lambda: [FunctionModel(known)])
    assert outcome.weights.decision == without.weights.decision
    assert re.search(r"proposals have no significant gain .*: no proposal may win", caplog.text)
    summary = render(outcome.results)
    assert "nothing proposed" in summary
    assert "proposals: in 30 of 30 lists (100 %); against the first pass: all 30 (0 better, 0 equal, 30 worse), " in (
        summary
    )


def test_no_proposal_on_dev_proves_nothing(fake: Fake, config: RunConfig) -> None:
    test, dev = misheard(20, 1), misheard(40, 2)
    said = {nbest.hypotheses[0].text for nbest in dev}
    fake.writes = lambda prompt: "" if first_shown(prompt) in said else mended(prompt)
    outcome = pipeline.run(test, config, dev, lambda: [FunctionModel(known)])
    assert outcome.results.proposed and outcome.weights.excluded == {Origin.PROPOSED}


@pytest.mark.parametrize(
    ("writes", "known_to_lexicon", "excluded"),
    [(spoiled, ("old", "red", "and"), {Origin.PROPOSED}), (mended, (), set())],
)
def test_beside_respelling(
    fake: Fake,
    config: RunConfig,
    tmp_path: Path,
    writes: Callable[[str], str],
    known_to_lexicon: tuple[str, ...],
    excluded: set[Origin],
) -> None:
    """Each origin has to gain: what respelling gains does not count for proposals."""
    words = (*WORDS, "the", "by", *known_to_lexicon)
    Lexicon(dict.fromkeys(words, 100), 10_000).save(tmp_path / "l.txt.xz")
    fake.writes = writes
    config = replace(config, respell=3, channel="dev", lexicon=str(tmp_path / "l.txt.xz"))
    outcome = pipeline.run(misheard(30, 1), config, misheard(60, 2), lambda: [FunctionModel(known)])
    assert outcome.weights.excluded == excluded and outcome.results.reranked == 0.0
    texts = dict.fromkeys(Origin, 0)
    for nbest in outcome.lists:
        for one in nbest.hypotheses:
            texts[one.origin] += 1
            changed, heard = one.scores["edits"], one.scores["channel"]
            assert bool(changed) == (one.origin is not Origin.FIRST_PASS)
            assert bool(heard) == (one.origin is Origin.RESPELLED)
    assert texts[Origin.PROPOSED] == 30 and texts[Origin.RESPELLED] > 30


def test_stages_are_the_run(fake: Fake, rescore: Run, tmp_path: Path) -> None:
    fake.writes = mended
    for name, number in (("test", 20), ("dev", 40)):
        formats.write(misheard(number, number), f"{name}.jsonl")
    how = ("--lm", "tta-small", "--propose", spec(fake), "--max-new", "2", "--cache", "kept")
    run = rescore("test.jsonl", "--dev", "dev.jsonl", *how, "--report", "run.json")
    assert run.returncode == 0, run.stderr
    assert "proposals: in 20 of 20 lists (100 %); against the first pass: all 20 (20 better," in run.stdout
    asked = len(fake.asked)
    for name in ("dev", "test"):
        done = rescore("score", f"{name}.jsonl", *how, "-o", f"{name}.s.jsonl")
        assert done.returncode == 0, done.stderr
        assert "dropped" not in done.stderr and "lists (100 %)" in done.stderr
    assert len(fake.asked) == asked
    assert rescore("tune", "dev.s.jsonl", "-o", "w.json").returncode == 0
    staged = rescore("rerank", "test.s.jsonl", "--weights", "w.json", "--report", "staged.json")
    assert staged.returncode == 0, staged.stderr
    reports = [json.loads((tmp_path / name).read_text()) for name in ("run.json", "staged.json")]
    assert reports[0]["signature"] == reports[1]["signature"] and "propose:2" in reports[0]["signature"]
    assert reports[0]["proposed"] == reports[1]["proposed"] and reports[0]["proposed"]["chosen"]["better"] == 20
    compared = rescore("compare", "test.jsonl", "--dev", "dev.jsonl", *how)
    assert compared.returncode == 0 and len(fake.asked) == asked, compared.stderr
    assert_one_line_error(rescore("tune", "dev.s.jsonl", "test.jsonl", "-o", "w.json"), "give --propose for all lists")


def test_the_analysis_has_them() -> None:
    lists = [listed("a b", "a c", reference="a d") for _ in range(3)]
    for nbest, text in zip(lists, ("a d", "a e", "x y"), strict=True):
        nbest.hypotheses.append(Hypothesis(text, {"s2s": -1.0, "edits": 1.0}, Origin.PROPOSED))
    metric = metrics_of(RunConfig(), lists)[0]
    found = analyse(metric, lists, Weights({"s2s": 1.0}, "given"), ["a d", "a b", "x y"])
    assert found.respelled is None
    assert found.proposed == Proposed(3, 3, AgainstFirstPass(3, 1, 1, 1), AgainstFirstPass(2, 1, 0, 1))
    assert "all 3 (1 better, 1 equal, 1 worse), chosen 2 (1 better, 0 equal, 1 worse)" in render_analysis(found)
    unknown = proposed(None, [replace(nbest, references=()) for nbest in lists], ["a d", "a b", "x y"])
    assert unknown == Proposed(3, 3, AgainstFirstPass(3), AgainstFirstPass(2))
    assert str(unknown).endswith("all 3, chosen 2") and proposed(metric, [listed("a b")], ["a b"]) is None


def test_it_is_a_stream(fake: Fake) -> None:
    fake.writes = mended
    taken = 0

    def many() -> Iterator[NbestList]:
        nonlocal taken
        for nbest in misheard(3, 1) * 200:
            taken += 1
            yield nbest

    next(Proposing(spec(fake), 1)(many()))
    assert taken < 300


def test_the_service_refuses_such_weights(fake: Fake) -> None:
    with pytest.raises(UserError, match="respelled or proposed hypotheses"):
        package.Rescorer("tta-small", 0.3, RunConfig(propose=spec(fake)))
