"""Language models behind a server that answers OpenAI's completions API: vLLM, SGLang,
llama-cpp-python.

An answer to `echo` with `logprobs` lists the natural-log probability of each token of a
text, given those before it. The borders are `Client`, whose answers are JSON objects or
errors without the key, and `ServerModel._ask`: an answer is parsed as its type, and its
tokens must spell the text that was sent. Nothing behind them checks an answer again.
urllib3 repeats requests and waits between them (`Retry`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, MaxRetryError
from urllib3.util import Retry, Url, parse_url

from rescore.errors import UserError, counted
from rescore.files import parsed
from rescore.large.hub import Template
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    Question,
    Spec,
    Streamed,
    TokenScores,
    places_of,
)

log = logging.getLogger(__name__)
# it warns of each request that it repeats
logging.getLogger("urllib3").setLevel(logging.ERROR)

Item = TypeVar("Item")
Result = TypeVar("Result")

KEYS = ("RESCORE_API_KEY", "OPENAI_API_KEY")
"""The environment variables that a key is taken from; the first that is there."""
PARALLEL = 16
"""Requests under way at a time."""
TIMEOUT = 120.0
"""Seconds without any byte of an answer."""
ATTEMPTS = 7
"""How often a request is sent to a server that is busy."""
BROKEN = 2
"""How often a request is repeated after a connection that broke, or a late answer: more
would only add to the load.
"""
BACKOFF, LONGEST_BACKOFF = 0.5, 30.0
"""Seconds between attempts: each time twice as many."""
BUSY = {429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""
HOW_TO_RESUME = "run the same command again: with --cache, what was scored is kept"
PROBE = Question(
    "The old clock on the wall ticked while nobody was in the",
    "Die alte Uhr tickte an der Wand.",
)
"""The first text that a server scores: its end has letters, so that tokens that are
missing there are noticed.
"""
SLACK = 1e-3
"""A log-probability may exceed 0 by this much, due to rounding."""


def api_key() -> str | None:
    """The key in the environment."""
    name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
    if name is None:
        return None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UserError(
            f"{name}: contains characters that keys cannot have, such as blanks; set it"
            " again"
        )
    return key


def parsed_address(url: str) -> Url:
    """The parts of a server's address."""
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = Url()
    if parts.auth is not None or parts.query is not None:
        raise UserError(
            "--lm server: the address must have no user, password or ?; set the key in"
            f" {KEYS[0]}"
        )
    if parts.scheme not in ("http", "https") or not parts.host:
        raise UserError(
            f"--lm server: {url!r} is no address; give server:URL#MODEL, such as"
            " http://HOST:8000#MODEL"
        )
    return parts


