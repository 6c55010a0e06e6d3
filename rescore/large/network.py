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
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.large.hub import (
    LOGITS,
    Template,
    cache_name,
    check_numbers,
    load_model,
    told,
)
from rescore.lms.base import ComputeOptions, Question, Spec
from rescore.lms.causal import CausalScorer
from rescore.lms.devices import (
    DTYPES,
    choose_device,
    choose_precision,
    cpu_multiplies_bfloat16,
)
from rescore.lms.fast import Batch, Tree, quantised
from rescore.lms.folders import content_digest
from rescore.lms.masked import masked_scorer
from rescore.lms.scorers import (
    ANY_DEPTH,
    CONTEXT_TOKEN,
    Encoded,
    NetworkScorer,
    Request,
    Window,
)

log = logging.getLogger(__name__)

PROBE = (
    "She read the letter again while the old clock in the hall ticked, and then it"
    " began to rain."
)
"""A text by which the loss of int8 is measured."""
INT8_LOSS = 0.05
"""Nats per token of `PROBE` that int8 may change without a warning."""
WINDOWS = (
    "sliding_window",
    "sliding_window_size",
    "attention_chunk_size",
    "attention_window_size",
    "window_size",
    "local_attention",
    "local_attention_window_len",
    "keep_window_size",
)
"""Names in configurations for the number of tokens that a token sees, in some layers or
in all.
"""
SHORTEST_PAST = 32
"""The smallest number of tokens that are kept rather than read with each tree."""
TRIAL_ERRORS = (
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that models raise on inputs that they cannot read."""


def masked(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """Return a scorer of pseudo-log-likelihoods.

    Args:
        spec: The options, and the folder of the model.
        computing: The device and precision.

    Raises:
        UserError: The model cannot be loaded, or is not masked.
    """
    return masked_scorer(spec, HuggingFaceNetwork(spec.path, True, computing))


def causal(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """Return a scorer of log p of each token given [BOS] and the tokens before.

    A causal model without a BOS token leaves a sentence's first token unscored. The end
    of a sentence is not scored: these models end texts, not sentences.

    Args:
        spec: The options, and the folder of the model.
        computing: The device, the precision and the prompt.

    Raises:
        UserError: The model cannot be loaded, or is not causal.
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
        about = f"{self._template.text}\0{super().fingerprint}"
        return hashlib.sha256(about.encode()).hexdigest()

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """Yield requests for sentences.

        If prompts and hypotheses together exceed a tree, a network that can keep its
        past reads prompts once.
        """
        paths = sorted(self.windows(sentences), key=lambda path: path.tokens)
        if not self.network.keeps_past:
            yield from self.read(paths, ())
            return
        for past, group in behind_pasts(paths, self.largest):
            yield from self.read(group, past)

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of questions, behind their prompts."""
        prompts = [self._template.before(question) for question in questions]
        texts = [question.text for question in questions]
        return list(map(self.in_order, self.network.encode_behind(prompts, texts)))


def behind_pasts(
    paths: Sequence[Window], largest: int
) -> Iterator[tuple[tuple[int, ...], list[Window]]]:
    """Yield pasts that are worth keeping, each with its paths without the past.

    A past is worth keeping if its tokens and all their continuations may exceed the
    largest tree. Other paths come last, with an empty past.

    Args:
        paths: Sorted paths.
        largest: Number of tokens of the largest tree.
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
    """Return the tokens before the first token that predicts."""
    return path.tokens[: path.scored.start - 1]


def _without_past(path: Window) -> Window:
    """Return a path from the first token that predicts on."""
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
        """Load the model.

        Args:
            folder: The folder of the model, or a GGUF file.
            masked: Whether the model is masked; otherwise it is causal.
            computing: The device, the precision, and tokens of a batch.

        Raises:
            UserError: The model cannot be loaded, or is of the other kind.
        """
        self._folder = folder
        self._is_causal = not masked
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
        self.before: list[int] = []
        self.after: list[int] = []
        self.mask: int = -1
        if masked:
            if tokenizer.mask_token_id is None:
                raise UserError(
                    f"{folder}: no mask token in its tokenizer, so it is no masked LM;"
                    " for a causal LM give hf-causal"
                )
            self.mask = tokenizer.mask_token_id
            self.before, self.after = _frame(tokenizer)
        elif tokenizer.bos_token_id is not None:
            self.before = [tokenizer.bos_token_id]
        self.pad: int = tokenizer.pad_token_id or 0
        self.vocabulary = max(len(tokenizer), self._config.vocab_size)
        self.unknown: int | None = tokenizer.unk_token_id
        # Byte-level vocabularies have no unknown token, but some give another token
        # that name.
        if tokenizer.unk_token == tokenizer.eos_token:
            self.unknown = None
        # Each position of a causal model has logits for the whole vocabulary at once.
        limit = max(64, min(2048, LOGITS // self._config.vocab_size))
        self.batch_tokens = computing.batch_tokens or limit

    def _quantise(self, masked: bool) -> None:
        """Quantise the model to int8, and log a warning if that changes it much.

        All numbers of an input vector share one scale: a few large values, as in many
        causal models, cost the other values their precision. So the change of
        log-probabilities is measured on a sentence.
        """
        targets = torch.tensor(self._tokenizer(PROBE)["input_ids"][: self.positions])

        def log_probs() -> Tensor:
            if masked:
                return self._masked_log_probs(targets)
            logits = self._model(input_ids=targets[None]).logits[0, :-1]
            return _at(logits, targets[1:])

        with torch.inference_mode():
            exact = log_probs()
            self._model = quantised(self._model)
            change = (log_probs() - exact).abs().mean().item()
        if change > INT8_LOSS:
            log.warning(
                "%s: int8 changes the log-probability of a token by %.2f nats on"
                " average, measured on a sentence; give --precision %s",
                self._folder,
                change,
                "float32" if cpu_multiplies_bfloat16() is False else "bf16",
            )

    def _masked_log_probs(self, tokens: Tensor) -> Tensor:
        """Return the log-probability of each token where it is masked, of shape
        (tokens, 1).
        """
        every = torch.arange(len(tokens))
        masked = tokens.repeat(len(tokens), 1)
        masked.fill_diagonal_(self._tokenizer.mask_token_id or 0)
        logits = self._model(input_ids=masked).logits
        return _at(logits[every, every], tokens)

    def _longest(self) -> int:
        """Return the number of tokens of the longest sequence, with special tokens."""
        limit = getattr(self._config, "max_position_embeddings", None) or 4096
        longest = min(int(limit), int(self._tokenizer.model_max_length))
        for name, module in self._model.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                # RoBERTa and its kin count positions from the padding index on.
                longest = min(longest, module.num_embeddings - padding - 1)
        return longest

    def _check_causal(self) -> None:
        """Raise an error if the last token of a text changes an earlier prediction."""
        vocabulary = self._config.vocab_size
        places = torch.arange(min(8, self.positions), device=self._device)
        tokens = (places + vocabulary // 2) % vocabulary
        changed = tokens.clone()
        changed[-1] = (tokens[-1] + vocabulary // 3 + 1) % vocabulary
        with torch.inference_mode():
            logits = self._model(input_ids=tokens[None]).logits[0, :-1].float()
            changed_logits = self._model(input_ids=changed[None]).logits[0, :-1].float()
        near = 1e-4 if self.precision == "float32" else 1e-2
        if not torch.allclose(logits, changed_logits, atol=near, rtol=near):
            raise UserError(
                f"{self._folder}: not a causal model: a later word changes what it"
                " predicts before; is it hf-masked?"
            )

    @cached_property
    def window(self) -> int | None:
        """The number of tokens that a token sees in some layers, itself included; None
        if each token sees all tokens before it.
        """
        if set(getattr(self._config, "layer_types", None) or ()) == {"full_attention"}:
            return None
        sizes = []
        for name in WINDOWS:
            size = getattr(self._config, name, None)
            if isinstance(size, int) and 0 < size < self.positions:
                sizes.append(size)
        return min(sizes, default=None)

    @property
    def deepest_tree(self) -> int:
        """Tokens of the longest sequence that a tree may hold.

        The mask of a tree lets a token see all tokens before it. Beyond its window, a
        model must see less: it reads long sequences plainly, with its own mask.
        """
        if not self.reads_trees:
            return 0
        return ANY_DEPTH if self.window is None else self.window

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
            whole = Batch(tokens, torch.tensor([6]), torch.arange(6), tree)
            logits = self._logits(whole)
            for leaf in (3, 5):
                path = visible[leaf].nonzero().squeeze(-1)
                length = len(path)
                chain = Batch(
                    tokens[:, path], torch.tensor([length]), torch.arange(length)
                )
                self._check_close(logits[path], self._logits(chain))

        return self._works(same_as_chains, "reads no trees")

    @cached_property
    def keeps_past(self) -> bool:
        """Whether the model continues keys and values of all tokens before: tried on
        three tokens behind three.
        """
        if self.window is not None:
            return False
        tokens = torch.arange(self._config.vocab_size)[None, -6:]
        depth = torch.arange(3)[None]
        visible = torch.ones(1, 3, 3, dtype=torch.bool).tril()
        whole = Batch(tokens, torch.tensor([6]), torch.arange(3, 6))
        behind = Batch(
            tokens[:, 3:],
            torch.tensor([3]),
            torch.arange(3),
            Tree(depth, visible),
            tuple(tokens[0, :3].tolist()),
        )

        def same_as_whole() -> None:
            expected = self._logits(whole)
            self._check_close(self._logits(behind), expected)

        return self.reads_trees and self._works(same_as_whole, "keeps no past")

    def _check_close(self, logits: Tensor, expected: Tensor) -> None:
        """Raise an AssertionError unless logits are almost equal."""
        # Wrong positions make a difference of the order of 1.
        near = 1e-3 if self.precision == "float32" else 0.1
        torch.testing.assert_close(logits, expected, atol=near, rtol=near)

    def _works(self, trial: Callable[[], None], otherwise: str) -> bool:
        """Return whether a trial raises none of `TRIAL_ERRORS`.

        Args:
            trial: The trial.
            otherwise: What an error means, for the log.
        """
        try:
            with torch.inference_mode():
                trial()
        except TRIAL_ERRORS as error:
            log.debug("%s: %s (%s)", self._folder, otherwise, error)
            return False
        return True

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of texts, and the words that they belong to."""
        if not questions:
            return []
        texts = [question.text for question in questions]
        with told(self._folder):
            encodings = self._tokenizer(texts, add_special_tokens=False, verbose=False)
        results = []
        for index, ids in enumerate(encodings["input_ids"]):
            results.append(Encoded(tuple(ids), tuple(_words(encodings, index))))
        return results

    def encode_behind(
        self, before: Sequence[str], texts: Sequence[str]
    ) -> list[Encoded]:
        """Return the tokens of texts, each cut together with the text before it.

        Tokens of the text before have the word `CONTEXT_TOKEN`. A blank before the text
        belongs to its first token, as in running text.

        Args:
            before: The text before each text.
            texts: The texts.
        """
        if not texts:
            return []
        whole = ["".join(parts) for parts in zip(before, texts, strict=True)]
        with told(self._folder):
            encodings = self._tokenizer(
                whole,
                add_special_tokens=False,
                return_offsets_mapping=True,
                verbose=False,
            )
        results = []
        for index, ids in enumerate(encodings["input_ids"]):
            begin = len(whole[index])
            if texts[index].strip():
                begin = len(before[index].rstrip(" "))
            words = _words(encodings, index)
            for place, (_, stop) in enumerate(encodings["offset_mapping"][index]):
                if stop <= begin:
                    words[place] = CONTEXT_TOKEN
            results.append(Encoded(tuple(ids), tuple(words)))
        return results

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as texts."""
        return list(map(str, self._tokenizer.convert_ids_to_tokens(list(ids))))

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        """Return natural logs of probabilities, of shape (targets,).

        Args:
            batch: The batch.
            rows: Places among the positions `batch.at`.
            targets: The token at each of these places.
        """
        rows = rows.to(self._device)
        targets = targets.to(self._device)
        with told(self._folder):
            logits = self._logits(batch)
            log_probs = logits[rows, targets] - logits.logsumexp(-1)[rows]
        check_numbers(log_probs, self._folder)
        return log_probs

    def best(self, batch: Batch) -> Tensor:
        """Return the most probable token at each of the positions `batch.at`, of shape
        (k,).
        """
        return self._logits(batch).argmax(-1)

    def _logits(self, batch: Batch) -> Tensor:
        """Return logits at the positions `batch.at`, of shape (k, vocabulary), in
        float32.

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
            inputs["attention_mask"] = mask[:, None]
            inputs["position_ids"] = batch.tree.depth + len(batch.past)
            if batch.past:
                past = self._past(batch.past, len(batch.tokens))
                inputs[cache_name(self._model)] = past
                inputs["use_cache"] = True
        else:
            columns = torch.arange(batch.tokens.shape[1], device=self._device)
            inputs["attention_mask"] = (columns < batch.lengths[:, None]).long()
        logits = self._logits_at(batch.at, inputs)
        assert logits.shape[0] == len(batch.at)
        return logits.float()

    def _logits_at(self, at: Tensor, inputs: dict[str, Any]) -> Tensor:
        """Return logits at some positions of the flattened batch."""
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
        """Return the keys and values of tokens, once for each row."""
        if self._kept[0] != tokens:
            self._keep(tokens)
        cache = copy.deepcopy(self._kept[1])
        cache.batch_repeat_interleave(rows)
        return cache

    def _keep(self, tokens: tuple[int, ...]) -> None:
        """Keep the keys and values of tokens.

        The tokens that the last past began with are not read again.
        """
        from transformers import DynamicCache

        known, cache = self._kept
        self._kept = ((), None)
        common = _common(known, tokens)
        if common == 0:
            cache = DynamicCache()
        elif common < len(known):
            cache.crop(common - len(known))
        rest = tokens[common:]
        if rest:
            inputs = {
                "input_ids": torch.tensor([rest], device=self._device),
                "attention_mask": torch.ones(
                    1, len(tokens), dtype=torch.long, device=self._device
                ),
                cache_name(self._model): cache,
                "use_cache": True,
            }
            last = torch.tensor([len(rest) - 1], device=self._device)
            self._logits_at(last, inputs)
        self._kept = (tokens, cache)

    @property
    def layers(self) -> int:
        return int(self._config.num_hidden_layers)

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        """Return the embeddings of tokens, of shape (texts, longest, d).

        Args:
            tokens: Tokens of shape (texts, longest).
            lengths: Number of tokens of each text, of shape (texts,).
            positions: Whether position embeddings are added.
        """
        if positions:
            return self.vectors(tokens, lengths, 0)
        embed = self._model.get_input_embeddings()
        return cast(Tensor, embed(tokens.to(self._device)).float())

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        """Return the vectors of tokens in a layer, of shape (texts, longest, d).

        Args:
            tokens: Tokens of shape (texts, longest).
            lengths: Number of tokens of each text, of shape (texts,).
            layer: The layer; 0 for the embeddings.
        """
        tokens = tokens.to(self._device)
        columns = torch.arange(tokens.shape[1], device=self._device)
        mask = columns < lengths.to(self._device)[:, None]
        output = self._model(
            input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True
        )
        return cast(Tensor, output.hidden_states[layer].float())

    def digest(self) -> bytes:
        """Return a digest of the model's folder and its precision."""
        settings = b"" if self.precision == "float32" else self.precision.encode()
        if self._is_causal and self.window is not None:
            settings += b" windows"  # scores of older versions saw beyond the window
        return content_digest(self._folder, settings)


def _at(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log-probability of a target in each row, of shape (rows, 1)."""
    return logits.log_softmax(-1).gather(-1, targets[:, None])


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens with which both sequences begin."""
    common = 0
    for ours, theirs in zip(first, second, strict=False):
        if ours != theirs:
            break
        common += 1
    return common


def _words(encodings: Any, index: int) -> list[int]:
    """Return the number of the word that each token of a text belongs to; -1 for a
    token of no word.
    """
    return [-1 if word is None else word for word in encodings.word_ids(index)]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that a tokenizer puts before and after a sentence."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    ids = probe["input_ids"]
    special = probe["special_tokens_mask"]
    begin = special.index(0)
    end = len(special) - special[::-1].index(0)
    return ids[:begin], ids[end:]
