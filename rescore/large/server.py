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

from rescore.errors import ServerError, UserError, counted
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
# urllib3 warns of each request that it repeats.
logging.getLogger("urllib3").setLevel(logging.ERROR)

Item = TypeVar("Item")
Result = TypeVar("Result")

KEYS = ("RESCORE_API_KEY", "OPENAI_API_KEY")
"""Environment variables for the key; the first that is set counts."""
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
BACKOFF = 0.5
"""Seconds between attempts: each time twice as many."""
LONGEST_BACKOFF = 30.0
"""The largest number of seconds between attempts."""
LONGEST_WAIT = 60.0
"""The largest number of seconds that a server's Retry-After is obeyed."""
HOME = ("localhost", "127.0.0.1", "[::1]")
"""Hosts to which a key may be sent unencrypted."""
BUSY = {429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""
HOW_TO_RESUME = "run it again; a cache (--cache, cache=) keeps what was scored"
PROBE = Question(
    "The old clock on the wall ticked while nobody was in the",
    "Die alte Uhr tickte an der Wand.",
)
"""The first text that a server scores: its end has letters, so that tokens that are
missing there are noticed.
"""
SLACK = 1e-3
"""A log-probability may exceed 0 by this much, due to rounding."""


class _Patience(Retry):
    """Repeats of requests: they wait `LONGEST_WAIT` seconds at most, also if the server
    asks for more.
    """

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Return the seconds that an answer's Retry-After asks for, or fewer."""
        wanted = super().get_retry_after(response)
        if wanted is None or wanted <= LONGEST_WAIT:
            return wanted
        log.warning(
            "the server asks to wait %.0f s; it is asked again in %.0f s",
            wanted,
            LONGEST_WAIT,
        )
        return LONGEST_WAIT


def api_key() -> str | None:
    """Return the key in the environment; None without a key.

    Raises:
        UserError: The key has characters that keys cannot have.
    """
    for name in KEYS:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UserError(
                f"{name}: contains characters that keys cannot have, such as blanks;"
                " set it again"
            )
        return key
    return None


def parsed_address(url: str) -> Url:
    """Return the parts of a server's address.

    Raises:
        UserError: The address is none, or has a user, password or query.
    """
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
        """Make connections when they are needed.

        Args:
            url: The address, with or without /v1 at its end.
            key: The key that is sent; None for no key.
            parallel: Requests under way at a time, in `in_parallel`.

        Raises:
            UserError: The address is none.
        """
        parts = parsed_address(url)
        path = (parts.path or "").rstrip("/").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{path}"
        self._key = key
        self._parallel = parallel
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._pool = urllib3.PoolManager(
            maxsize=parallel, timeout=TIMEOUT, headers=headers
        )
        if key and parts.scheme != "https" and parts.host not in HOME:
            log.warning(
                "%s: the key is sent unencrypted; use https or a tunnel", self.url
            )

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request, and return the answer, a JSON object.

        Args:
            method: GET or POST.
            path: The path behind the server's address.
            body: A value that is sent as JSON; None for no body.

        Raises:
            UserError: The server does not answer, or answers anything else.
        """
        retries = _Patience(
            ATTEMPTS - 1,
            connect=BROKEN,
            read=BROKEN,
            allowed_methods=None,
            status_forcelist=BUSY,
            raise_on_status=False,
            backoff_factor=BACKOFF,
            backoff_max=LONGEST_BACKOFF,
        )
        try:
            response = self._pool.request(
                method,
                self.url + path,
                body=None if body is None else json.dumps(body),
                headers={**self._pool.headers, "Content-Type": "application/json"},
                retries=retries,
                redirect=False,
            )
        except HTTPError as error:
            reason = error.reason if isinstance(error, MaxRetryError) else error
            raise ServerError(
                f"{self.url}: no answer ({self.shown(reason)})",
                f"is the server running at this address? Then {HOW_TO_RESUME}",
            ) from None
        if response.status != 200:
            status = f"{response.status} {self.shown(response.reason or '')}".strip()
            found = f"{self.url}: answers {status} ({self.shown(response.data)})"
            if response.status in BUSY:
                raise ServerError(f"{found}, {ATTEMPTS} times", HOW_TO_RESUME)
            if response.status in (401, 403):
                raise ServerError(found, f"set the key in {KEYS[0]}")
            raise UserError(found)
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
        """Yield the places of items with their results, as results come.

        No item is begun after an error or an interrupt.

        Args:
            items: The items.
            do: Makes the result of an item; called in several threads.
        """

        def numbered(entry: tuple[int, Item]) -> tuple[int, Result]:
            place, item = entry
            return place, do(item)

        # The threads are daemons: an interrupt does not wait for their answers.
        with ThreadPool(self._parallel) as threads:
            yield from threads.imap_unordered(numbered, enumerate(items))

    def shown(self, message: object) -> str:
        """Return the beginning of a server's words in one line, without the key.

        Args:
            message: Bytes or any object; a server may repeat the key anywhere in it.
        """
        if isinstance(message, bytes):
            text = message.decode("utf-8", errors="replace")
        else:
            text = str(message)
        text = " ".join(text[:10_000].split())
        if self._key:
            text = text.replace(self._key, "***")
        return text[:200]


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
        """Return the tokens that the server read.

        llama-cpp-python does not list [BOS], nor each new token.

        Raises:
            ValueError: The numbers of tokens and log-probabilities do not fit.
        """
        listed = self.choices[0].logprobs
        read = self.usage.prompt_tokens
        new = self.usage.completion_tokens
        number = len(listed.tokens)
        if number != len(listed.token_logprobs):
            raise ValueError(
                f"{counted(number, 'token')} with {len(listed.token_logprobs)}"
                " log-probabilities"
            )
        tokens = list(map(Token, listed.tokens, listed.token_logprobs))
        if number == read + new:
            return tokens[:read]
        if read - 1 <= number < read + new:
            return [OMITTED, *tokens[: read - 1]]
        raise ValueError(f"{counted(number, 'token')} for {read} read and {new} new")


class ServerKind(Kind):
    """log p of each token given the tokens before, by requests to a server."""

    capabilities = Capabilities(source=True)
    computes = False
    options = ("parallel=",)
    prompted = True
    place = "URL#MODEL"

    def load(self, spec: Spec, computing: ComputeOptions) -> ServerModel:
        """Return a model of `server:URL#MODEL`.

        Args:
            spec: The options, and the address; without #MODEL, the server's only model.
            computing: The prompt.

        Raises:
            UserError: The server does not answer, or gives no log-probabilities.
        """
        template = None if computing.prompt is None else Template(computing.prompt)
        url, _, model = spec.place.partition("#")
        name = [spec.kind]
        for option in spec.options:
            if not option.startswith("parallel="):
                name.append(option)
        client = Client(url, api_key(), spec.number("parallel", PARALLEL))
        return ServerModel(":".join(name), client, model, template)


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
        """Find the model, and try it on a text.

        Args:
            name: The name of the column.
            client: The server.
            model: The model's name on the server; empty for the only model.
            template: The prompt; None for no prompt.

        Raises:
            UserError: The server does not answer, or gives no log-probabilities.
        """
        self.name = name
        self.model = name
        reads_source = template is not None and template.reads_source
        self.capabilities = Capabilities(source=reads_source)
        self._client = client
        self._template = template
        self._served = model or only_model(client)
        self._probe()
        log.info("%s: scores with %s", client.url, client.shown(self._served))
        identity = [name, self._served, template and template.text]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the places of questions with their scores, as the server answers.

        Prompts are read first, so that the tokens of a text can be told from theirs.
        """
        places = places_of(
            (self._before(question), question.text) for question in questions
        )
        prompts = list(dict.fromkeys(before for before, text in places if text.strip()))
        prompt_tokens: dict[str, list[Token]] = {}
        for rank, tokens in self._client.in_parallel(prompts, self._read_prompt):
            prompt_tokens[prompts[rank]] = tokens

        def scored(pair: tuple[str, str]) -> TokenScores:
            before, text = pair
            return self._scores(before, text, prompt_tokens.get(before, []))

        pairs = list(places)
        for rank, scores in self._client.in_parallel(pairs, scored):
            for place in places[pairs[rank]]:
                yield place, scores

    def _probe(self) -> None:
        """Try the server on a text, and log a warning if it gives no score for the
        first token.
        """
        tokens = self._ask(self._before(PROBE) + PROBE.text, PROBE.text)
        scored = [token.text for token in tokens if token.log_prob is not None]
        if not _letters("".join(scored)).endswith(_letters(PROBE.text)):
            log.warning(
                "%s: gives no score for the first token of a text; give --prompt, such"
                " as '\\n{text}'",
                self._client.url,
            )

    def _before(self, question: Question) -> str:
        """Return the prompt of a question, or an empty string."""
        return self._template.before(question) if self._template else ""

    def _read_prompt(self, before: str) -> list[Token]:
        """Return the server's tokens of a prompt."""
        before = before.rstrip(" ")
        return self._ask(before, before) if before else []

    def _scores(self, before: str, text: str, prompt: Sequence[Token]) -> TokenScores:
        """Return the scores of a text behind a prompt.

        Args:
            before: The prompt.
            text: The text.
            prompt: The server's tokens of the prompt alone.
        """
        if not text.strip():
            return TokenScores([], np.zeros(0))
        return _behind(prompt, self._ask(before + text, text))

    def _ask(self, prompt: str, text: str) -> list[Token]:
        """Return the server's tokens of a prompt.

        Args:
            prompt: The prompt with the text.
            text: The text, for messages.
        """
        body = {
            "model": self._served,
            "prompt": prompt,
            "max_tokens": 1,  # for some servers, 0 means as many as fit
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }
        try:
            answer = self._client.request("POST", "/v1/completions", body)
        except ServerError:  # it says nothing about the text
            raise
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
    """Return the name of the server's only model.

    Raises:
        UserError: The server has no model or several.
    """
    answer = client.request("GET", "/v1/models")
    place = f"{client.url}/v1/models"
    listed = parsed(answer.get("data"), list[dict[str, Any]], place)
    names = [str(model.get("id")) for model in listed]
    if len(names) != 1:
        served = client.shown(", ".join(names)) or "none"
        raise UserError(
            f"{client.url}: give the model as server:{client.url}#MODEL; it serves"
            f" {served}"
        )
    return names[0]


def _letters(text: str) -> str:
    """Return the ASCII letters and digits of a text: tokens of other characters may be
    cut within a character.
    """
    return re.sub(r"<0x[0-9A-F]{2}>|[^A-Za-z0-9]", "", text)


def _check(tokens: Sequence[Token], text: str) -> None:
    """Raise an error unless each value is a log-probability and the tokens spell a
    text.

    Args:
        tokens: The server's tokens.
        text: The text that was sent.

    Raises:
        ValueError: A value is no log-probability, or the tokens spell another text.
    """
    for rank, (_, value) in enumerate(tokens):
        has_context = rank > 0 and tokens[rank - 1] != OMITTED
        if value is None and not has_context:
            continue
        if value is None or not -math.inf < value <= SLACK:
            raise ValueError(f"the log-probability of token {rank + 1} is {value}")
    if not _spell(tokens, text):
        spelled = _letters("".join(token.text for token in tokens))
        wanted = _letters(text)
        raise ValueError(f"its tokens spell {spelled[-60:]!r}, not {wanted[-60:]!r}")


def _spell(tokens: Sequence[Token], text: str) -> bool:
    """Return whether tokens spell a text behind special tokens.

    An unknown token may be any text. If the first token is hidden, the text may lack
    the beginning of its first word.
    """
    joined = "".join(token.text for token in tokens)
    spelled = _letters(joined)
    wanted = _letters(text)
    if "<unk>" in joined or spelled.endswith(wanted):
        return True
    if not tokens or tokens[0].text.strip() or not wanted.endswith(spelled):
        return False
    missing = wanted.removesuffix(spelled)
    return _letters(text.split()[0]).startswith(missing)


def _behind(prompt: Sequence[Token], tokens: Sequence[Token]) -> TokenScores:
    """Return the scores of a text's own tokens.

    Args:
        prompt: The server's tokens of the prompt alone.
        tokens: The server's tokens of the prompt with the text. From the first token
            that differs on, they belong to the text.
    """
    border = 0
    for ours, theirs in zip(prompt, tokens, strict=False):
        if ours.text != theirs.text:
            break
        border += 1
    names = []
    log_probs = []
    for token in tokens[border:]:
        if token.log_prob is not None:
            names.append(token.text)
            log_probs.append(token.log_prob)
    return TokenScores(names, np.array(log_probs, dtype=np.float64))