class Client:
    """A server's address, and this process' connections to it. urllib3 repeats
    requests.
    """

    def __init__(self, url: str, key: str | None, parallel: int = PARALLEL) -> None:
        """
        Args:
            url: with or without /v1 at its end. parallel: requests under way at a time,
                in `in_parallel`.
        """
        parts = parsed_address(url)
        path = (parts.path or "").rstrip("/").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{path}"
        self._key, self._parallel = key, parallel
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._pool = urllib3.PoolManager(
            maxsize=parallel, timeout=TIMEOUT, headers=headers
        )
        if (
            key
            and parts.scheme != "https"
            and parts.host not in ("localhost", "127.0.0.1", "[::1]")
        ):
            log.warning(
                "%s: the key is sent unencrypted; use https or a tunnel", self.url
            )

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request; returns the answer, a JSON object."""
        retries = Retry(
            ATTEMPTS - 1,
            connect=BROKEN,
            read=BROKEN,
            allowed_methods=None,
            status_forcelist=BUSY,
            raise_on_status=False,
            backoff_factor=BACKOFF,
            backoff_max=LONGEST_BACKOFF,
        )
        sent = None if body is None else json.dumps(body)
        headers = {**self._pool.headers, "Content-Type": "application/json"}
        try:
            response = self._pool.request(
                method,
                self.url + path,
                body=sent,
                headers=headers,
                retries=retries,
                redirect=False,
            )
        except HTTPError as error:
            reason = error.reason if isinstance(error, MaxRetryError) else error
            raise UserError(
                f"{self.url}: no answer ({self.shown(reason)}); is the server running"
                f" at this address? Then {HOW_TO_RESUME}"
            ) from None
        if response.status != 200:
            advice = (
                f"; set the key in {KEYS[0]}" if response.status in (401, 403) else ""
            )
            advice = (
                f", {ATTEMPTS} times; {HOW_TO_RESUME}"
                if response.status in BUSY
                else advice
            )
            status = f"{response.status} {self.shown(response.reason or '')}".strip()
            raise UserError(
                f"{self.url}: answers {status} ({self.shown(response.data)}){advice}"
            )
        try:
            answer = json.loads(response.data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise UserError(
                f"{self.url}: answers {self.shown(response.data)!r}, which is no JSON"
                " object"
            )
        return answer

    def in_parallel(
        self, items: Sequence[Item], do: Callable[[Item], Result]
    ) -> Iterator[tuple[int, Result]]:
        """Ranks of items with their results, as they come; no item is begun after an
        error or an interrupt.
        """
        # of daemons: an interrupt does not wait for their answers
        with ThreadPool(self._parallel) as threads:
            yield from threads.imap_unordered(
                lambda ranked: (ranked[0], do(ranked[1])), enumerate(items)
            )

    def shown(self, told: object) -> str:
        """The beginning of a server's words in one line, without the key, which a
        server may repeat anywhere.
        """
        text = (
            told.decode("utf-8", errors="replace")
            if isinstance(told, bytes)
            else str(told)
        )
        text = " ".join(text[:10_000].split())
        return (text.replace(self._key, "***") if self._key else text)[:200]


class Token(NamedTuple):
    """A token that the server read."""

    text: str
    log_prob: float | None
    """None for the very first token, which has no context."""


OMITTED = Token("", None)
"""Stands for a [BOS] that llama-cpp-python counts but does not list; the next token has
no log-probability.
"""


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0


class _Listed(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]


class _Choice(msgspec.Struct):
    logprobs: _Listed


class Completion(msgspec.Struct):
    """An answer of OpenAI's completions API: the tokens that were read, then the new
    ones.
    """

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Usage

    def read(self) -> list[Token]:
        """The tokens that the server read. llama-cpp-python does not list [BOS], nor
        each new token.
        """
        listed, read, new = (
            self.choices[0].logprobs,
            self.usage.prompt_tokens,
            self.usage.completion_tokens,
        )
        number = len(listed.tokens)
        if number != len(listed.token_logprobs):
            raise ValueError(
                f"{counted(number, 'token')} with {len(listed.token_logprobs)}"
                " log-probabilities"
            )
        tokens = [
            Token(*pair)
            for pair in zip(listed.tokens, listed.token_logprobs, strict=True)
        ]
        if number == read + new:
            return tokens[:read]
        if read - 1 <= number < read + new:
            return [OMITTED, *tokens[: read - 1]]
        raise ValueError(f"{counted(number, 'token')} for {read} read and {new} new")


class ServerKind(Kind):
    """log p of each token given those before, by requests to a server."""

    capabilities = Capabilities(source=True)
    options = ("parallel=",)
    prompted = True
    place = "URL#MODEL"

    def load(self, spec: Spec, computing: ComputeOptions) -> ServerModel:
        """`server:URL#MODEL`; without #MODEL, the server's only model."""
        template = None if computing.prompt is None else Template(computing.prompt)
        url, _, model = spec.place.partition("#")
        name = ":".join(
            [
                spec.kind,
                *(
                    option
                    for option in spec.options
                    if not option.startswith("parallel=")
                ),
            ]
        )
        return ServerModel(
            name,
            Client(url, api_key(), spec.number("parallel", PARALLEL)),
            model,
            template,
        )


