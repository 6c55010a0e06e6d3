"""Language models behind a server that answers in OpenAI's form: vLLM, SGLang, llama-cpp-python.

The server gives the natural-log probability of each token of a text, given those before it. Servers know different
ways to ask for that; the first request finds out which one this server knows. `_ask` is the border: an answer is parsed
as its type, and its tokens must spell the text that was sent; nothing behind it checks an answer again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from rescore.errors import UserError, counted
from rescore.files import parsed
from rescore.large.client import Client, RefusedError, api_key
from rescore.large.template import Template
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    Question,
    Spec,
    Streamed,
    TokenScores,
)
from rescore.parts import did_you_mean

log = logging.getLogger(__name__)

PARALLEL = 16
"""Requests under way at a time."""
TIMEOUT = 60
"""Seconds that an answer may take."""
PROBE = Question("The old clock on the wall ticked while nobody was in the", "Die alte Uhr tickte an der Wand.")
"""The first request to a server: an incomplete sentence, so that the model continues it."""
SLACK = 1e-3
"""A log-probability may exceed 0 by this much, due to rounding."""


class NonsenseError(UserError):
    """An answer without the requested values."""


class Token(NamedTuple):
    """A token that the server read."""

    key: Hashable
    """Equal for equal tokens of two answers."""
    text: str
    log_prob: float | None
    """None for the very first token, which has no context."""


OMITTED = Token("omitted", "", None)
"""Stands for a [BOS] that llama-cpp-python counts but does not list; the next token has no log-probability."""


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0


class _Listed(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]


class _Choice(msgspec.Struct):
    logprobs: _Listed


class Echo(msgspec.Struct):
    """An answer of OpenAI's completions API: the tokens that were read, then the new ones."""

    about: ClassVar[str] = "echo with logprobs"
    path: ClassVar[str] = "/v1/completions"
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Usage

    @staticmethod
    def request(model: str, text: str) -> dict[str, Any]:
        # One token is generated: for some servers 0 means as many as fit.
        return {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}

    def listed(self) -> list[Token]:
        """All tokens of the answer, new ones included."""
        listed = self.choices[0].logprobs
        if len(listed.tokens) != len(listed.token_logprobs):
            raise ValueError(
                f"{counted(len(listed.tokens), 'token')} with {counted(len(listed.token_logprobs), 'log-probability')}"
            )
        return [Token(name, name, value) for name, value in zip(listed.tokens, listed.token_logprobs, strict=True)]

    def read(self) -> list[Token]:
        """The tokens that the server read."""
        tokens, usage = self.listed(), self.usage
        if len(tokens) != usage.prompt_tokens + usage.completion_tokens:
            raise _miscounted(tokens, usage.prompt_tokens, usage.completion_tokens)
        return tokens[: usage.prompt_tokens]


class EchoBehindFirst(Echo):
    """An answer of llama-cpp-python: it counts a [BOS] that it does not list, and lists some of the new tokens."""

    about = "echo with logprobs, less [BOS]"

    def read(self) -> list[Token]:
        """The tokens that the server read."""
        tokens, read, new = self.listed(), self.usage.prompt_tokens - 1, self.usage.completion_tokens
        if not read <= len(tokens) <= read + new:
            raise _miscounted(tokens, read, new)
        return [OMITTED, *tokens[:read]]


class _Meta(msgspec.Struct):
    input_token_logprobs: list[tuple[float | None, int, str | None]]
    prompt_tokens: int


class Generated(msgspec.Struct):
    """An answer of SGLang."""

    about: ClassVar[str] = "SGLang's /generate"
    path: ClassVar[str] = "/generate"
    meta_info: _Meta

    @staticmethod
    def request(model: str, text: str) -> dict[str, Any]:
        return {
            "text": text,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": 0,
            "return_text_in_logprobs": True,
        }

    def read(self) -> list[Token]:
        """The tokens that the server read."""
        listed, read = self.meta_info.input_token_logprobs, self.meta_info.prompt_tokens
        if len(listed) != read:
            raise ValueError(f"{counted(len(listed), 'token')} for {read} read")
        return [Token(number, str(number) if text is None else text, value) for value, number, text in listed]


