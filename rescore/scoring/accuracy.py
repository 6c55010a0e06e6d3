"""Token accuracy: how often a network's most probable token is the text's (dissertation, Tables 4.1 and 5.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from rescore.errors import UserError
from rescore.parts import NETWORKS
from rescore.scoring.base import LanguageModel, Question
from rescore.scoring.one_pass import NetworkScorer


@torch.inference_mode()
def right_tokens(lm: LanguageModel, questions: Sequence[Question]) -> list[npt.NDArray[np.bool_]]:
    """For each question, which of its scored tokens (tokens,) are the most probable ones, each given what its
    log-probability is given.

    Raises:
        UserError: the model is no network, one that predicts no tokens or each of them several times, or one behind a
            cache, another case or neighbours.
    """
    if not isinstance(lm, NetworkScorer) or not lm.predicts_tokens:
        able = ", ".join(name for name in NETWORKS.names if not NETWORKS[name].replaces)
        raise UserError(
            f"--accuracy: not for {lm.name}; give {able} or a folder of hf-masked or hf-causal, without --cache, "
            "--case, --context and --engine"
        )
    if lm.passes > 1:
        raise UserError(f"--accuracy: {lm.name} predicts each token {lm.passes} times; leave out orders")
    sentences = lm.encoded(questions)
    found = [np.zeros(len(sentence.ids), dtype=np.bool_) for sentence in sentences]
    for batch, rows, targets, spans in lm.requests(sentences):
        right = (lm.network.most_probable(batch, rows).cpu() == targets % lm.network.vocabulary).numpy()
        for sentence, first, which in spans:
            values = right[which]
            found[sentence][first : first + len(values)] = values
    return [right[lm.scored(sentence)] for right, sentence in zip(found, sentences, strict=True)]