class ServerModel(Streamed):
    """log p of a text's tokens, by requests to a server.

    The server also reads the prompt alone, without final blanks; the further tokens of
    prompt and text belong to the text. So a token across the border belongs to the
    text, as with `hf-causal`. Character offsets are no help: some servers count special
    tokens in them, others omit them.
    """

    precision = "unknown"

    def __init__(
        self, name: str, client: Client, model: str, template: Template | None
    ) -> None:
        """
        Args:
            model: its name on the server; empty for the only one there.
        """
        self.name = self.model = name
        self.capabilities = Capabilities(
            source=template is not None and template.reads_source
        )
        self._client, self._template = client, template
        self._served = model or only_model(client)
        self._probe()
        log.info("%s: scores with %s", client.url, client.shown(self._served))
        identity = [name, self._served, template and template.text]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their scores, as the server answers."""
        places = places_of(
            (self._before(question), question.text) for question in questions
        )
        shown = list(dict.fromkeys(before for before, text in places if text.strip()))
        prompts = {
            shown[rank]: tokens
            for rank, tokens in self._client.in_parallel(shown, self._read_prompt)
        }
        texts = list(places)
        for rank, scores in self._client.in_parallel(
            texts, lambda pair: self._scores(*pair, prompts.get(pair[0], []))
        ):
            yield from ((place, scores) for place in places[texts[rank]])

    def _probe(self) -> None:
        """See that the server gives log-probabilities of a text, and say whether its
        first token has none.
        """
        tokens = self._ask(self._before(PROBE) + PROBE.text, PROBE.text)
        scored = _letters(
            "".join(token.text for token in tokens if token.log_prob is not None)
        )
        if not scored.endswith(_letters(PROBE.text)):
            log.warning(
                "%s: gives no score for the first token of a text; give --prompt, such"
                " as '\\n{text}'",
                self._client.url,
            )

    def _before(self, question: Question) -> str:
        return self._template.before(question) if self._template else ""

    def _read_prompt(self, before: str) -> list[Token]:
        """The tokens of the prompt before a text."""
        before = before.rstrip(" ")
        return self._ask(before, before) if before else []

    def _scores(self, before: str, text: str, prompt: Sequence[Token]) -> TokenScores:
        if not text.strip():
            return TokenScores([], np.zeros(0))
        return _behind(prompt, self._ask(before + text, text))

    def _ask(self, prompt: str, text: str) -> list[Token]:
        """The server's tokens of a prompt; the text in it is named in errors."""
        # One token is generated: for some servers 0 means as many as fit.
        asked = {
            "prompt": prompt,
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }
        try:
            answer = self._client.request(
                "POST", "/v1/completions", {"model": self._served, **asked}
            )
        except UserError as error:
            raise UserError(f"{error}; the text was {text[:60]!r}") from None
        try:
            tokens = parsed(answer, Completion, "answer").read()
            _check(tokens, prompt.strip())
        except (UserError, ValueError) as error:
            raise UserError(
                f"{self._client.url}: gives no log-probabilities of {text[:60]!r}"
                f" ({self._client.shown(error)}); vLLM, SGLang and llama-cpp-python do"
            ) from None
        return tokens


def only_model(client: Client) -> str:
    """The name of the server's only model."""
    listed = parsed(
        client.request("GET", "/v1/models").get("data"),
        list[dict[str, Any]],
        f"{client.url}/v1/models",
    )
    names = [str(model.get("id")) for model in listed]
    if len(names) != 1:
        served = client.shown(", ".join(names))
        raise UserError(
            f"{client.url}: give the model as server:{client.url}#MODEL; it serves"
            f" {served or 'none'}"
        )
    return names[0]


def _letters(text: str) -> str:
    """The ASCII letters and digits of a text: tokens of other characters may be cut
    within a character.
    """
    return re.sub(r"<0x[0-9A-F]{2}>|[^A-Za-z0-9]", "", text)


def _check(tokens: Sequence[Token], text: str) -> None:
    """See that each value is a log-probability, and that the tokens spell the text that
    was sent, behind special tokens; the server may omit the first token.
    """
    for rank, (_, value) in enumerate(tokens):
        if value is None and (rank == 0 or tokens[rank - 1] == OMITTED):
            continue
        if value is None or not -math.inf < value <= SLACK:
            raise ValueError(f"the log-probability of token {rank + 1} is {value}")
    spelled, wanted = _letters("".join(token.text for token in tokens)), _letters(text)
    if "<unk>" in "".join(token.text for token in tokens) or spelled.endswith(wanted):
        return
    first_is_hidden = bool(tokens) and not tokens[0].text.strip()
    missing = wanted.removesuffix(spelled)
    if not (
        first_is_hidden
        and wanted.endswith(spelled)
        and _letters(text.split()[0]).startswith(missing)
    ):
        raise ValueError(f"its tokens spell {spelled[-60:]!r}, not {wanted[-60:]!r}")


def _behind(prompt: Sequence[Token], tokens: Sequence[Token]) -> TokenScores:
    """The scores of a text's own tokens, selected from all tokens that the server
    read.
    """
    border = 0
    while (
        border < min(len(prompt), len(tokens))
        and prompt[border].text == tokens[border].text
    ):
        border += 1
    own = [token for token in tokens[border:] if token.log_prob is not None]
    return TokenScores(
        [token.text for token in own],
        np.array([token.log_prob for token in own], dtype=np.float64),
    )
