"""The expansion `write-out`: hypotheses whose contractions are written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rescore.columns import Role
from rescore.config import RunConfig
from rescore.expansion import Expansion
from rescore.features import Feature
from rescore.nbest import Hypothesis, NbestList
from rescore.options import Declared, option

ORIGIN = "written-out"
"""The origin of the new hypotheses."""

LONG_FORMS = {
    "can't": "cannot",
    "don't": "do not",
    "i'm": "i am",
    "it's": "it is",
    "that's": "that is",
    "won't": "will not",
}


class WrittenOut(Feature):
    """hypotheses of --write-out"""

    # Words such as `cannot` may stand in no hypothesis of the recogniser.
    new_words = (ORIGIN,)


class WritingOut(Expansion):
    """hypotheses with contractions written out"""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        """The option that asks for the expansion."""

        write_out: int = option(
            0,
            "Add up to N hypotheses to each list, with contractions written out.",
            metavar="N",
            low=0,
        )

    def __init__(self, most: int) -> None:
        """Make the expansion.

        Args:
            most: The largest number of new hypotheses of a list.
        """
        self._most = most

    @classmethod
    def made(
        cls, options: Any, config: RunConfig, dev: Sequence[NbestList] | None
    ) -> WritingOut:
        """Return the expansion that the options ask for."""
        return cls(options.write_out)

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """Yield copies of the lists with new hypotheses at their ends."""
        for nbest in lists:
            yield replace(nbest, hypotheses=[*nbest.hypotheses, *self._new(nbest)])

    def _new(self, nbest: NbestList) -> list[Hypothesis]:
        """Return the new hypotheses of a list, the best first pass first.

        A new hypothesis has the scores of the recogniser at the hypothesis that it is
        made of; scores of language models are those of another text.
        """
        kept = nbest.columns(Role.FIRST_PASS, Role.COMPONENT, Role.SYSTEM)
        known = {hypothesis.text for hypothesis in nbest.hypotheses}
        new: list[Hypothesis] = []
        for hypothesis in nbest.hypotheses:
            text = written_out(hypothesis.text)
            if text in known or len(new) == self._most:
                continue
            known.add(text)
            scores = {}
            for name, score in hypothesis.scores.items():
                if name in kept:
                    scores[name] = score
            new.append(Hypothesis(text, scores, ORIGIN))
        return new


def written_out(text: str) -> str:
    """Return a text with its contractions written out."""
    return " ".join(LONG_FORMS.get(word, word) for word in text.split())
