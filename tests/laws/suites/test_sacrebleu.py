"""Law: the cases of sacreBLEU's own tests give sacreBLEU's figures, but for the cases
whose difference is listed with a reason.

The cases are from the folder test/ of the source distribution of sacreBLEU 2.6.0. Left
out are the tests of its data sets, of its Python interface, of the marks that its
tokenizer of TER splits, and of p-values on the systems of WMT 2017, whose files are too
large.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pytest

from rescore.metrics.base import Metric
from rescore.metrics.mt import Bleu, Chrf, Ter, corpus_bleu
from tests.laws.suites.suite import Suite, numbered

Streams = Sequence[Sequence[str]]
"""References as sacreBLEU takes them: the first of all texts, the second of all texts,
and so on.
"""


# --- questions ------------------------------------------------------------------------


def _statistics(metric: Metric, texts: Sequence[str], streams: Streams) -> np.ndarray:
    """Return the statistics of each text."""
    references = []
    for of_text in zip_longest(*streams):
        references.append(tuple(text for text in of_text if text is not None))
    return metric.statistics(list(texts), references[: len(texts)])


def _corpus(metric: Metric, texts: Sequence[str], streams: Streams) -> float:
    """Return the figure of a set, in percent."""
    sums = _statistics(metric, texts, streams).sum(axis=0)
    return float(metric.values(sums[None])[0])


def bleu(tokenise: str, texts: Sequence[str], streams: Streams) -> float:
    """Return the BLEU of a set."""
    return _corpus(Bleu(tokenise=tokenise), texts, streams)


def sentence_bleu(tokenise: str, text: str, reference: str) -> float:
    """Return the BLEU of a sentence, with effective order."""
    metric = Bleu(tokenise=tokenise)
    rows = metric.statistics([text], [(reference,)])
    return float(metric.sentence_values(rows)[0])


def ngrams(text: str, reference: str) -> list[int]:
    """Return the common n-grams and all n-grams of a text, of orders 1 to 4."""
    rows = Bleu(tokenise="none").statistics([text], [(reference,)])
    counts: list[int] = rows[0, 2:].tolist()
    return counts


def bleu_of_counts(
    common: list[int], every: list[int], length: int, reference: int
) -> float:
    """Return the BLEU of statistics."""
    row = np.array([[length, reference, *common, *every]])
    return float(corpus_bleu(row)[0])


def chrf(text: str | list[str], references: list[str]) -> float:
    """Return the chrF of a set with one reference per text."""
    texts = [text] if isinstance(text, str) else text
    return _corpus(Chrf(), texts, [references])


def ter(texts: list[str], references: list[str]) -> float:
    """Return the TER of a set with one reference per text."""
    return _corpus(Ter(), texts, [references])


# --- cases ----------------------------------------------------------------------------

FEST = ["this is a fest"]
EXACT = ["this is a test"]
DOGS = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
DOG_REFERENCES = [
    ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
    [
        "The dog had bit the man.",
        "No one was surprised.",
        "The man had bitten the dog.",
    ],
]
SEQUENCE = ["am I am a character sequence"]
SYMBOLS = ["I am a symbol string sequence a a"]
SUGAR = "Producția de zahăr primă va fi exprimată în ceea ce privește zahărul alb;"
SUGAR_REFERENCE = "producţia de zahăr brut se exprimă în zahăr alb;"

BLEU = (
    numbered(
        "raw_bleu",
        bleu,
        [
            ("none", ["this is a test", "another test"], [["ref1", "ref2"]], 0.0),
            ("none", EXACT, [EXACT], 100.0),
            ("none", FEST, [EXACT], 22.3606797749979),
        ],
    )
    | numbered(
        "corpus_bleu",
        bleu,
        [
            ("13a", DOGS, DOG_REFERENCES, 48.530827),
            ("13a", ["", "", ""], DOG_REFERENCES, 0.0),
            ("none", DOGS, DOG_REFERENCES, 49.1919566),
            ("13a", DOGS, DOG_REFERENCES, 48.530827),
            ("intl", DOGS, DOG_REFERENCES, 43.91623493),
            ("13a", DOGS, DOG_REFERENCES, 48.530827),
        ],
    )
    | numbered(
        "offset",
        bleu,
        [
            ("none", SEQUENCE, [SYMBOLS], 0.0),
            ("none", SEQUENCE, [SYMBOLS], 15.55722182),
            ("none", SEQUENCE, [SYMBOLS], 15.55722182),
        ],
    )
    | numbered(
        "statistics", ngrams, [(SEQUENCE[0], SYMBOLS[0], [4, 2, 1, 0, 6, 5, 4, 3])]
    )
    | numbered(
        "scoring",
        bleu_of_counts,
        [([9, 7, 5, 3], [10, 8, 6, 4], 11, 11, 83.75922397)],
    )
    | numbered(
        "effective_order",
        sentence_bleu,
        [
            ("none", "test", "a test", 36.78794411714425),
            ("none", "a test", "a test", 100.0),
            ("none", "a little test", "a test", 3.218297948685433),
        ],
    )
    | numbered(
        "degenerate_statistics",
        bleu_of_counts,
        [
            ([0, 0, 0, 0], [4, 4, 2, 1], 0, 1, 0.0),
            ([0, 0, 0, 0], [10, 11, 12, 0], 14, 10, 0.0),
            ([0, 0, 0, 0], [0, 0, 0, 0], 0, 0, 0.0),
            ([6, 5, 4, 0], [6, 5, 4, 3], 6, 6, 0.0),
            ([0, 0, 0, 0], [0, 0, 0, 0], 0, 0, 0.0),
            ([0, 0, 0, 0], [0, 0, 0, 0], 1, 5, 0.0),
        ],
    )
    | numbered(
        "max_ngram_order",
        lambda texts, streams: round(bleu("13a", texts, streams), 2),
        [
            (DOGS, DOG_REFERENCES, figure)
            for figure in (77.65, 60.50, 53.93, 48.53, 46.14, 43.28)
        ],
    )
)

SENTENCES = [
    ("13a", SUGAR, SUGAR_REFERENCE, 8.493),
    ("13a", SUGAR, SUGAR_REFERENCE, 0.0),
    ("13a", SUGAR, SUGAR_REFERENCE, 4.51688),
    ("13a", SUGAR, SUGAR_REFERENCE, 4.51688),
    ("13a", SUGAR, SUGAR_REFERENCE, 10.10),
    ("13a", SUGAR, SUGAR_REFERENCE, 14.882),
    ("13a", SUGAR, SUGAR_REFERENCE, 14.882),
    ("13a", SUGAR, SUGAR_REFERENCE, 21.389),
    ("none", SUGAR, SUGAR_REFERENCE, 7.347),
    ("intl", SUGAR, SUGAR_REFERENCE, 8.493),
    ("char", SUGAR, SUGAR_REFERENCE, 40.8759),
    ("char", SUGAR, SUGAR_REFERENCE, 42.0267),
]
SENTENCE_BLEU = (
    numbered("compat_sentence_bleu", sentence_bleu, SENTENCES)
    | numbered("api_sentence_bleu", sentence_bleu, SENTENCES)
    | numbered(
        "api_sentence_bleu_zero",
        sentence_bleu,
        [("13a", "this is a cat", "okay thanks", 0.0)] * 6,
    )
)

RISK = (
    "risk assessment must be made of those who are qualified and expertise in the"
    " sector - these are the scientists ."
)
RISK_REFERENCE = (
    "risk assessment has to be undertaken by those who are qualified and expert in that"
    " area - that is the scientists ."
)
OBAMA = "Die Beziehung zwischen Obama und Netanjahu ist nicht gerade freundlich."
OBAMA_BLANKS = (
    " Die    Beziehung zwischen  Obama und Netanjahu ist nicht gerade  freundlich. "
)
OBAMA_REFERENCE = (
    "Das Verhältnis zwischen Obama und Netanyahu ist nicht gerade freundschaftlich."
)
MAUER = "Niemand hat die Absicht, eine Mauer zu errichten"
CHRF = (
    numbered(
        "chrf",
        chrf,
        [
            (["abcdefg"], ["hijklmnop"], 0.0),
            (["a"], ["b"], 0.0),
            ([""], ["b"], 0.0),
            ([""], ["ref"], 0.0),
            ([""], ["reference"], 0.0),
            (["aa"], ["ab"], 8.3333),
            (["a", "b"], ["a", "c"], 8.3333),
            (["a"], ["a"], 16.6667),
            (["a b c"], ["a b c"], 50.0),
            (["a b c"], ["abc"], 50.0),
            ([" " + RISK], [RISK_REFERENCE], 63.361730),
            ([OBAMA_BLANKS], [OBAMA_REFERENCE], 64.1302698),
            ([MAUER], [MAUER], 100.0),
        ],
    )
    | numbered(
        "chrf_eff_order",
        chrf,
        [
            (["a"], ["a"], 100.0),
            ([""], ["reference"], 0.0),
            (["a b c"], ["a b c"], 100.0),
            (["a b c"], ["abc"], 100.0),
            ([""], ["c"], 0.0),
            (["a", "b"], ["a", "c"], 50.0),
            (["aa"], ["ab"], 25.0),
        ],
    )
    | numbered(
        "chrf_keep_whitespace",
        chrf,
        [
            ([OBAMA], [OBAMA_REFERENCE], 67.3481606),
            ([RISK], [RISK_REFERENCE], 65.2414427),
        ],
    )
    | numbered(
        "chrf_sentence_level",
        chrf,
        [
            (
                "Co nás nejvíc trápí, protože lékaři si vybírají, kdo bude žít a kdo"
                " zemře.",
                [
                    "Nejvíce smutní jsme z toho, že musíme rozhodovat o tom, kdo bude"
                    " žít a kdo zemře."
                ],
                39.14078509,
            ),
            (
                "Nebo prostě nemají vybavení, které by jim pomohlo, uvedli lékaři.",
                [
                    "A někdy nemáme ani potřebný materiál, abychom jim pomohli, popsali"
                    " lékaři."
                ],
                31.22557079,
            ),
            (
                "Lapali po dechu, jejich životy skončily dřív, než skutečně začaly.",
                [
                    "Lapali po dechu a pak jejich život skončil - dřív, než skutečně"
                    " mohl začít, připomněli."
                ],
                57.15704367,
            ),
        ],
    )
)

PIXELS = (
    'wählen Sie " Bild neu berechnen , " um beim Ändern der Bildgröße Pixel'
    " hinzuzufügen oder zu entfernen , damit"
)
UPDATE = (
    "wenn Sie alle Aufgaben im aktuellen Dokument aktualisieren möchten , wählen Sie im"
    ' Menü des Aufgabenbedienfelds die Option " Alle Aufgaben aktualisieren . "'
)
OPTIONS = (
    'klicken Sie auf der Registerkarte " Optionen " auf die Schaltfläche "'
    ' Benutzerdefiniert " und geben Sie'
)
DIALOGUE = (
    'wählen Sie im Dialogfeld " Neu aus Vorlage " eine Vorlage aus und klicken Sie auf'
    ' " Neu . "'
)
TER_TEXTS = [
    f"{PIXELS} das Bild ungefähr dieselbe Größe aufweist wie die andere Größe .",
    UPDATE,
    f'{OPTIONS} Werte für " Fehlerkorrektur-Level " und " Y / X-Verhältnis " ein .',
    "Sie können beispielsweise ein Dokument erstellen , das ein Auto über die Bühne"
    " enthält .",
    DIALOGUE,
]
TER_REFERENCES = [
    f"{PIXELS} die Darstellung des Bildes in einer anderen Größe beibehalten wird .",
    UPDATE,
    f'{OPTIONS} für " Fehlerkorrektur-Level " und " Y / X-Verhältnis " niedrigere Werte'
    " ein .",
    "Sie können beispielsweise ein Dokument erstellen , das ein Auto enthalt , das sich"
    " über die Bühne bewegt .",
    DIALOGUE,
]
TER = numbered(
    "ter",
    ter,
    [
        (["aaaa bbbb cccc dddd"], ["aaaa bbbb cccc dddd"], 0.0),
        (["dddd eeee ffff"], ["aaaa bbbb cccc"], 100.0),
        ([""], ["a"], 100.0),
        (["a"], [""], 100.0),
        ([""], [""], 0.0),
        (["d e f g h a b c"], ["a b c d e f g h"], 12.5),
        (TER_TEXTS, TER_REFERENCES, 13.6),
    ],
) | numbered(
    "ter_tokenizer_default",
    ter,
    [
        (["a b c d"], ["a b c d"], 0.0),
        ([""], [""], 0.0),
        (["a b c d."], ["a b c d."], 0.0),
        (["A B C D."], ["a b c d."], 0.0),
    ],
)

SMOOTHED = (
    *(f"compat_sentence_bleu {number}" for number in range(2, 9)),
    *(f"api_sentence_bleu {number}" for number in range(2, 9)),
)

SUITE = Suite(
    tool="sacreBLEU 2.6.0",
    cases=BLEU | SENTENCE_BLEU | CHRF | TER,
    different={
        "BLEU is always smoothed by `exp`, sacreBLEU's default": [
            "raw_bleu 3",
            "offset 1",
            "offset 2",
            "offset 3",
            "effective_order 3",
            "degenerate_statistics 4",
            *SMOOTHED,
        ],
        "BLEU always has four orders": [
            f"max_ngram_order {order}" for order in (1, 2, 3, 5, 6)
        ],
        "BLEU always counts case": ["compat_sentence_bleu 12", "api_sentence_bleu 12"],
        "chrF has no `eps_smoothing`, and its beta is always 2": [
            f"chrf {number}" for number in range(6, 13)
        ],
        "chrF always leaves out blanks, and its beta is always 2": [
            "chrf_keep_whitespace 1",
            "chrf_keep_whitespace 2",
        ],
    },
    within=1e-3,
)


@pytest.mark.parametrize("name", SUITE.cases)
def test_case(name: str) -> None:
    SUITE.check(name)
