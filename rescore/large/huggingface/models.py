"""Masked and causal models of Hugging Face's transformers, and where their weights lie.

Weights lie on one device, or are spread over all devices and the disk (accelerate). They have 4 or 8 bits if the
folder's configuration says so (bitsandbytes).
"""

from __future__ import annotations

import copy
import hashlib
import logging
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.files import read_json
from rescore.lms.base import ComputeOptions, Question, Spec, Template
from rescore.lms.causal import CausalScorer
from rescore.lms.devices import AUTO, DTYPES, choose_device, choose_precision, quantised
from rescore.lms.folders import check_files, content_digest, load_model
from rescore.lms.networks import Batch, Tree
from rescore.lms.scorers import CONTEXT_TOKEN, Encoded, NetworkScorer, masked_scorer

log = logging.getLogger(__name__)

LOGITS = 2**25
"""The most logits of one batch: 128 MiB in float32."""
LIMIT = re.compile(r"(cpu|\d{1,3})=(\d{1,6}[KMGT]i?B)", re.ASCII)
"""Memory that a device may use for weights, such as `0=20GiB`."""


class Placement:
    """Where and how a model computes, decided before it is loaded."""

    def __init__(self, folder: Path, computing: ComputeOptions) -> None:
        """
        Raises:
            UserError: the device is absent or lacks the precision, or a package is missing.
        """
        self.device = choose_device(computing.device)
        """Where inputs go, and outputs come from."""
        self.precision = choose_precision(computing.precision, self.device)
        self.dtype: torch.dtype = DTYPES[self.precision]
        self.loading: dict[str, Any] = {}
        """Arguments of `from_pretrained`; empty if the model is moved after it is loaded."""
        device = computing.device or ""
        spread = device.partition(":")[0] == AUTO
        bits = _bits(folder)
        if (spread or bits) and self.precision == "int8":
            raise UserError(f"--precision int8 is not for {'--device auto' if spread else f'a model in {bits}'}")
        if spread:
            _need("accelerate", f"--device {device}")
            self._disk = tempfile.TemporaryDirectory(prefix="rescore-")
            limits = memory_limits(device)
            self.loading = {"device_map": "auto", "max_memory": limits, "offload_folder": self._disk.name}
        elif bits:
            self.loading = {"device_map": {"": self.device}}
        if bits:
            _need("accelerate", f"{folder}: a model in {bits}")
            _need("bitsandbytes", f"{folder}: a model in {bits}")
            self.precision = bits
        if self.loading:
            self.loading["torch_dtype"] = self.dtype

    def settle(self, model: Any) -> None:
        """Move a model that was loaded with `loading`."""
        if not self.loading:
            model.to(self.device, self.dtype)


def memory_limits(device: str) -> dict[int | str, str] | None:
    """The memory limit of each device from `auto:0=20GiB,cpu=64GiB`; None for `auto`, which has no limits.

    Raises:
        UserError: a limit cannot be read.
    """
    _, separator, limits = device.partition(":")
    if not separator:
        return None
    memory: dict[int | str, str] = {}
    for limit in limits.split(","):
        match = LIMIT.fullmatch(limit)
        if not match:
            raise UserError(f"--device {device}: {limit!r} is no limit; expected such as auto:0=20GiB,cpu=64GiB")
        memory[match[1] if match[1] == "cpu" else int(match[1])] = match[2]
    return memory


def _bits(folder: Path) -> str | None:
    """4bit or 8bit, if config.json says that the weights are stored so by bitsandbytes."""
    config = read_json(folder / "config.json")
    stored = config.get("quantization_config") if isinstance(config, dict) else None
    if not isinstance(stored, dict):
        return None
    return next((f"{bits}bit" for bits in (4, 8) if stored.get(f"load_in_{bits}bit")), None)


def _need(package: str, what: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"{what} needs {package}; install it with: pip install 'rescore[large]'")
    logging.getLogger(package).setLevel(logging.ERROR)


class BehindScorer(CausalScorer):
    """log p of the hypothesis' tokens given a text before it, which is read once for all hypotheses that have it."""

    def __init__(
        self, name: str, network: HuggingFaceNetwork, before: Callable[[Question], str], mark: str, **changed: Any
    ) -> None:
        """
        Args:
            before: the text that is read before the hypothesis of a question. mark: what sets its fingerprint apart.
            changed: capabilities, by name.
        """
        super().__init__(name, network)
        self._tokenizing, self._before, self._mark = network, before, mark
        self.capabilities = replace(self.capabilities, **changed)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._mark}{super().fingerprint}".encode()).hexdigest()

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        before, texts = map(self._before, questions), [question.text for question in questions]
        return [self.in_order(encoded) for encoded in self._tokenizing.encode_between(list(before), texts)]


