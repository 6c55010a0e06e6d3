"""Sets of lists: what holds for all lists of a set."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import MutableSequence, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import rescore
from rescore import border, formats
from rescore.asr.systems import header_of
from rescore.columns import Column, Role
from rescore.content import content_digest, content_hash, content_key
from rescore.dataset import FEWEST, Dataset, united
from rescore.errors import UserError
from rescore.nbest import NO_HEADER, Header, Hypothesis, NbestList
from rescore.signature import column_records
from tests.conftest import ROOT, Run

COLUMNS = {
    "lm": Column("tta", "ab12", "mean", "float32"),
    "tokens": Column("tta", "ab12", "count", "", Role.COUNT),
}
HYPOTHESIS = Hypothesis("a b", {"s2s": -1.0, "lm": -2.0, "tokens": 3.0, "odd": 0.0})


def test_a_set_knows_its_columns() -> None:
    header = Header("file", COLUMNS, scores_are_means=True)
    lists = Dataset([NbestList("u", [HYPOTHESIS], header=header)])
    assert lists.header is header
    assert lists.score_names == ["s2s", "lm", "tokens", "odd"]
    assert lists.columns(Role.COUNT) == ["tokens"]
    assert lists.columns(Role.LM) == ["lm", "odd"]
    assert lists.model_columns == ["lm"]


def test_without_records_all_columns_are_of_models() -> None:
    lists = Dataset([NbestList("u", [HYPOTHESIS])])
    assert lists.model_columns == ["lm", "odd"]


def test_an_empty_set() -> None:
    lists = Dataset()
    assert not lists.header.records and not lists.header.systems
    assert lists.score_names == lists.columns(*Role) == lists.model_columns == []


@pytest.mark.parametrize("has_some", list(product([False, True], repeat=2)))
def test_a_set_has_references_if_a_list_has_one(has_some: tuple[bool, ...]) -> None:
    lists = []
    for name, has_reference in zip("uv", has_some, strict=True):
        references = ("",) if has_reference else ()
        lists.append(NbestList(name, [HYPOTHESIS], references))
    every = Dataset(lists)
    assert every.has_references is any(has_some)
    assert every[:1].has_references is has_some[0]


def test_a_set_is_returned_as_it_is() -> None:
    lists = formats.read([ROOT / "data" / "dev.json"])
    assert Dataset.of(lists) is lists
    some = Dataset.of(replace(nbest) for nbest in lists[:3])
    assert some == lists[:3] and some.header.prefix.endswith("dev.json: ")


RECORDS: dict[str, dict[str, Column]] = {
    "nothing": {},
    "a model": {"lm": Column("tta", "ab12", "sum", "float32")},
    "a part": {"am": Column("toolkit", "", "", "", Role.COMPONENT)},
    "a model and a count": COLUMNS,
    "two systems": dict(header_of(["a", "b"]).records),
    "a third system": dict(header_of(["c"]).records),
}
HEADERS = [
    Header(f"{name}.json", records, translates, means, left_out)
    for (name, records), translates, means, left_out in product(
        RECORDS.items(), (False, True), (False, True), (0, 3)
    )
]


def facts(header: Header) -> tuple[object, ...]:
    """What a header says, but for the name of its file and conflicting records."""
    return (
        set(header.records),
        header.translates,
        header.scores_are_means,
        header.left_out,
        set(header.systems),
        header.by_systems,
    )


def lists_of(header: Header, number: int = 2) -> list[NbestList]:
    """Lists of one file."""
    name = header.name
    return [
        NbestList(f"{name} {place}", [HYPOTHESIS], header=header)
        for place in range(number)
    ]


@pytest.mark.parametrize("header", HEADERS)
def test_the_header_of_a_file_is_the_header_of_its_set(header: Header) -> None:
    assert Dataset(lists_of(header)).header is header
    again = united([header, replace(header)])
    assert again == header and facts(again) == facts(header)


def test_the_order_of_the_files_changes_no_fact() -> None:
    for ours, theirs in product(HEADERS, repeat=2):
        both = united([ours, theirs])
        other = united([theirs, ours])
        assert facts(both) == facts(other)
        assert both.name == ours.name and other.name == theirs.name
        assert Dataset([*lists_of(ours), *lists_of(theirs)]).header == both
        for name, column in both.records.items():
            known = [header.records.get(name) for header in (ours, theirs)]
            assert column == next(filter(None, known))


def test_sets_can_be_united_one_after_another() -> None:
    for ours, theirs in product(HEADERS[::3], repeat=2):
        third = HEADERS[5]
        together = united([ours, theirs, third])
        one_by_one = united([united([ours, theirs]), third])
        assert together == one_by_one and facts(together) == facts(one_by_one)


def test_a_set_is_of_systems_if_some_of_its_lists_are() -> None:
    voted = Dataset(lists_of(header_of(["a", "b"])))
    mixed = Dataset([*lists_of(NO_HEADER), *voted])
    assert voted.header.by_systems and mixed.header.by_systems
    assert not Dataset(lists_of(NO_HEADER)).header.by_systems


def test_a_column_of_two_models_has_the_first_record_and_no_weight() -> None:
    theirs = {"lm": Column("other", "cd34", "mean", "float32")}
    lists = Dataset(
        [*lists_of(Header("ours", COLUMNS)), *lists_of(Header("theirs", theirs))]
    )
    assert lists.header.records == COLUMNS
    assert column_records(lists, {"tokens": 1.0}).keys() == {"tokens"}
    with pytest.raises(UserError, match="comes from other"):
        column_records(lists, {"lm": 1.0})


def test_a_part_of_a_set_has_its_header() -> None:
    lists = Dataset([*lists_of(HEADERS[0]), *lists_of(HEADERS[-1])])
    assert lists[:1].header is lists.header
    assert list(lists[:1]) == [lists[0]] and lists[-1] == list(lists)[-1]
    changed = lists.with_lists(replace(nbest, id="u") for nbest in lists)
    assert changed.header is lists.header and changed[0].id == "u"


def test_a_set_does_not_change() -> None:
    own = lists_of(NO_HEADER)
    lists = Dataset(own)
    own += lists_of(HEADERS[-1])
    assert len(lists) == 2 and lists == own[:2] and lists.header is NO_HEADER
    assert not isinstance(lists, MutableSequence)
    with pytest.raises(TypeError):
        lists[0] = own[1]  # type: ignore[index]
    assert pickle.loads(pickle.dumps(lists)) == lists


LINE = (
    '{"id": "ID", "ref": "a b", "hyps": [{"text": "a b", "scores": {"s2s": -1, "lm":'
    ' -2}}, {"text": "a c", "scores": {"s2s": -0.5, "lm": -3}}]'
)
FILES = {
    "nothing": "",
    "records": ', "columns": {"lm": {"model": "tta", "fingerprint": "ab12", "norm":'
    ' "sum", "precision": "float32"}}',
    "a translation": ', "translates": true',
    "means": ', "means": true',
}


@pytest.mark.parametrize("ours", FILES)
@pytest.mark.parametrize("theirs", FILES)
def test_files_are_read_as_their_lines_in_one_file(
    ours: str, theirs: str, rescore: Run, tmp_path: Path
) -> None:
    """Two files, and one file with the lines of both: the same holds for the set, and
    commands print the same figures.
    """
    lines = []
    for place, name in enumerate([ours, ours, theirs, theirs]):
        lines.append(LINE.replace("ID", f"u{place}") + FILES[name] + "}")
    paths = [tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"]
    paths[0].write_text("\n".join(lines[:2]) + "\n")
    paths[1].write_text("\n".join(lines[2:]) + "\n")
    whole = tmp_path / "whole.jsonl"
    whole.write_text("\n".join(lines) + "\n")
    assert facts(formats.read(paths).header) == facts(formats.read([whole]).header)
    command = ["run", "--weight", "0.5"]
    together = rescore(*command, whole)
    assert together.returncode == 0, together.stderr
    assert rescore(*command, *paths).stdout == together.stdout


def test_a_caller_in_python_may_change_the_lists_that_are_read() -> None:
    lists = rescore.read(ROOT / "data" / "dev.json")
    lists.append(replace(lists[0], id="one more"))
    assert len(border.checked_lists("spread", lists)) == len(lists)


def first_pass_of(kind: str, number: int, seed: int) -> Dataset:
    """Lists whose first pass is sums over tokens, means, the same means for all, ranks
    or votes.
    """
    draw = random.Random(seed)
    lists = []
    for place in range(number):
        words = ["owl"] * draw.randrange(3, 30)
        hypotheses = []
        for rank in range(3):
            tokens = [-draw.random() for _ in words]
            score = {
                "sums": sum(tokens),
                "means": sum(tokens) / len(tokens),
                "constant": -0.5,
                "ranks": -math.log(rank + 1),
                "votes": -0.4,
            }[kind]
            text = " ".join([*words, str(rank)])
            hypotheses.append(Hypothesis(text, {"s2s": score}))
        nbest = NbestList(f"u{place}", hypotheses)
        if kind == "votes":
            nbest.header = header_of(["a", "b"])
        lists.append(nbest)
    return Dataset(lists)


@pytest.mark.parametrize("number", [20, 50, 500])
@pytest.mark.parametrize("kind", ["sums", "constant", "ranks", "votes"])
def test_what_falls_with_the_length_or_says_nothing_is_not_taken_for_means(
    kind: str, number: int
) -> None:
    for seed in range(20):
        assert not first_pass_of(kind, number, seed).look_like_means


def test_means_are_told() -> None:
    assert all(first_pass_of("means", 500, seed).look_like_means for seed in range(20))
    assert not first_pass_of("means", FEWEST - 1, 0).look_like_means


def test_a_model_beside_scores_that_look_like_means(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The command prints the line once, if sums are the default. No score changes."""
    said = "try --lm-norm mean, and keep it if it is better on the dev lists"

    def brevity(sentences: Sequence[str]) -> list[float]:
        return [-1.0 * len(sentence) for sentence in sentences]

    means = first_pass_of("means", 500, 1)
    scored = rescore.score(means, brevity)
    assert caplog.text.count(said) == 1
    assert scored[0].header.records["brevity"].norm == "sum"
    caplog.clear()
    rescore.score(means, brevity, lm_norm="mean")
    rescore.score(first_pass_of("sums", 200, 1), brevity)
    assert said not in caplog.text


def test_a_part_has_the_keys_of_its_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is computed once, for the set and for its parts; so is each digest."""
    computed: list[str] = []
    digested: list[str] = []

    def counted_key(nbest: NbestList) -> str:
        computed.append(nbest.id)
        return content_key(nbest)

    def counted_digest(nbest: NbestList) -> str:
        digested.append(nbest.id)
        return content_digest(nbest)

    monkeypatch.setattr("rescore.dataset.content_key", counted_key)
    monkeypatch.setattr("rescore.dataset.content_digest", counted_digest)
    every = first_pass_of("sums", 12, 0)
    part = every.part([7, 2, 5])
    part_of_part = part.part([2, 0])
    for lists in (part_of_part, part, every):
        assert lists.header is every.header
        assert lists.content_keys == list(map(content_key, lists))
        assert lists.content_hash == content_hash(lists)
    assert list(part_of_part) == [every[5], every[7]]
    assert computed == [nbest.id for nbest in every]
    assert digested == computed
