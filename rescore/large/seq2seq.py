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


class Seq2SeqLM(Streamed):
    """log p of each token of the target, its end with them, given the other side."""

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
        """
        Args:
            channel: whether the hypothesis is given and the source is predicted.
            source, target: language codes of the tokenizer for the given and the
                predicted text.
        """
        self.name = self.model = name
        self._folder, self._channel, self._codes = folder, channel, (source, target)
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
        for attribute, code in (("src_lang", source), ("tgt_lang", target)):
            if code is None:
                continue
            if self._tokenizer.convert_tokens_to_ids(code) in (
                None,
                self._tokenizer.unk_token_id,
            ):
                raise UserError(f"{folder}: its tokenizer knows no language {code}")
            setattr(self._tokenizer, attribute, code)
        vocabulary = self._model.get_output_embeddings().weight.shape[0]
        self._budget = computing.batch_tokens or max(
            64, min(4096, LOGITS // vocabulary)
        )

    @cached_property
    def fingerprint(self) -> str:
        about = f"seq2seq {self._channel} {self._codes} {self.precision}"
        return hashlib.sha256(about.encode() + content_digest(self._folder)).hexdigest()

    @torch.inference_mode()
    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions with a source and their scores, as the batches
        end.
        """
        wanted: dict[str, dict[str, list[int]]] = {}
        for place, question in enumerate(questions):
            source, target = question.pair(self._channel)
            wanted.setdefault(source, {}).setdefault(target, []).append(place)
        sources = list(wanted)
        ids = (
            self._tokenizer(sources, truncation=False, verbose=False)["input_ids"]
            if sources
            else []
        )
        lengths = dict(zip(sources, map(len, ids), strict=True))
        for batch in batches(
            sorted(sources, key=lengths.__getitem__), lengths.__getitem__, self._budget
        ):
            states, mask = self._encoded(batch)
            rows = [
                (row, text)
                for row, source in enumerate(batch)
                for text in wanted[source]
            ]
            for (row, text), scores in zip(
                rows, self._decoded(states, mask, rows), strict=True
            ):
                yield from ((place, scores) for place in wanted[batch[row]][text])

    def _encoded(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The encoder's states (texts, longest, d), and a mask that is False at
        padding.
        """
        inputs = self._tokenizer(
            list(texts), padding=True, return_tensors="pt", verbose=False
        ).to(self._device)
        encoder = self._model.get_encoder()
        states = encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        )[0]
        return states, inputs["attention_mask"]

    def _decoded(
        self, states: Tensor, mask: Tensor, rows: Sequence[tuple[int, str]]
    ) -> list[TokenScores]:
        """Each text's tokens given the state of its row."""
        if not rows:
            return []
        labels = self._tokenizer(
            text_target=[text for _, text in rows], truncation=False, verbose=False
        )["input_ids"]
        order = sorted(range(len(rows)), key=lambda index: len(labels[index]))
        results: dict[int, TokenScores] = {}
        for chosen in batches(order, lambda index: len(labels[index]), self._budget):
            padded = torch.full((len(chosen), len(labels[chosen[-1]])), IGNORED)
            for place, index in enumerate(chosen):
                padded[place, : len(labels[index])] = torch.tensor(labels[index])
            padded = padded.to(self._device)
            which = torch.tensor(
                [rows[index][0] for index in chosen], device=self._device
            )
            logits = self._model(
                encoder_outputs=(states[which],),
                attention_mask=mask[which],
                decoder_input_ids=self._model.prepare_decoder_input_ids_from_labels(
                    labels=padded
                ),
                use_cache=False,
            ).logits.float()
            targets = padded.clamp_min(0)
            log_probs = logits.gather(-1, targets[..., None]).squeeze(
                -1
            ) - logits.logsumexp(-1)
            values = log_probs.double().cpu().numpy()
            for place, index in enumerate(chosen):
                tokens = [
                    str(token)
                    for token in self._tokenizer.convert_ids_to_tokens(labels[index])
                ]
                results[index] = TokenScores(
                    tokens, np.array(values[place, : len(tokens)])
                )
        return [results[index] for index in range(len(rows))]