def _miscounted(tokens: Sequence[Token], read: int, new: int) -> ValueError:
    return ValueError(f"{counted(len(tokens), 'token')} for {read} read and {new} new")


Way = type[Echo] | type[Generated]
"""A way to ask for the log-probabilities of a text: what is asked, and what a server answers that knows the way."""
WAYS: tuple[Way, ...] = (Echo, EchoBehindFirst, Generated)


class ServerKind(Kind):
    """log p of each token given those before, by requests to a server."""

    capabilities = Capabilities(source=True)
    options = ("parallel=", "timeout=")
    remote = prompted = True

    def load(self, spec: Spec, computing: ComputeOptions) -> ServerModel:
        """`server:URL#MODEL`; without #MODEL, the server's only model."""
        template = None if computing.prompt is None else Template(computing.prompt)
        url, _, model = spec.address.partition("#")
        parallel, timeout = spec.number("parallel", PARALLEL), spec.number("timeout", TIMEOUT, most=9999)
        name = ":".join(
            [spec.kind, *(option for option in spec.options if not option.startswith(("parallel=", "timeout=")))]
        )
        return ServerModel(name, Client(url, api_key(), timeout, parallel), model, template)


class ServerModel(Streamed):
    """log p of a text's tokens, by requests to a server.

    The server also reads the prompt alone, without final blanks; the further tokens of prompt and text belong to the
    text. So a token across the border belongs to the text, as with `hf-causal`. Character offsets are no help: some
    servers count special tokens in them, others omit them.
    """

    precision = "unknown"

    def __init__(self, name: str, client: Client, model: str, template: Template | None) -> None:
        """
        Args:
            model: its name on the server; empty for the only one there.
        """
        self.name = self._name = name
        self.capabilities = Capabilities(source=template is not None and template.reads_source)
        self._client, self._template = client, template
        self._model, revision = served_model(client, model)
        self._way, probe = self._find_way()
        log.info("%s: scores with %s, through %s", client.url, client.masked(self._model), self._way.about)
        identity = [name, self._model, revision, template and template.text, probe.tokens]
        self.fingerprint = f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()}~{probe.sum:.2f}"

    @property
    def model(self) -> str:
        return self._name

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their scores, as the server answers."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, question in enumerate(questions):
            before = self._template.before(question) if self._template else ""
            places.setdefault((before, question.text), []).append(place)
        shown = list(dict.fromkeys(before for before, text in places if text.strip()))
        prompts = {shown[rank]: tokens for rank, tokens in self._client.in_parallel(shown, self._read_prompt)}
        texts = list(places)
        for rank, scores in self._client.in_parallel(texts, lambda pair: self._scores(*pair, prompts.get(pair[0], []))):
            yield from ((place, scores) for place in places[texts[rank]])

    def _read_prompt(self, before: str) -> list[Token]:
        """The tokens of the prompt before a text."""
        before = before.rstrip(" ")
        return self._ask(self._way, before, before) if before else []

    def _scores(self, before: str, text: str, prompt: Sequence[Token]) -> TokenScores:
        if not text.strip():
            return TokenScores([], np.zeros(0))
        return _behind(prompt, self._ask(self._way, before + text, text))

    def _ask(self, way: Way, prompt: str, shown: str, trying: bool = False) -> list[Token]:
        """The server's tokens of a prompt.

        Args:
            shown: named in errors. trying: the server may not know this way.
        """
        shown = shown[:60]
        try:
            answer = self._client.post(way.path, way.request(self._model, prompt), trying)
        except RefusedError as error:
            raise RefusedError(f"{error}, for {shown!r}") from None
        try:
            tokens = parsed(answer, way, way.about).read()
            _check(tokens)
            _check_text(tokens, prompt.strip())
        except (UserError, ValueError) as error:
            reason = self._client.masked(str(error))[:200]
            raise NonsenseError(
                f"{self._client.url}: the answer to {shown!r} is not what {way.about} gives ({reason})"
            ) from None
        return tokens

    def _find_way(self) -> tuple[Way, TokenScores]:
        """The first kind of request that this server supports, and the score of the probe."""
        before = self._template.before(PROBE) if self._template else ""
        failed = []
        for way in WAYS:
            self._way = way
            try:
                tokens = self._ask(way, before + PROBE.text, PROBE.text, trying=True)
                self._warn_of_first(tokens)
                return way, _behind(self._read_prompt(before), tokens)
            except (RefusedError, NonsenseError) as error:
                failed.append(f"{way.about}: {str(error).removeprefix(f'{self._client.url}: ')}")
        raise UserError(
            f"{self._client.url}: gives no log-probabilities of given text ({'; '.join(failed)}); "
            "servers that do are vLLM, SGLang and llama-cpp-python's"
        )

    def _warn_of_first(self, tokens: Sequence[Token]) -> None:
        """Say that the first token of the probe has no score."""
        rest = _letters("".join(token.text for token in tokens[1:]))
        if tokens[0] is OMITTED or (tokens[0].log_prob is None and not rest.endswith(_letters(PROBE.text))):
            log.warning(
                "%s: gives no score for the first token of a text; give --prompt, such as '\\n{text}'",
                self._client.url,
            )


