"""Translation models of Hugging Face's transformers (Marian, T5, BART, NLLB, mBART):
p(hypothesis given source).

With `:channel` the score is p(source given hypothesis), for the noisy channel (Yee et
al. 2019). A source is encoded once for all hypotheses of its list.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.large.hub import LOGITS, check_numbers, load_model, told
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Question,
    Streamed,
    TokenScores,
)
from rescore.lms.devices import DTYPES, choose_device, choose_precision
from rescore.lms.folders import content_digest
from rescore.lms.scorers import batches, padded, windows

log = logging.getLogger(__name__)

ANY_LENGTH = 1 << 62
"""The length of texts for a network without a limit."""
LONGEST_BUDGET = 4096
"""The largest default number of tokens of a batch."""


class _Part(NamedTuple):
    """A part of a predicted text that the decoder reads."""

    text: int
    """The number of the text."""
    inputs: Sequence[int]
    """The tokens that the decoder reads."""
    labels: Sequence[int]
    """The token that each of them predicts."""
    first: int
    """The place in the text of the first token that is scored here."""
    scored: slice
    """The places of the labels that are scored here."""


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
        self._pad = self._padding()
        decoder_room = positions(self._model.get_decoder())
        if getattr(self._model.config, "ngram", None) is not None:
            # ProphetNet's decoder also looks up the position after each token.
            decoder_room -= 1
        self._room = (positions(self._model.get_encoder()), decoder_room)
        """Tokens that the encoder and the decoder read, at most."""
        self._reported: set[str] = set()
        vocabulary = self._model.get_output_embeddings().weight.shape[0]
        usual = max(64, min(LONGEST_BUDGET, LOGITS // vocabulary))
        self._budget = computing.batch_tokens or usual

    def _padding(self) -> int:
        """Return the token that fills texts up; scores do not depend on it."""
        config = self._model.config
        for token in (self._tokenizer.pad_token_id, config.pad_token_id):
            if token is not None:
                break
        else:
            token = 0
        if config.pad_token_id is None:  # the model shifts labels with it
            config.pad_token_id = token
        return int(token)

    def _check_language(self, code: str) -> None:
        """Raise an error if the tokenizer does not know a language."""
        token = self._tokenizer.convert_tokens_to_ids(code)
        if token is None or token == self._tokenizer.unk_token_id:
            raise UserError(f"{self._folder}: its tokenizer knows no language {code}")

    @cached_property
    def fingerprint(self) -> str:
        about = f"seq2seq {self._channel} {self._codes} {self.precision}"
        return hashlib.sha256(about.encode() + content_digest(self._folder)).hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the places of questions with their scores, as batches end.

        Args:
            questions: Questions with a source.
        """
        with told(self._folder):
            yield from self._as_scored(questions)

    @torch.inference_mode()
    def _as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the places of questions with their scores."""
        places: dict[str, dict[str, list[int]]] = {}
        for place, question in enumerate(questions):
            given, predicted = question.pair(self._channel)
            places.setdefault(given, {}).setdefault(predicted, []).append(place)
        tokens = self._given_tokens(list(places))

        def length(given: str) -> int:
            return len(tokens[given])

        for batch in batches(sorted(places, key=length), length, self._budget):
            states, mask = self._encoded([tokens[given] for given in batch])
            rows = []
            for row, given in enumerate(batch):
                for predicted in places[given]:
                    rows.append((row, predicted))
            scores = self._decoded(states, mask, rows)
            for (row, predicted), scores_of_row in zip(rows, scores, strict=True):
                for place in places[batch[row]][predicted]:
                    yield place, scores_of_row

    def _given_tokens(self, texts: list[str]) -> dict[str, list[int]]:
        """Return the tokens of the given texts; a text that is too long for the encoder
        loses its end.
        """
        if not texts:
            return {}
        ids = self._tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        tokens = {}
        for text, own in zip(texts, ids, strict=True):
            tokens[text] = self._fitting(list(own) or [self._pad])
        return tokens

    def _fitting(self, tokens: list[int]) -> list[int]:
        """Return a given text's tokens as far as the encoder reads them, with the
        special tokens at the end.
        """
        room = self._room[0]
        if len(tokens) <= room:
            return tokens
        side = "hypothesis" if self._channel else "source"
        self._report(
            f"a {side} has {len(tokens)} tokens, but the model reads only {room}; the"
            " rest is cut off"
        )
        special = set(self._tokenizer.all_special_ids)
        own = len(tokens)
        while own > 0 and tokens[own - 1] in special:
            own -= 1
        end = tokens[own:][-room:]
        return tokens[: room - len(end)] + end

    def _report(self, message: str) -> None:
        """Log a warning, each message about a kind of text once."""
        kind = message.partition(" has ")[0]
        if kind not in self._reported:
            self._reported.add(kind)
            log.warning("%s: %s", self.name, message)

    def _encoded(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return the encoder's states of shape (texts, longest, d), and a mask that is
        0 at padding, of shape (texts, longest).
        """
        ids, lengths = padded(texts, self._pad)
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        ids = ids.to(self._device)
        mask = mask.to(self._device)
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
        parts = list(self._parts(labels))
        parts.sort(key=_length)
        values = [np.zeros(len(own)) for own in labels]
        for batch in batches(parts, _length, self._budget):
            given = torch.tensor([rows[part.text][0] for part in batch])
            given = given.to(self._device)
            log_probs = self._log_probs(states[given], mask[given], batch)
            check_numbers(log_probs, self._folder)
            for part, row in zip(batch, log_probs.double().cpu().numpy(), strict=True):
                own = row[part.scored]
                values[part.text][part.first : part.first + len(own)] = own
        results = []
        for ids, log_probs_of_text in zip(labels, values, strict=True):
            names = list(map(str, self._tokenizer.convert_ids_to_tokens(ids)))
            results.append(TokenScores(names, log_probs_of_text))
        return results

    def _parts(self, texts: Sequence[Sequence[int]]) -> Iterator[_Part]:
        """Yield the parts of predicted texts that the decoder reads; a text that is too
        long gives several, which overlap.
        """
        room = self._room[1]
        for number, labels in enumerate(texts):
            if len(labels) > room:
                side = "source" if self._channel else "hypothesis"
                self._report(
                    f"a predicted {side} has {len(labels)} tokens, but the model reads"
                    f" only {room}; long texts are scored in overlapping windows"
                )
            if not labels:
                continue
            inputs = self._decoder_inputs(labels)
            for start, stop, first, last in windows(len(labels), room):
                read = [inputs[0], *inputs[start + 1 : stop]]
                scored = slice(first - start, last - start)
                yield _Part(number, read, labels[start:stop], first, scored)

    def _decoder_inputs(self, labels: Sequence[int]) -> list[int]:
        """Return the tokens that the decoder reads to predict a text: the same number,
        moved by one place.

        Args:
            labels: The tokens of the text; not empty.
        """
        shift = getattr(self._model, "prepare_decoder_input_ids_from_labels", None)
        if shift is None:  # M2M100 (NLLB) and Blenderbot have no such method
            return [self._start(), *labels[:-1]]
        whole = torch.tensor([list(labels)], device=self._device)
        inputs: list[int] = shift(labels=whole)[0].tolist()
        return inputs

    def _start(self) -> int:
        """Return the token before the first token of a predicted text."""
        for config in (self._model.config, self._model.generation_config):
            token = getattr(config, "decoder_start_token_id", None)
            if token is not None:
                return int(token)
        raise UserError(
            f"{self._folder / 'config.json'}: no decoder_start_token_id; add the token"
            " with which a translation begins"
        )

    def _log_probs(
        self, states: Tensor, mask: Tensor, parts: Sequence[_Part]
    ) -> Tensor:
        """Return log-probabilities of tokens, of shape (parts, longest).

        Args:
            states: The encoder's states of the given text of each part.
            mask: Their mask.
            parts: The parts of predicted texts.
        """
        from transformers.modeling_outputs import BaseModelOutput

        encoded = BaseModelOutput(last_hidden_state=states)
        encoded.router_logits = None  # mixtures of experts look it up
        inputs, _ = padded([part.inputs for part in parts], self._pad)
        targets, _ = padded([part.labels for part in parts], 0)
        logits = self._model(
            encoder_outputs=encoded,
            attention_mask=mask,
            decoder_input_ids=inputs.to(self._device),
            use_cache=False,
        ).logits.float()
        targets = targets.to(self._device)[..., None]
        return logits.gather(-1, targets).squeeze(-1) - logits.logsumexp(-1)


def _length(part: _Part) -> int:
    """Return the number of tokens of a part."""
    return len(part.labels)


def positions(network: torch.nn.Module) -> int:
    """Return the number of tokens that an encoder or a decoder reads, at most.

    Args:
        network: The encoder or the decoder.
    """
    longest = ANY_LENGTH
    for name, module in network.named_modules():
        counts = "position" in name and "relative" not in name
        if counts and isinstance(module, torch.nn.Embedding):
            first = getattr(module, "offset", 0)
            if module.padding_idx is not None:
                first = module.padding_idx + 1
            longest = min(longest, module.num_embeddings - first)
    return longest
