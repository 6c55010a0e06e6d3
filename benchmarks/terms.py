"""The model of `rescore correct`: its training, and the texts for measuring it.

    python benchmarks/terms.py train --out models/terms
    python benchmarks/terms.py prepare --out work
    python benchmarks/terms.py plain work/report/rev-kaldi.txt \
        --words terms.oracle.txt --out work/plain.txt
    python benchmarks/terms.py case --out case.json
    pip install jellyfish phonemizer espeakng-loader
    python benchmarks/terms.py keys --out keys.json

Data: Earnings-21 (`lists.jsonl`), of whose recordings, sorted, the first, third, fifth,
... are for training and the others for reports; LibriSpeech dev-clean and HyPoradise's
training sets. `--data` names their folder.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import numpy as np
from common import write_json
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from rescore.asr.channel import Channel, learn
from rescore.asr.correct import FEATURES, Corrector, Finder, Heard, TermCounts
from rescore.asr.documents import Text
from rescore.asr.terms import Term, TermIndex, read_terms, sounds, split
from rescore.lms import shipped_models
from rescore.lms.lexicon import Lexicon
from rescore.metrics.listed import WordList

SYSTEMS = (
    "rev-espnet",
    "rev-kaldi",
    "speechmatics",
    "amazon",
    "google",
    "microsoft",
    "kaldi-librispeech",
)
"""In the order of the hypotheses of lists.jsonl."""
MONOTONE = {
    "share": -1,
    "channel": 1,
    "channel_mean": 1,
    "letters": 1,
    "term_elsewhere": 1,
    "near_elsewhere": 1,
}
"""The direction in which a feature may change the odds; others may change them
either way.
"""
ALIKE = 0.15
"""Share of sounds that may differ in plain phonetic replacement."""
RATES = (0.01, 0.05, 0.2)
"""Shares of correctly recognised spans that a key may take for terms."""
RARE = 12.0
"""-log P from which on a word of a reference is listed as a term, natural log."""

Sentence = tuple[str, str, str]
"""Recording, reference, hypothesis."""


def earnings(data: Path, train: bool) -> list[dict]:
    with open(data / "earnings21/lists.jsonl", encoding="utf-8") as file:
        lists = [json.loads(line) for line in file]
    half = sorted({nbest["recording"] for nbest in lists})[0 if train else 1 :: 2]
    return [nbest for nbest in lists if nbest["recording"] in half]


def librispeech(data: Path, name: str) -> Iterator[tuple[str, str, str]]:
    """Utterance, reference and best hypothesis."""
    folder = data / "librispeech" / name
    references = dict(_text(folder / "text"))
    for path in sorted(folder.glob("**/1best_recog/text")):
        yield from (
            (name, references[name], text)
            for name, text in _text(path)
            if name in references
        )


def _text(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, text = line.partition(" ")
        yield name, text


def hyporadise(data: Path) -> Iterator[Sentence]:
    for path in sorted((data / "hyporadise").glob("*.json")):
        if "test" in path.name:
            continue
        for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            heard = entry.get("input", entry.get("input1"))
            heard = heard[0] if isinstance(heard, list) else heard
            if heard and entry.get("output"):
                yield f"{path.stem}-{number // 50}", entry["output"], heard


def keys(text: str) -> list[str]:
    return [word.key for word in split(text)]


def misheard(sentences: Iterable[Sentence]) -> Counter[tuple[str, str]]:
    """The sounds of words, and of spans of up to four that were heard as others, with
    what was heard.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for _, reference, hypothesis in sentences:
        meant, heard = keys(reference), keys(hypothesis)
        for op in Levenshtein.opcodes(meant, heard):
            ours, theirs = (
                meant[op.src_start : op.src_end],
                heard[op.dest_start : op.dest_end],
            )
            spans = (
                zip(ours, theirs, strict=True)
                if op.tag == "equal"
                else [(" ".join(ours), " ".join(theirs))]
            )
            for left, right in spans:
                pair = sounds(left), sounds(right)
                alike = (
                    all(pair)
                    and max(map(len, pair)) <= 24
                    and Levenshtein.normalized_distance(*pair) <= 0.5
                )
                if alike and len(ours) <= 4 and (op.tag == "equal" or len(theirs) <= 5):
                    pairs[pair] += 1
    return pairs


