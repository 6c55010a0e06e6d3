"""Masked and causal models of Hugging Face's transformers as networks, whose scores
`rescore.lms.scorers` computes.
"""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.large.hub import LOGITS, Template, load_model
from rescore.lms.base import ComputeOptions, Question, Spec
from rescore.lms.causal import CausalScorer
from rescore.lms.devices import DTYPES, choose_device, choose_precision
from rescore.lms.fast import Batch, Tree, quantised
from rescore.lms.folders import content_digest
from rescore.lms.masked import masked_scorer
from rescore.lms.scorers import CONTEXT_TOKEN, Encoded, NetworkScorer, Request, Window

log = logging.getLogger(__name__)

PROBE = (
    "She read the letter again while the old clock in the hall ticked, and then it"
    " began to rain."
)
"""A text by which the loss of int8 is measured."""
INT8_LOSS = 0.05
"""Nats per token of `PROBE` that int8 may change without a warning."""
SHORTEST_PAST = 32
"""Tokens that are kept rather than read with each tree, at least."""


def masked(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """The pseudo-log-likelihood."""
    return masked_scorer(spec, HuggingFaceNetwork(spec.path, True, computing))


def causal(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """log p of each token given [BOS] and those before.

    A causal model without a BOS token leaves a sentence's first token unscored. The end
    of a sentence is not scored: these models end texts, not sentences.
    """
    network = HuggingFaceNetwork(spec.path, False, computing)
    if computing.prompt is None:
        return CausalScorer(spec.name, network)
    return PromptedScorer(spec.name, network, Template(computing.prompt))


class PromptedScorer(CausalScorer):
    """log p of the hypothesis' tokens given a prompt, which is read once for all
    hypotheses that have it.
    """

    network: HuggingFaceNetwork

    def __init__(
        self, name: str, network: HuggingFaceNetwork, template: Template
    ) -> None:
        super().__init__(name, network)
        self._template = template
        if template.reads_source:
            self.capabilities = replace(self.capabilities, source=True, vectors=False)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(
            f"{self._template.text}\0{super().fingerprint}".encode()
        ).hexdigest()

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """If prompts and hypotheses together exceed a tree, a network that can keep its
        past reads prompts once.
        """
        paths = sorted(self.windows(sentences), key=lambda path: path.tokens)
        groups = (
            behind_pasts(paths, self.largest)
            if self.network.keeps_past
            else [((), paths)]
        )
        for past, group in groups:
            yield from self.read(group, past)

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        before, texts = (
            map(self._template.before, questions),
            [question.text for question in questions],
        )
        return [
            self.in_order(encoded)
            for encoded in self.network.encode_behind(list(before), texts)
        ]


def behind_pasts(
    paths: Sequence[Window], largest: int
) -> Iterator[tuple[tuple[int, ...], list[Window]]]:
    """Sorted paths, grouped by the past tokens worth keeping, without these tokens;
    paths without a past come last.

    Past tokens are worth keeping if they and all their continuations may exceed the
    largest tree.
    """
    others: list[Window] = []
    for past, group in groupby(paths, key=_past):
        same_past = list(group)
        size = len(past) + sum(len(path.tokens) - len(past) for path in same_past)
        if len(same_past) > 1 and len(past) >= SHORTEST_PAST and size > largest:
            yield past, [_without_past(path) for path in same_past]
        else:
            others += same_past
    if others:
        yield (), others


def _past(path: Window) -> tuple[int, ...]:
    """The tokens before the first that predicts."""
    return path.tokens[: path.scored.start - 1]


def _without_past(path: Window) -> Window:
    """The path from the first token that predicts on."""
    begin = path.scored.start - 1
    return path._replace(
        tokens=path.tokens[begin:], scored=slice(1, path.scored.stop - begin)
    )


class HuggingFaceNetwork:
    """A model folder in Hugging Face's layout as a `Network`. Weights are safetensors;
    nothing in it is executed.
    """

    _kept: tuple[tuple[int, ...], Any] = ((), None)
    """The tokens of the last past, and their keys and values."""

    def __init__(self, folder: Path, masked: bool, computing: ComputeOptions) -> None:
        self._folder = folder
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        kind = "masked" if masked else "causal"
        self._model, self._tokenizer = load_model(
            folder, f"AutoModelFor{kind.capitalize()}LM", f"a {kind} language model"
        )
        self._model.to(self._device, DTYPES[self.precision])
        self._config = self._model.config.get_text_config()
        if not self._tokenizer.is_fast:
            raise UserError(
                f"{folder}: no tokenizer.json, and none could be made; save it from a"
                " fast tokenizer"
            )
        self.positions = self._longest()
        if self.positions < 1:
            raise UserError(
                f"{folder}: config.json allows {counted(self.positions, 'token')}, too"
                " few for a text"
            )
        if not masked:
            self._check_causal()
        if self.precision == "int8":
            self._quantise(masked)
        tokenizer = self._tokenizer
        self.end: list[int] = []
        if masked:
            if tokenizer.mask_token_id is None:
                raise UserError(
                    f"{folder}: no mask token in its tokenizer, so it is no masked LM;"
                    " for a causal LM give hf-causal"
                )
            self.mask: int = tokenizer.mask_token_id
            self.before, self.after = _frame(tokenizer)
        else:
            self.mask = -1
            self.before, self.after = (
                ([] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]),
                [],
            )
        self.pad: int = tokenizer.pad_token_id or 0
        self.vocabulary = max(len(tokenizer), self._config.vocab_size)
        # Byte-level vocabularies have no unknown token, but some name another one so.
        self.unknown: int | None = (
            None
            if tokenizer.unk_token == tokenizer.eos_token
            else tokenizer.unk_token_id
        )
        # Each position of a causal model has logits for the whole vocabulary at once.
        limit = max(64, min(2048, LOGITS // self._config.vocab_size))
        self.batch_tokens = computing.batch_tokens or limit

    def _quantise(self, masked: bool) -> None:
        """To int8. All inputs of a layer share one scale: a few large values, as in
        many causal models, cost the other values their precision. So the change of
        log-probabilities is measured, and a large change is said.
        """
        ids = torch.tensor([self._tokenizer(PROBE)["input_ids"][: self.positions]])
        before, targets = 0 if masked else 1, ids[0]
        every = torch.arange(len(targets))
        asked = (
            ids.repeat(len(targets), 1).fill_diagonal_(
                self._tokenizer.mask_token_id or 0
            )
            if masked
            else ids
        )

        def log_probs() -> Tensor:
            logits = self._model(input_ids=asked).logits
            logits = (
                logits[every, every] if masked else logits[0, : len(targets) - before]
            )
            return cast(
                Tensor, logits.log_softmax(-1).gather(-1, targets[before:, None])
            )

        with torch.inference_mode():
            exact = log_probs()
            self._model = quantised(self._model)
            change = (log_probs() - exact).abs().mean().item()
        if change > INT8_LOSS:
            log.warning(
                "%s: int8 changes the log-probability of a token by %.2f nats on"
                " average, measured on a sentence; give --precision bf16",
                self._folder,
                change,
            )

    def _longest(self) -> int:
        """Number of tokens of the longest sequence, special tokens included."""
        limit = getattr(self._config, "max_position_embeddings", None) or 4096
        longest = min(int(limit), int(self._tokenizer.model_max_length))
        for name, module in self._model.named_modules():
            if (
                name.endswith("position_embeddings")
                and getattr(module, "padding_idx", None) is not None
            ):
                # RoBERTa and its kin count positions from the padding index on.
                longest = min(longest, module.num_embeddings - module.padding_idx - 1)
        return longest

    def _check_causal(self) -> None:
        """See that the last token of a text changes no earlier prediction."""
        vocabulary = self._config.vocab_size
        tokens = (
            torch.arange(min(8, self.positions), device=self._device) + vocabulary // 2
        ) % vocabulary
        changed = tokens.clone()
        changed[-1] = (tokens[-1] + vocabulary // 3 + 1) % vocabulary
        with torch.inference_mode():
            logits, changed_logits = (
                self._model(input_ids=ids[None]).logits[0, :-1].float()
                for ids in (tokens, changed)
            )
        near = 1e-4 if self.precision == "float32" else 1e-2
        if not torch.allclose(logits, changed_logits, atol=near, rtol=near):
            raise UserError(
                f"{self._folder}: not a causal model: a later word changes what it"
                " predicts before; is it hf-masked?"
            )

    @cached_property
    def reads_trees(self) -> bool:
        """Whether the model takes positions and a mask of who sees whom: tried on a
        tree of six tokens.
        """
        tokens = torch.arange(self._config.vocab_size)[None, -6:]
        parents = [0, 0, 1, 2, 1, 4]
        visible = torch.eye(6, dtype=torch.bool)
        for node in range(1, 6):
            visible[node] |= visible[parents[node]]
        tree = Tree(visible.sum(-1)[None] - 1, visible[None])

        def same_as_chains() -> None:
            logits = self._logits(
                Batch(tokens, torch.tensor([6]), torch.arange(6), tree)
            )
            for leaf in (3, 5):
                path = visible[leaf].nonzero().squeeze(-1)
                chain = Batch(
                    tokens[:, path], torch.tensor([len(path)]), torch.arange(len(path))
                )
                self._check_close(logits[path], self._logits(chain))

        return self._works(same_as_chains, "reads no trees")

    @cached_property
    def keeps_past(self) -> bool:
        """Whether the model continues keys and values of all tokens before: tried on
        three tokens behind three.
        """
        if any(
            getattr(self._config, name, None)
            for name in ("sliding_window", "attention_chunk_size")
        ):
            return False  # beyond its window, such a model is to see less than all
        tokens = torch.arange(self._config.vocab_size)[None, -6:]
        chain = Tree(
            torch.arange(3)[None], torch.ones(1, 3, 3, dtype=torch.bool).tril()
        )

        def same_as_whole() -> None:
            whole = self._logits(Batch(tokens, torch.tensor([6]), torch.arange(3, 6)))
            past = tuple(tokens[0, :3].tolist())
            self._check_close(
                self._logits(
                    Batch(
                        tokens[:, 3:], torch.tensor([3]), torch.arange(3), chain, past
                    )
                ),
                whole,
            )

        return self.reads_trees and self._works(same_as_whole, "keeps no past")

    def _check_close(self, logits: Tensor, expected: Tensor) -> None:
        # wrong positions make a difference of the order of 1
        near = 1e-3 if self.precision == "float32" else 0.1
        torch.testing.assert_close(logits, expected, atol=near, rtol=near)

    def _works(self, trial: Callable[[], None], otherwise: str) -> bool:
        """Whether a trial raises none of the errors that models raise on inputs that
        they cannot read.
        """
        try:
            with torch.inference_mode():
                trial()
        except (
            AssertionError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            log.debug("%s: %s (%s)", self._folder, otherwise, error)
            return False
        return True

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        if not questions:
            return []
        texts = [question.text for question in questions]
        encodings = self._tokenizer(texts, add_special_tokens=False, verbose=False)
        return [
            Encoded(tuple(ids), tuple(_words(encodings, index)))
            for index, ids in enumerate(encodings["input_ids"])
        ]

    def encode_behind(
        self, before: Sequence[str], texts: Sequence[str]
    ) -> list[Encoded]:
        """Texts, each cut together with the text before it, whose tokens have the word
        `CONTEXT_TOKEN`, as the tokenizer does in running text: a blank before the text
        belongs to its first token.
        """
        if not texts:
            return []
        whole = ["".join(parts) for parts in zip(before, texts, strict=True)]
        encodings = self._tokenizer(
            whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        results = []
        for index, ids in enumerate(encodings["input_ids"]):
            begin = (
                len(before[index].rstrip(" "))
                if texts[index].strip()
                else len(whole[index])
            )
            words = (
                CONTEXT_TOKEN if stop <= begin else word
                for (_, stop), word in zip(
                    encodings["offset_mapping"][index],
                    _words(encodings, index),
                    strict=True,
                )
            )
            results.append(Encoded(tuple(ids), tuple(words)))
        return results

    def strings(self, ids: Sequence[int]) -> list[str]:
        return [
            str(token) for token in self._tokenizer.convert_ids_to_tokens(list(ids))
        ]

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        logits = self._logits(batch)
        rows, targets = rows.to(self._device), targets.to(self._device)
        return logits[rows, targets] - logits.logsumexp(-1)[rows]

    def best(self, batch: Batch) -> Tensor:
        """The most probable token (k,) at each of the positions `batch.at`."""
        return self._logits(batch).argmax(-1)

    def _logits(self, batch: Batch) -> Tensor:
        """(k, vocabulary) logits at the positions that are asked for, in float32.

        The vocabulary's matrix is by far the largest; if it is a module of the model,
        it is applied to these positions only. The model applies its own changes to the
        logits afterwards.
        """
        batch = batch.to(self._device)
        inputs: dict[str, Any] = {"input_ids": batch.tokens}
        if batch.tree:
            dtype = DTYPES[self.precision]
            mask = torch.zeros(
                batch.tree.visible.shape, dtype=dtype, device=self._device
            )
            mask.masked_fill_(~batch.tree.visible, torch.finfo(dtype).min)
            mask = torch.nn.functional.pad(mask, (len(batch.past), 0))
            inputs |= {
                "attention_mask": mask[:, None],
                "position_ids": batch.tree.depth + len(batch.past),
            }
            if batch.past:
                inputs |= {
                    "past_key_values": self._past(batch.past, len(batch.tokens)),
                    "use_cache": True,
                }
        else:
            columns = torch.arange(batch.tokens.shape[1], device=self._device)
            inputs["attention_mask"] = (columns < batch.lengths[:, None]).long()
        logits = self._logits_at(batch.at, inputs)
        assert logits.shape[0] == len(batch.at)
        return logits.float()

    def _logits_at(self, at: Tensor, inputs: dict[str, Any]) -> Tensor:
        head = self._model.get_output_embeddings()
        if head is None:
            return cast(Tensor, self._model(**inputs).logits.flatten(0, 1)[at])
        hook = head.register_forward_pre_hook(
            lambda module, arguments: (arguments[0].flatten(0, 1)[at],)
        )
        try:
            return cast(Tensor, self._model(**inputs).logits)
        finally:
            hook.remove()

    def _past(self, tokens: tuple[int, ...], rows: int) -> Any:
        """The keys and values of tokens, once for each row. The tokens that the last
        past began with are not read again.
        """
        from transformers import DynamicCache

        known, cache = self._kept
        if known != tokens:
            self._kept = (), None
            equal = (
                known_token == token
                for known_token, token in zip(known, tokens, strict=False)
            )
            common = sum(1 for _ in takewhile(bool, equal))
            cache = cache if common else DynamicCache()
            if 0 < common < len(known):
                cache.crop(common - len(known))
            if rest := tokens[common:]:
                ids = torch.tensor([rest], device=self._device)
                seen = torch.ones(1, len(tokens), dtype=torch.long, device=self._device)
                inputs = {
                    "input_ids": ids,
                    "attention_mask": seen,
                    "past_key_values": cache,
                    "use_cache": True,
                }
                self._logits_at(
                    torch.tensor([len(rest) - 1], device=self._device), inputs
                )
            self._kept = tokens, cache
        cache = copy.deepcopy(cache)
        cache.batch_repeat_interleave(rows)
        return cache

    @property
    def layers(self) -> int:
        return int(self._config.num_hidden_layers)

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        if positions:
            return self.vectors(tokens, lengths, 0)
        return cast(
            Tensor, self._model.get_input_embeddings()(tokens.to(self._device)).float()
        )

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        tokens = tokens.to(self._device)
        mask = (
            torch.arange(tokens.shape[1], device=self._device)
            < lengths.to(self._device)[:, None]
        )
        output = self._model(
            input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True
        )
        return cast(Tensor, output.hidden_states[layer].float())

    def digest(self) -> bytes:
        return content_digest(
            self._folder,
            b"" if self.precision == "float32" else self.precision.encode(),
        )


def _words(encodings: Any, index: int) -> list[int]:
    """The number of the word that each token of a text belongs to; -1 for a token of no
    word.
    """
    return [-1 if word is None else word for word in encodings.word_ids(index)]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a sentence."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    ids, special = probe["input_ids"], probe["special_tokens_mask"]
    inner = special.index(0)
    return ids[:inner], ids[len(special) - special[::-1].index(0) :]