def causal(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """log p of each token given [BOS] and those before.

    A causal model without a BOS token leaves a sentence's first token unscored. The end of a sentence is not scored:
    these models end texts, not sentences.

    Raises:
        UserError: the folder is no such model, or has its weights in pickled files only.
    """
    network = HuggingFaceNetwork(spec.path, False, computing)
    if spec.context:
        if computing.prompt is not None:
            raise UserError("--prompt and --context exclude each other")
        number = spec.context

        def neighbours(question: Question) -> str:
            return "".join(f"{neighbour}\n" for neighbour in question.before[-number:])

        return BehindScorer(spec.name, network, neighbours, f"context {number} ", context=(number, 0), vectors=False)
    if computing.prompt is not None:
        template = Template(computing.prompt)
        changed = {"source": True, "vectors": False} if template.reads_source else {}
        return BehindScorer(spec.name, network, template.before, f"{template.text}\0", **changed)
    return CausalScorer(spec.name, network)


def masked(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """The pseudo-log-likelihood.

    Raises:
        UserError: the folder is no such model, or has its weights in pickled files only.
    """
    scorer = masked_scorer(spec, HuggingFaceNetwork(spec.path, True, computing, spec.context))
    if spec.context:
        context = (spec.context, spec.context)
        scorer.capabilities = replace(scorer.capabilities, context=context, vectors=False)
    return scorer


class HuggingFaceNetwork:
    """A model folder in Hugging Face's layout as a `Network`. Weights are safetensors; nothing in it is executed."""

    _kept: tuple[tuple[int, ...], Any] = ((), None)
    """The tokens of the last past, and their keys and values."""

    def __init__(self, folder: Path, masked: bool, computing: ComputeOptions, neighbours: int = 0) -> None:
        """
        Args:
            neighbours: number of sentences on each side that are read with a text, as running text.
        """
        self._folder, self._neighbours = folder, neighbours
        check_files(folder)
        self._placement = Placement(folder, computing)
        self._device, self.precision = self._placement.device, self._placement.precision
        kind = "masked" if masked else "causal"
        self._model, self._tokenizer = load_model(
            folder, f"AutoModelFor{kind.capitalize()}LM", f"a {kind} language model", self._placement.loading
        )
        self._placement.settle(self._model)
        if not self._tokenizer.is_fast:
            raise UserError(f"{folder}: no tokenizer.json, and none could be made; save it from a fast tokenizer")
        self.positions = _positions(self._model, self._tokenizer)
        if self.positions < 1:
            raise UserError(f"{folder}: config.json allows {counted(self.positions, 'token')}, too few for a text")
        if not masked:
            self._check_causal()
        if self.precision == "int8":
            self._model = quantised(self._model)
        tokenizer = self._tokenizer
        self.end: list[int] = []
        if masked:
            if tokenizer.mask_token_id is None:
                raise UserError(
                    f"{folder}: no mask token in its tokenizer, so it is no masked LM; for a causal LM give hf-causal"
                )
            self.mask: int = tokenizer.mask_token_id
            self.before, self.after = _frame(tokenizer)
        else:
            self.mask = -1
            self.before, self.after = ([] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]), []
        self.pad: int = tokenizer.pad_token_id or 0
        self.vocabulary = max(len(tokenizer), self._model.config.get_text_config().vocab_size)
        # Byte-level vocabularies have no unknown token, but some name another one so.
        self.unknown: int | None = None if tokenizer.unk_token == tokenizer.eos_token else tokenizer.unk_token_id
        # Each position of a causal model has logits for the whole vocabulary at once.
        limit = max(64, min(2048, LOGITS // self._model.config.get_text_config().vocab_size))
        self.batch_tokens = computing.batch_tokens or limit

    def _check_causal(self) -> None:
        """See that the last token of a text changes no earlier prediction."""
        vocabulary = self._model.config.get_text_config().vocab_size
        tokens = (torch.arange(min(8, self.positions), device=self._device) + vocabulary // 2) % vocabulary
        changed = tokens.clone()
        changed[-1] = (tokens[-1] + vocabulary // 3 + 1) % vocabulary
        with torch.inference_mode():
            logits, changed_logits = (
                self._model(input_ids=ids[None]).logits[0, :-1].float() for ids in (tokens, changed)
            )
        if self.precision == "8bit":  # outliers change the rounding of other tokens in a batch
            alike = bool((logits - changed_logits).abs().mean() < 0.05 * logits.std())
        else:
            near = 1e-4 if self.precision == "float32" else 1e-2
            alike = torch.allclose(logits, changed_logits, atol=near, rtol=near)
        if not alike:
            raise UserError(
                f"{self._folder}: not a causal model: a later word changes what it predicts before; is it hf-masked?"
            )

    @cached_property
    def reads_trees(self) -> bool:
        """Whether the model takes positions and a mask of who sees whom: tried on a tree of six tokens."""
        tokens = torch.arange(self._model.config.get_text_config().vocab_size)[None, -6:]
        nodes = torch.arange(6)
        parents = [0, 0, 1, 2, 1, 4]
        visible = torch.eye(6, dtype=torch.bool)
        for node in range(1, 6):
            visible[node] |= visible[parents[node]]
        depth = visible.sum(-1) - 1
        near = 1e-3 if self.precision == "float32" else 0.1  # wrong positions make a difference of the order of 1
        try:
            with torch.inference_mode():
                logits = self._logits(Batch(tokens, torch.tensor([6]), nodes, Tree(depth[None], visible[None])))
                for leaf in (3, 5):
                    path = visible[leaf].nonzero().squeeze(-1)
                    chain = Batch(tokens[:, path], torch.tensor([len(path)]), torch.arange(len(path)))
                    torch.testing.assert_close(logits[path], self._logits(chain), atol=near, rtol=near)
        except (AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
            log.debug("%s: reads no trees (%s)", self._folder, error)
            return False
        return True

    @cached_property
    def keeps_past(self) -> bool:
        """Whether the model continues keys and values of all tokens before: tried on three tokens behind three."""
        config = self._model.config.get_text_config()
        if any(getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")):
            return False  # beyond its window, such a model is to see less than all
        if not self.reads_trees:
            return False
        tokens = torch.arange(config.vocab_size)[-6:]
        chain = Tree(torch.arange(3)[None], torch.ones(1, 3, 3, dtype=torch.bool).tril())
        near = 1e-3 if self.precision == "float32" else 0.1
        try:
            with torch.inference_mode():
                whole = self._logits(Batch(tokens[None], torch.tensor([6]), torch.arange(3, 6)))
                past = tuple(tokens[:3].tolist())
                behind = self._logits(Batch(tokens[None, 3:], torch.tensor([3]), torch.arange(3), chain, past))
                torch.testing.assert_close(behind, whole, atol=near, rtol=near)
        except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            log.debug("%s: keeps no past (%s)", self._folder, error)
            return False
        return True

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        if not questions:
            return []
        texts, number = [question.text for question in questions], self._neighbours
        if not number:
            return self._encode_alone(texts)
        before = ["".join(f"{line} " for line in question.before[-number:]) for question in questions]
        after = ["".join(f" {line}" for line in question.after[:number]) for question in questions]
        room = self.positions - len(self.before) - len(self.after)
        near = [_nearest(encoded, room) for encoded in self.encode_between(before, texts, after)]
        alone = iter(self._encode_alone([text for text, kept in zip(texts, near, strict=True) if not kept]))
        return [kept or next(alone) for kept in near]

    def _encode_alone(self, texts: Sequence[str]) -> list[Encoded]:
        if not texts:
            return []
        encodings = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [
            Encoded(tuple(ids), tuple(-1 if word is None else word for word in encodings.word_ids(index)))
            for index, ids in enumerate(encodings["input_ids"])
        ]

    def encode_between(
        self, before: Sequence[str], texts: Sequence[str], after: Sequence[str] | None = None
    ) -> list[Encoded]:
        """Texts cut together with the texts around them, whose tokens have the word `CONTEXT_TOKEN`, as the tokenizer
        does in running text: a blank before the text belongs to its first token."""
        if not texts:
            return []
        after = after or [""] * len(texts)
        whole = ["".join(parts) for parts in zip(before, texts, after, strict=True)]
        encodings = self._tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        begins = [len(prefix.rstrip(" ")) for prefix in before]
        ends = [
            len(prefix) + len(text) if text.strip() else begin
            for prefix, text, begin in zip(before, texts, begins, strict=True)
        ]
        return [
            Encoded(
                tuple(ids),
                tuple(
                    CONTEXT_TOKEN if stop <= begins[index] or start >= ends[index] else -1 if word is None else word
                    for (start, stop), word in zip(
                        encodings["offset_mapping"][index], encodings.word_ids(index), strict=True
                    )
                ),
            )
            for index, ids in enumerate(encodings["input_ids"])
        ]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return [str(token) for token in self._tokenizer.convert_ids_to_tokens(list(ids))]

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        logits = self._logits(batch)
        rows, targets = rows.to(self._device), targets.to(self._device)
        return logits[rows, targets] - logits.logsumexp(-1)[rows]

    def most_probable(self, batch: Batch, rows: Tensor) -> Tensor:
        return self._logits(batch).argmax(-1)[rows.to(self._device)]

    def _logits(self, batch: Batch) -> Tensor:
        """(k, vocabulary) logits at the positions that are asked for, in float32.

        The vocabulary's matrix is by far the largest; if it is a module of the model, it is applied to these positions
        only. The model applies its own changes to the logits afterwards.
        """
        batch = batch.to(self._device)
        inputs: dict[str, Any] = {"input_ids": batch.tokens}
        if batch.tree:
            dtype = self._placement.dtype
            mask = torch.zeros(batch.tree.visible.shape, dtype=dtype, device=self._device)
            mask.masked_fill_(~batch.tree.visible, torch.finfo(dtype).min)
            mask = torch.nn.functional.pad(mask, (len(batch.past), 0))
            inputs |= {"attention_mask": mask[:, None], "position_ids": batch.tree.depth + len(batch.past)}
            if batch.past:
                inputs |= {"past_key_values": self._past(batch.past, len(batch.tokens)), "use_cache": True}
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
        hook = head.register_forward_pre_hook(lambda module, arguments: (arguments[0].flatten(0, 1)[at],))
        try:
            return cast(Tensor, self._model(**inputs).logits)
        finally:
            hook.remove()

    def _past(self, tokens: tuple[int, ...], rows: int) -> Any:
        """The keys and values of tokens, once for each row. The tokens that the last past began with are not read
        again."""
        from transformers import DynamicCache

        known, cache = self._kept
        if known != tokens:
            self._kept = (), None
            equal = (known_token == token for known_token, token in zip(known, tokens, strict=False))
            common = sum(1 for _ in takewhile(bool, equal))
            cache = cache if common else DynamicCache()
            if 0 < common < len(known):
                cache.crop(common - len(known))
            if rest := tokens[common:]:
                ids = torch.tensor([rest], device=self._device)
                seen = torch.ones(1, len(tokens), dtype=torch.long, device=self._device)
                inputs = {"input_ids": ids, "attention_mask": seen, "past_key_values": cache, "use_cache": True}
                self._logits_at(torch.tensor([len(rest) - 1], device=self._device), inputs)
            self._kept = tokens, cache
        cache = copy.deepcopy(cache)
        cache.batch_repeat_interleave(rows)
        return cache

    @property
    def layers(self) -> int:
        return int(self._model.config.get_text_config().num_hidden_layers)

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        if positions:
            return self.vectors(tokens, lengths, 0)
        return cast(Tensor, self._model.get_input_embeddings()(tokens.to(self._device)).float())

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        tokens = tokens.to(self._device)
        mask = torch.arange(tokens.shape[1], device=self._device) < lengths.to(self._device)[:, None]
        output = self._model(input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True)
        return cast(Tensor, output.hidden_states[layer].float())

    def trainable(self) -> None:
        """These are not trained here."""

    def digest(self) -> bytes:
        return content_digest(self._folder, b"" if self.precision == "float32" else self.precision.encode())


def _nearest(sentence: Encoded, room: int) -> Encoded | None:
    """The text and the nearest tokens on both sides, at most `room` tokens; None if the text leaves no room for
    neighbours."""
    own = sentence.scored
    left, right = own.start, len(sentence.ids) - own.stop
    beside = room - (own.stop - own.start)
    if left + right <= beside:
        return sentence
    if beside <= 0:
        return None
    before = min(left, max(beside // 2, beside - right))
    kept = slice(own.start - before, own.stop + min(right, beside - before))
    return Encoded(sentence.ids[kept], sentence.words[kept])


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a sentence."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    ids, special = probe["input_ids"], probe["special_tokens_mask"]
    inner = special.index(0)
    return ids[:inner], ids[len(special) - special[::-1].index(0) :]


def _positions(model: Any, tokenizer: Any) -> int:
    """The longest sequence, special tokens included."""
    config = model.config.get_text_config()
    longest = min(int(getattr(config, "max_position_embeddings", None) or 4096), int(tokenizer.model_max_length))
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            # RoBERTa and its kin count positions from the padding index on.
            longest = min(longest, module.num_embeddings - module.padding_idx - 1)
    return longest