def labelled(
    finder: Finder, terms: list[Term], sentences: list[Sentence]
) -> tuple[np.ndarray, np.ndarray]:
    """(spans, features) and (spans,) whether the correction is right: it restores a
    term or leaves fewer errors.
    """
    tables, labels = [np.zeros((0, len(FEATURES)))], []
    for _, group in groupby(sentences, key=lambda sentence: sentence[0]):
        recording, rows = TermCounts(), []
        for _, reference, hypothesis in group:
            heard = finder(hypothesis)
            finder.add(recording, heard)
            rows.append((reference, heard))
        finder.weigh([span for _, heard in rows for span in heard.spans])
        for reference, heard in rows:
            if heard.spans:
                tables.append(finder.features(heard, recording))
                labels += _right(finder, terms, reference, heard)
    return np.concatenate(tables), np.array(labels)


def _right(
    finder: Finder, terms: list[Term], reference: str, heard: Heard
) -> Iterator[bool]:
    meant, written = keys(reference), [word.key for word in heard.words]
    missing = Counter(
        number for _, _, number in finder.index.occurrences(split(reference))
    )
    missing -= Counter(number for _, _, number in heard.present)
    errors = Levenshtein.distance(meant, written)
    for span in heard.spans:
        words = list(terms[span.term].words)
        words[-1] += "s" if span.possessive else ""
        gain = errors - Levenshtein.distance(
            meant, [*written[: span.first], *words, *written[span.last :]]
        )
        yield gain > 0 or (gain == 0 and missing[span.term] > 0)


