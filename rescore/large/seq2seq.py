"""Translation models of Hugging Face's transformers (Marian, T5, BART, NLLB, mBART):
p(hypothesis given source).

With `:channel` the score is p(source given hypothesis), for the noisy channel (Yee et
al. 2019). A source is encoded once for all hypotheses of its list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.large.hub import LOGITS, load_model
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Question,
    Streamed,
    TokenScores,
)
from rescore.lms.devices import DTYPES, choose_device, choose_precision
from rescore.lms.folders import content_digest
from rescore.lms.scorers import batches

IGNORED = -100
"""The label of padding in transformers."""
LONGEST_BUDGET = 4096
"""The largest default number of tokens of a batch."""


class Seq2SeqLM(Streamed):
    """log p of each token of the target and of its end, given the other side."""

    capabilities = Capabilities(source=True)

    def __init__(
        self,
        name: str,
        folder: Path,
        computing: ComputeOptions,
        channel: bool,
        source: str | None,
        target: str | None,
    ) -> None:
        """Load the model.

        Args:
            name: The name of the column.
            folder: The folder of the model.
            computing: The device, the precision, and tokens of a batch.
            channel: Whether the hypothesis is given and the source is predicted.
            source: The tokenizer's code of the given language; None for its default.
            target: The tokenizer's code of the predicted language; None for its
                default.

        Raises:
            UserError: The model cannot be loaded, or does not take the options.
        """
        self.name = name
        self.model = name
        self._folder = folder
        self._channel = channel
        self._codes = (source, target)
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        if self.precision == "int8":
            raise UserError(
                "--precision int8 is not for hf-seq2seq; give float32 or bf16"
            )
        self._model, self._tokenizer = load_model(
            folder, "AutoModelForSeq2SeqLM", "a translation model"
        )
        self._model.to(self._device, DTYPES[self.precision])
        if source is not None:
            self._check_language(source)
            self._tokenizer.src_lang = source
        if target is not None:
            self._check_language(target)
            self._tokenizer.tgt_lang = target
        vocabulary = self._model.get_output_embeddings().weight.shape[0]
        usual = max(64, min(LONGEST_BUDGET, LOGITS // vocabulary))
        self._budget = computing.batch_tokens or usual

    def _check_language(self, code: str) -> None:
        """Raise an error if the tokenizer does not know a language."""
        token = self._tokenizer.convert_tokens_to_ids(code)
        if token is None or token == self._tokenizer.unk_token_id:
            raise UserError(f"{self._folder}: its tokenizer knows no language {code}")

    @cached_property
    def fingerprint(self) -> str:
        about = f"seq2seq {self._channel} {self._codes} {self.precision}"
        return hashlib.sha256(about.encode() + content_digest(self._folder)).hexdigest()

    @torch.inference_mode()
    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the places of questions with their scores, as batches end.

        Args:
            questions: Questions with a source.
        """
        places: dict[str, dict[str, list[int]]] = {}
        for place, question in enumerate(questions):
            given, predicted = question.pair(self._channel)
            places.setdefault(given, {}).setdefault(predicted, []).append(place)
        lengths = self._lengths(list(places))
        order = sorted(places, key=lengths.__getitem__)
        for batch in batches(order, lengths.__getitem__, self._budget):
            states, mask = self._encoded(batch)
            rows = []
            for row, given in enumerate(batch):
                for predicted in places[given]:
                    rows.append((row, predicted))
            scores = self._decoded(states, mask, rows)
            for (row, predicted), scores_of_row in zip(rows, scores, strict=True):
                for place in places[batch[row]][predicted]:
                    yield place, scores_of_row

    def _lengths(self, texts: list[str]) -> dict[str, int]:
        """Return the number of tokens of each text."""
        if not texts:
            return {}
        ids = self._tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        return dict(zip(texts, map(len, ids), strict=True))

    def _encoded(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the encoder's states of shape (texts, longest, d), and a mask that is
        0 at padding, of shape (texts, longest).
        """
        inputs = self._tokenizer(
            list(texts), padding=True, return_tensors="pt", verbose=False
        ).to(self._device)
        ids = inputs["input_ids"]
        mask = inputs["attention_mask"]
        states = self._model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        return states, mask

    def _decoded(
        self, states: Tensor, mask: Tensor, rows: Sequence[tuple[int, str]]
    ) -> list[TokenScores]:
        """Return the scores of texts.

        Args:
            states: The encoder's states of the given texts.
            mask: Their mask.
            rows: The row of the given text, and the predicted text.
        """
        if not rows:
            return []
        texts = [text for _, text in rows]
        labels = self._tokenizer(text_target=texts, truncation=False, verbose=False)[
            "input_ids"
        ]
        order = sorted(range(len(rows)), key=lambda index: len(labels[index]))
        results: dict[int, TokenScores] = {}
        for batch in batches(order, lambda index: len(labels[index]), self._budget):
            given = torch.tensor([rows[index][0] for index in batch]).to(self._device)
            log_probs = self._log_probs(
                states[given], mask[given], [labels[index] for index in batch]
            )
            values = log_probs.double().cpu().numpy()
            for row, index in enumerate(batch):
                tokens = self._tokenizer.convert_ids_to_tokens(labels[index])
                names = list(map(str, tokens))
                results[index] = TokenScores(names, np.array(values[row, : len(names)]))
        return [results[index] for index in range(len(rows))]

    def _log_probs(
        self, states: Tensor, mask: Tensor, labels: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return log-probabilities of tokens, of shape (texts, longest).

        Args:
            states: The encoder's states of the given text of each row.
            mask: Their mask.
            labels: The tokens of the predicted texts, the longest last.
        """
        padded = torch.full((len(labels), len(labels[-1])), IGNORED)
        for row, tokens in enumerate(labels):
            padded[row, : len(tokens)] = torch.tensor(tokens)
        padded = padded.to(self._device)
        inputs = self._model.prepare_decoder_input_ids_from_labels(labels=padded)
        logits = self._model(
            encoder_outputs=(states,),
            attention_mask=mask,
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits.float()
        targets = padded.clamp_min(0)[..., None]
        return logits.gather(-1, targets).squeeze(-1) - logits.logsumexp(-1)