def _letters(text: str) -> str:
    """The ASCII letters and digits of a text: tokens of other characters may be cut within a character."""
    return re.sub(r"<0x[0-9A-F]{2}>|[^A-Za-z0-9]", "", text)


def _check_text(tokens: Sequence[Token], text: str) -> None:
    """See that the tokens spell the text that was sent, behind special tokens; the server may omit the first token."""
    spelled, wanted = _letters("".join(token.text for token in tokens)), _letters(text)
    if "<unk>" in "".join(token.text for token in tokens) or spelled.endswith(wanted):
        return
    first_is_hidden = bool(tokens) and not tokens[0].text.strip()
    missing = wanted.removesuffix(spelled)
    if not (first_is_hidden and wanted.endswith(spelled) and _letters(text.split()[0]).startswith(missing)):
        raise ValueError(f"its tokens spell {spelled[-60:]!r}, not {wanted[-60:]!r}")


def _behind(prompt: Sequence[Token], tokens: Sequence[Token]) -> TokenScores:
    """The scores of a text's own tokens, selected from all tokens that the server read."""
    border = 0
    while border < min(len(prompt), len(tokens)) and prompt[border].key == tokens[border].key:
        border += 1
    own = [token for token in tokens[border:] if token.log_prob is not None]
    return TokenScores([token.text for token in own], np.array([token.log_prob for token in own], dtype=np.float64))


def _check(tokens: Sequence[Token]) -> None:
    """See that each value is a log-probability."""
    for rank, token in enumerate(tokens):
        value = token.log_prob
        if value is None and (rank == 0 or tokens[rank - 1] is OMITTED):
            continue
        if value is None or not -math.inf < value <= SLACK:
            raise ValueError(f"the log-probability of token {rank + 1} is {value}")


def served_model(client: Client, model: str) -> tuple[str, str | None]:
    """The model's name, and its revision if the server gives it."""
    try:
        listed = client.get("/v1/models").get("data")
    except RefusedError:
        listed = None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [str(entry.get("id")) for entry in entries]
    if not model and len(names) == 1:
        model = names[0]
    if not model:
        served = client.masked(f"; it serves {', '.join(names)}" if names else "")[:200]
        raise UserError(f"{client.url}: give the model as server:{client.url}#MODEL{served}")
    if names and model not in names:
        guess = did_you_mean(model, names)
        served = client.masked(", ".join(names))[:200]
        raise UserError(f"{client.url}: serves no {model}, but {served}{client.masked(guess)}")
    revision = next((entry.get("revision") for entry in entries if str(entry.get("id")) == model), None)
    return model, None if revision is None else str(revision)