def train(data: Path, out: Path) -> None:
    """Learn the channel of sounds and the trees, and write both."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    lexicon = Lexicon.load(shipped_models() / "tta/lexicon.txt.xz")
    calls = earnings(data, train=True)
    spoken: dict[str, list[Sentence]] = {
        name: [
            (nbest["recording"], nbest["ref"], nbest["hyps"][place]["text"])
            for nbest in calls
        ]
        for place, name in enumerate(SYSTEMS)
    }
    read = [
        (name.rpartition("-")[0], *texts)
        for name, *texts in librispeech(data, "dev_clean")
    ]
    dictated = list(hyporadise(data))
    source = (
        "Earnings-21 (11 recordings, 7 recognisers), LibriSpeech dev-clean, HyPoradise"
        " (training sets)"
    )
    channel = learn(
        misheard(
            [
                *read,
                *dictated,
                *(sentence for rows in spoken.values() for sentence in rows),
            ]
        ),
        source,
    )
    channel.save(out)
    channel = Channel.load(out)
    sets = []
    for path, names in (
        ("oracle", SYSTEMS),
        ("distractor", ("rev-kaldi", "speechmatics", "kaldi-librispeech")),
    ):
        terms = read_terms(WordList.load(data / f"earnings21/terms.{path}.txt"))
        sets += [(terms, spoken[name]) for name in names]
    for rows in (read, dictated):
        rare = {
            word
            for _, text, _ in rows
            for word in keys(text)
            if -lexicon.log_prob(word) > RARE and len(word) > 3
        }
        sets.append(([Term(word) for word in sorted(rare)], rows))
    tables, labels = [], []
    for terms, rows in sets:
        table, right = labelled(Finder(terms, lexicon, channel), terms, rows)
        tables.append(table)
        labels.append(right)
        print(
            f"{len(terms)} terms, {len(rows)} texts: {len(table)} spans, {right.sum()}"
            " right",
            flush=True,
        )
    x, y = np.concatenate(tables), np.concatenate(labels)
    trees = HistGradientBoostingClassifier(
        max_iter=120,
        learning_rate=0.08,
        max_leaf_nodes=12,
        min_samples_leaf=30,
        l2_regularization=5.0,
        monotonic_cst=[MONOTONE.get(name, 0) for name in FEATURES],
        early_stopping=False,
        random_state=0,
    ).fit(x, y)
    model = {
        "features": FEATURES,
        "baseline": float(np.ravel(trees._baseline_prediction)[0]),
        "trees": [_nodes(predictor[0].nodes) for predictor in trees._predictors],
        "threshold": 0.62,
        "source": source,
    }
    (out / "terms.json").write_text(
        json.dumps(model, separators=(",", ":")) + "\n", encoding="utf-8"
    )


def _nodes(nodes: np.ndarray) -> list[list[float]]:
    return [
        (
            [0, 0, 0, 0, round(float(node["value"]), 5)]
            if node["is_leaf"]
            else [
                int(node["feature_idx"]),
                float(node["num_threshold"]),
                int(node["left"]),
                int(node["right"]),
                0,
            ]
        )
        for node in nodes
    ]


def prepare(data: Path, out: Path) -> None:
    """Kaldi texts and lists of one text of both halves of Earnings-21."""
    for half in ("tune", "report"):
        lists = earnings(data, half == "tune")
        out.joinpath(half).mkdir(parents=True, exist_ok=True)
        for place, name in enumerate(SYSTEMS):
            _write(
                out / half / f"{name}.txt",
                ((nbest["id"], nbest["hyps"][place]["text"]) for nbest in lists),
            )
            single = (
                json.dumps(nbest | {"hyps": nbest["hyps"][place : place + 1]})
                for nbest in lists
            )
            (out / half / f"{name}.jsonl").write_text(
                "".join(f"{line}\n" for line in single), encoding="utf-8"
            )
        _write(out / half / "ref.txt", ((nbest["id"], nbest["ref"]) for nbest in lists))


def plain(texts: Path, words: Path, out: Path) -> None:
    """Plain phonetic replacement in a Kaldi text: the spans with the nearest sounds
    become terms, without a model.
    """
    terms = read_terms(WordList.load(words))
    index = TermIndex(terms)
    rows = []
    for name, text in _text(texts):
        heard, new = split(text), [word.text for word in split(text)]
        taken = {
            place
            for first, last, _ in index.occurrences(heard)
            for place in range(first, last)
        }
        spans = list(index.spans(text, heard, lambda *span: ALIKE))
        for span in sorted(
            spans,
            key=lambda span: (span.distance / len(span.sound), span.first - span.last),
        ):
            if taken.isdisjoint(places := range(span.first, span.last)):
                taken.update(places)
                new[span.first : span.last] = [
                    terms[span.term].text,
                    *[""] * (len(places) - 1),
                ]
        rows.append((name, " ".join(filter(None, new))))
    _write(out, rows)


def keys_compared(data: Path, out: Path) -> None:
    """How well keys of sounds find misheard terms of Earnings-21's training half.

    A key finds a term if at most 1, 5 or 20 % of correctly recognised spans are as near
    to a term as the misheard words are.
    """
    terms = read_terms(WordList.load(data / "earnings21/terms.oracle.txt"))
    listed, known = TermIndex(terms), {term.words for term in terms}
    misheard_terms, others = set(), set()
    for nbest in earnings(data, train=True):
        meant = keys(nbest["ref"])
        for name in ("rev-kaldi", "speechmatics", "kaldi-librispeech"):
            heard = keys(nbest["hyps"][SYSTEMS.index(name)]["text"])
            for op in Levenshtein.opcodes(meant, heard):
                ours, theirs = (
                    meant[op.src_start : op.src_end],
                    heard[op.dest_start : op.dest_end],
                )
                if op.tag == "replace" and tuple(ours) in known and len(theirs) <= 5:
                    misheard_terms.add((" ".join(theirs), " ".join(ours)))
                elif op.tag == "equal":
                    rows = [
                        ours[at : at + size]
                        for size in (1, 2, 3)
                        for at in range(len(ours) - size + 1)
                    ]
                    others |= {
                        " ".join(row)
                        for row in rows
                        if not any(listed.occurrences(split(" ".join(row))))
                    }
    pairs = sorted(misheard_terms)
    spans = random.Random(0).sample(sorted(others), min(5_000, len(others)))
    texts = [" ".join(term.words) for term in terms]
    found = {}
    for name, key in _keys().items():
        of = dict(
            zip(
                every := sorted(
                    {*spans, *texts, *(text for pair in pairs for text in pair)}
                ),
                key(every),
                strict=True,
            )
        )
        distances = cdist(
            [of[text] for text in spans],
            [of[text] for text in texts],
            scorer=Levenshtein.normalized_distance,
        )
        limits = np.quantile(distances.min(axis=1), RATES)
        near = [
            Levenshtein.normalized_distance(of[heard], of[term])
            for heard, term in pairs
        ]
        found[name] = {
            f"{rate:.0%}": 100 * float(np.mean(np.array(near) < limit))
            for rate, limit in zip(RATES, limits, strict=True)
        }
        shares = ", ".join(f"{at} {share:.1f}" for at, share in found[name].items())
        print(f"{name}: {shares}", flush=True)
    print(f"{len(pairs)} misheard terms, {len(spans)} other spans")
    write_json(out, found)


def case_alone(data: Path, out: Path) -> None:
    """How often a correction of case alone is right: it gives the case of the
    reference. The list is the oracle list, written as most references write each term.
    """
    names = [earnings(data, train) for train in (True, False)]
    lists = [nbest for half in names for nbest in half]
    terms = [
        line.strip()
        for line in (data / "earnings21/terms.oracle.txt").read_text().splitlines()
        if line.strip()
    ]
    index = TermIndex([Term(term) for term in terms])
    ways: dict[int, Counter[str]] = {}
    for nbest in lists:
        words = split(nbest["ref"])
        for first, last, number in index.occurrences(words):
            ways.setdefault(number, Counter())[
                nbest["ref"][words[first].start : words[last - 1].end]
            ] += 1
    corrector = Corrector(
        [ways[number].most_common(1)[0][0] for number in sorted(ways)], 0.0, case=True
    )
    found: dict[str, Counter[str]] = {name: Counter() for name in SYSTEMS}
    for nbest in lists:
        reference, meant = nbest["ref"], split(nbest["ref"])
        for name, hypothesis in zip(SYSTEMS, nbest["hyps"], strict=True):
            heard = split(hypothesis["text"])
            ops = Levenshtein.opcodes(
                [word.key for word in heard], [word.key for word in meant]
            )
            places = {
                op.src_start + step: op.dest_start + step
                for op in ops
                if op.tag == "equal"
                for step in range(op.src_end - op.src_start)
            }
            there = list(corrector.finder.index.occurrences(heard))
            for one in corrector.recased(
                Text("", "", hypothesis["text"]),
                Heard(hypothesis["text"], heard, there, []),
            ):
                own = [places.get(place) for place in range(one.first, one.last)]
                if one.change.meant == one.change.heard or None in own:
                    continue
                written = reference[meant[own[0]].start : meant[own[-1]].end]
                right = {
                    one.change.meant: "right",
                    one.change.heard: "right before",
                }.get(written, "right in neither")
                found[name][right] += 1
    total = sum(found.values(), Counter())
    share = 100 * total["right"] / max(1, total.total())
    print(total, f"{share:.1f} % right")
    content = found | {"all": total, "percent right": share}
    write_json(out, content)


def _keys() -> dict[str, Callable[[list[str]], list[str]]]:
    """What gives the keys of texts, by name: the project's own rules, and the libraries
    that are installed.
    """
    ways: dict[str, Callable[[list[str]], list[str]]] = {
        "letters": lambda texts: [text.replace(" ", "") for text in texts],
        "rules of `rescore`": lambda texts: [sounds(text) for text in texts],
    }
    if find_spec("jellyfish"):
        from jellyfish import metaphone

        ways["Metaphone (jellyfish)"] = lambda texts: [
            metaphone(text).replace(" ", "") for text in texts
        ]
    if find_spec("phonemizer") and find_spec("espeakng_loader"):
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper

        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        backend = EspeakBackend("en-us")
        ways["IPA of espeak-ng (phonemizer)"] = lambda texts: [
            ipa.replace(" ", "") for ipa in backend.phonemize(texts, strip=True)
        ]
    return ways


def _write(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    path.write_text(
        "".join(f"{name} {text}\n" for name, text in rows), encoding="utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "command", choices=("train", "prepare", "plain", "keys", "case")
    )
    parser.add_argument("text", nargs="?", type=Path, help="plain: a Kaldi text")
    parser.add_argument("--words", type=Path, help="plain: the list")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "plain":
        plain(arguments.text, arguments.words, arguments.out)
    else:
        run = {
            "train": train,
            "prepare": prepare,
            "keys": keys_compared,
            "case": case_alone,
        }[arguments.command]
        run(arguments.data, arguments.out)
