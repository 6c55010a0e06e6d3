"""Interpolated modified Kneser-Ney by its definition (Chen and Goodman 1999; Heafield
et al. 2013), in dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

Ngram = tuple[str, ...]


class Definition:
    """The model of a text. Slow: each number is computed from the counts when it is
    first asked for.
    """

    def __init__(
        self,
        text: Sequence[Sequence[str]],
        order: int,
        thresholds: Sequence[int],
        fallback: bool,
    ) -> None:
        self.order = order
        self.adjusted, self.after, self.backoff = (
            cache(self._adjusted),
            cache(self._after),
            cache(self._backoff),
        )
        sentences = [("<s>", *words, "</s>") for words in text]
        self.counts: list[Counter[Ngram]] = [
            Counter(
                sentence[end - n : end]
                for sentence in sentences
                for end in range(max(2, n), len(sentence) + 1)
            )
            for n in range(1, order + 1)
        ]
        words = [*dict.fromkeys(word for sentence in text for word in sentence)]
        places = {word: place for place, word in enumerate(["<s>", "</s>", *words])}
        padded = [("<s>",) * (order - 1) + sentence[1:] for sentence in sentences]
        ngrams = (
            words[end - order : end]
            for words in padded
            for end in range(order, len(words) + 1)
        )
        self.last = max(
            ngrams, key=lambda ngram: [places[word] for word in reversed(ngram)]
        )
        """The last n-gram as lmplz sorts them. For the discounts, lmplz takes the
        occurrences of its suffixes.
        """
        limits = [*thresholds, *[thresholds[-1] if thresholds else 0] * order][:order]
        self.kept = [
            {
                ngram
                for ngram, count in counts.items()
                if count > limit or ngram == ("</s>",)
            }
            for counts, limit in zip(self.counts, limits, strict=True)
        ]
        self.vocabulary = [*(word for (word,) in self.kept[0]), "<unk>"]
        self.discounts = [self.discounts_of(n, fallback) for n in range(1, order + 1)]

    def _adjusted(self, ngram: Ngram) -> int:
        """Different words before an n-gram; its occurrences if it has the highest order
        or begins with <s>.
        """
        n = len(ngram)
        if n == self.order or ngram[0] == "<s>":
            return self.counts[n - 1][ngram]
        return sum(longer[1:] == ngram for longer in self.counts[n])

    def discounts_of(self, n: int, fallback: bool) -> list[float]:
        """D of the adjusted counts 0, 1, 2, and 3 or more; Chen and Goodman's
        equation 26.
        """
        of_counts = Counter(
            (
                self.counts[n - 1][ngram]
                if ngram == self.last[-n:]
                else self.adjusted(ngram)
            )
            for ngram in self.counts[n - 1]
        )
        n1, n2, n3, n4 = (of_counts[number] for number in range(1, 5))
        if n1 and n2 and n3:
            y = n1 / (n1 + 2 * n2)
            discounts = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            if all(
                0 <= discount <= number for number, discount in enumerate(discounts, 1)
            ):
                return [0, *discounts]
        if not fallback:
            raise ValueError("too small")
        return [0, 0.5, 1, 1.5]

    def _after(self, context: Ngram) -> list[Ngram]:
        """The n-grams of the text that are a context and a word."""
        return [ngram for ngram in self.counts[len(context)] if ngram[:-1] == context]

    def _backoff(self, context: Ngram) -> float:
        """The share of a context that discounts and pruning take."""
        ngrams = self.after(context)
        if not ngrams:
            return 1
        discounts, kept = self.discounts[len(context)], self.kept[len(context)]
        taken = sum(
            (
                discounts[min(3, self.adjusted(ngram))]
                if ngram in kept
                else self.adjusted(ngram)
            )
            for ngram in ngrams
        )
        return taken / sum(map(self.adjusted, ngrams))

    def probability(self, ngram: Ngram) -> float:
        """p(last word | words before it), at most order - 1 of which count."""
        if not ngram:
            return 1 / len(self.vocabulary)
        context = ngram[:-1]
        lower = self.probability(ngram[1:])
        if (
            context
            and context not in self.kept[len(context) - 1]
            and context != ("<s>",)
        ):
            return lower
        share = 0.0
        if ngram in self.kept[len(context)]:
            adjusted = self.adjusted(ngram)
            total = sum(map(self.adjusted, self.after(context)))
            share = (adjusted - self.discounts[len(context)][min(3, adjusted)]) / total
        return share + self.backoff(context) * lower

    def score(self, words: Sequence[str]) -> list[float]:
        """p of each word of a sentence, and of </s>."""
        known = [word if word in self.vocabulary else "<unk>" for word in words]
        sentence = ("<s>", *known, "</s>")
        return [
            self.probability(sentence[max(0, end - self.order) : end])
            for end in range(2, len(sentence) + 1)
        ]
