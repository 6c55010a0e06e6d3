"""Sentence order as a further objective of a T-TA or a masked model (dissertation, section 5.4.1).

Two consecutive sentences are read in one sequence, in their order or swapped, and a linear classifier says which. In
SOP (Lan et al. 2020, ALBERT) it reads the vector of [BOS], which is BERT's [CLS]; in SRP, the dissertation's, the mean
vector of the sentences' tokens. The classifier is for training only: no weights of it are in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms.neural.blocks import padding_mask
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.tokenizer import Tokenizer
from rescore.lms.neural.training.corpus import Corpus
from rescore.lms.neural.training.objectives import ContextObjective, Example, Head, Objective, Task


class OrderClassifier(Head):
    """Softmax over two orders, of one vector of a pair."""

    about = "sentence order"

    def __init__(self, name: str, width: int, frame: Sequence[int]) -> None:
        """
        Args:
            name: `sop` or `srp`. width: of the vectors. frame: the tokens that are not the sentences'.
        """
        super().__init__()
        self._first, self._frame = name == "sop", list(frame)
        self.linear = nn.Linear(width, 2)
        nn.init.zeros_(self.linear.weight)  # nothing random is drawn: what else is random stays what it is without
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, example: Example) -> Tensor:
        """Hidden vectors (batch, n, d) of a batch of pairs -> logits (batch, 2): in order, swapped."""
        if self._first:
            pooled = hidden[:, 0].float()
        else:
            own = padding_mask(example.lengths, hidden.shape[1])
            for token in self._frame:
                own = own & (example.tokens != token)
            pooled = (hidden.float() * own[..., None]).sum(dim=1) / own.sum(dim=1, keepdim=True)
        logits: Tensor = self.linear(pooled)
        return logits

    def loss(self, hidden: Tensor, example: Example) -> Tensor:
        """The mean of -log p of the orders, natural log."""
        assert example.labels is not None
        return F.cross_entropy(self(hidden, example), example.labels.long())

    def right(self, hidden: Tensor, example: Example) -> Tensor:
        """(batch,), whether the right order is the more probable order."""
        assert example.labels is not None
        return self(hidden, example).argmax(dim=1) == example.labels


class SentenceOrder(Objective):
    """An objective for pairs of consecutive sentences, half of them swapped; `head` predicts which pairs are swapped.

    A pair has the form [BOS] first [EOS] second [EOS], as in BERT; [EOS] is not predicted.
    """

    def __init__(self, name: str, objective: Objective, tokenizer: Tokenizer, width: int) -> None:
        self.perplexity, self.predicts_end = objective.perplexity, objective.predicts_end
        self._objective, self._eos = ContextObjective(objective, tokenizer), tokenizer.eos
        self.head = OrderClassifier(name, width, (tokenizer.bos, tokenizer.eos))

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng([*seed, 2])
        # If their number is odd, chance decides which order gets the extra pair.
        swapped = torch.from_numpy((random.permutation(len(tokens)) + random.integers(2)) % 2 == 1)
        shown = tokens.clone()
        for row in swapped.nonzero()[:, 0].tolist():
            inner = tokens[row, 1 : lengths[row] - 1]
            end = int((inner == self._eos).nonzero()[0])
            shown[row, 1 : lengths[row] - 1] = torch.cat([inner[end + 1 :], inner[end : end + 1], inner[:end]])
        return replace(self._objective(shown, lengths, seed), labels=swapped)


def pairs(corpus: Corpus, tokenizer: Tokenizer, longest: int) -> Corpus:
    """The windows of two sentences of a corpus, as first [EOS] second with at most `longest` tokens.

    Raises:
        UserError: no pairs are left to train on, or no pairs are held out.
    """
    kept = corpus.windows([tokenizer.eos], lambda sentences, tokens: (sentences == 2) & (tokens < longest))
    if not len(kept) or not kept.held_out_items:
        raise UserError(
            f"the text has too few pairs of consecutive lines with fewer than {longest} tokens: "
            f"{len(kept)} to train on, {kept.held_out_items} held out; --held-out sets how many are"
        )
    return kept


def order_task(name: str, usual: Task, config: NetworkConfig, tokenizer: Tokenizer) -> Task:
    """The task that `name` (`sop` or `srp`) adds to the usual task of a network.

    Args:
        usual: of a corpus whose windows are pairs.

    Raises:
        UserError: the text has no two consecutive sentences that a network of this size reads in one sequence.
    """
    corpus = pairs(usual.corpus, tokenizer, config.max_positions - 2)
    return Task(name, corpus, SentenceOrder(name, usual.objective, tokenizer, config.d_model))
