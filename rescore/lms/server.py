"""Language models behind a server that answers in OpenAI's form: vLLM, SGLang, llama-cpp-python.

The server gives the natural-log probability of each token of a text, given those before it. Servers know different
ways to ask for that; the first request finds out which one this server knows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rescore.errors import UserError, counted
from rescore.lms.base import (
    DEFAULT,
    Capabilities,
    ComputeOptions,
    Kind,
    Question,
    Spec,
    Template,
    TokenScores,
    in_order,
    report,
)
from rescore.lms.http_client import Client, RefusedError, api_key
from rescore.parts import did_you_mean

log = logging.getLogger(__name__)

PARALLEL = 16
"""Requests under way at a time."""
TIMEOUT = 60
"""Seconds that an answer may take."""
PROBE = Question("The old clock on the wall ticked while nobody was in the", "Die alte Uhr tickte an der Wand.")
"""The first request to a server: an incomplete sentence, so that the model continues it."""
ROUNDING = 0.5
"""The fingerprint rounds the probe's score to this many nats, because batches on a server differ."""
SLACK = 1e-3
"""A log-probability may exceed 0 by this much, due to rounding."""

Messages = list[dict[str, str]]


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


@dataclass(frozen=True, slots=True)
class Way:
    """A way to ask a server for the log-probabilities of a text."""

    about: str
    path: str
    body: Callable[[str, Any], dict[str, Any]]
    """The request, of the model's name and a text; for a chat, of its messages."""
    tokens: Callable[[Mapping[str, Any]], list[Token]]
    """The tokens that the server read, from its answer.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: the answer has another form.
    """


def _echo_body(model: str, text: str) -> dict[str, Any]:
    # One token is generated: for some servers 0 means as many as fit.
    return {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}


def _echo_tokens(answer: Mapping[str, Any]) -> list[Token]:
    tokens, read, new = _listed(answer)
    if len(tokens) != read + new:
        raise ValueError(f"{counted(len(tokens), 'token')} for {read} read and {new} new")
    return tokens[:read]


def _echo_tokens_behind_first(answer: Mapping[str, Any]) -> list[Token]:
    tokens, read, new = _listed(answer)
    if not read - 1 <= len(tokens) < read + new:  # of new tokens, too, some are not listed
        raise ValueError(f"{counted(len(tokens), 'token')} for {read - 1} read and {new} new")
    return [OMITTED, *tokens[: read - 1]]


def _listed(answer: Mapping[str, Any]) -> tuple[list[Token], int, int]:
    """The tokens of an answer, and how many the server counts as read and as new."""
    told, usage = answer["choices"][0]["logprobs"], answer["usage"]
    names, values = told["tokens"], told["token_logprobs"]
    if len(names) != len(values):
        raise ValueError(f"{counted(len(names), 'token')} with {counted(len(values), 'log-probability')}")
    tokens = [Token(str(name), str(name), value) for name, value in zip(names, values, strict=True)]
    return tokens, int(usage["prompt_tokens"]), int(usage["completion_tokens"])


def _prompt_body(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}


def _prompt_tokens(answer: Mapping[str, Any]) -> list[Token]:
    return _vllm_tokens(answer["choices"][0]["prompt_logprobs"], answer)


def _chat_body(model: str, messages: Messages) -> dict[str, Any]:
    answered = messages[-1]["role"] == "assistant"
    turn = {"add_generation_prompt": not answered, "continue_final_message": answered}
    return {"model": model, "messages": messages, **turn, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}


def _chat_tokens(answer: Mapping[str, Any]) -> list[Token]:
    return _vllm_tokens(answer["prompt_logprobs"], answer)


def _vllm_tokens(told: Sequence[Mapping[str, Any] | None], answer: Mapping[str, Any]) -> list[Token]:
    """Of each token a table with itself alone, by its number; null for the first one."""
    if len(told) != answer["usage"]["prompt_tokens"]:
        raise ValueError(f"{counted(len(told), 'token')} for {answer['usage']['prompt_tokens']} read")
    tokens = []
    for table in told:
        if table is None:
            tokens.append(Token(None, "", None))
            continue
        ((number, about),) = table.items()
        tokens.append(Token(number, str(about.get("decoded_token") or ""), about["logprob"]))
    return tokens


def _generate_body(model: str, text: str) -> dict[str, Any]:
    return {
        "text": text,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "return_text_in_logprobs": True,
    }


def _generate_tokens(answer: Mapping[str, Any]) -> list[Token]:
    told = answer["meta_info"]["input_token_logprobs"]
    if len(told) != answer["meta_info"]["prompt_tokens"]:
        raise ValueError(f"{counted(len(told), 'token')} for {answer['meta_info']['prompt_tokens']} read")
    return [Token(number, str(number if text is None else text), value) for value, number, text in told]


ECHO = Way("echo with logprobs", "/v1/completions", _echo_body, _echo_tokens)
ECHO_BEHIND_FIRST = Way("echo with logprobs, less [BOS]", "/v1/completions", _echo_body, _echo_tokens_behind_first)
PROMPT = Way("prompt_logprobs", "/v1/completions", _prompt_body, _prompt_tokens)
GENERATE = Way("SGLang's /generate", "/generate", _generate_body, _generate_tokens)
CHAT = Way("prompt_logprobs of a chat", "/v1/chat/completions", _chat_body, _chat_tokens)


def load(spec: Spec, computing: ComputeOptions = DEFAULT) -> ServerModel:
    """`server:URL#MODEL`: log p of each token given the tokens before it; with `chat`, of the assistant's turn.

    Raises:
        UserError: the address is invalid, no server answers, or the server supports none of the known requests.
    """
    template = None if computing.prompt is None else Template(computing.prompt)
    chat = "chat" in spec.options
    if chat and (template is None or not template.before(PROBE).strip()):
        raise UserError("server:chat needs --prompt 'MESSAGE{text}': the user's message, then the assistant's answer")
    client, model = connect(spec)
    name = ":".join(
        [spec.kind, *(option for option in spec.options if not option.startswith(("parallel=", "timeout=")))]
    )
    return ServerModel(name, client, model, template, chat)


def connect(spec: Spec) -> tuple[Client, str]:
    """A client of the server that a spec names, and the model's name on the server; empty for the only model.

    Raises:
        UserError: the address is invalid, or an option is no number.
    """
    url, _, model = spec.address.partition("#")
    parallel, timeout = spec.number("parallel", PARALLEL), spec.number("timeout", TIMEOUT, most=9999)
    return Client(url, api_key(), timeout, parallel), model


class ServerKind(Kind):
    """log p of each token given those before, by requests to a server."""

    capabilities = Capabilities(source=True)
    options = ("chat", "parallel=", "timeout=")
    remote = True

    def load(self, spec: Spec, computing: ComputeOptions) -> ServerModel:
        return load(spec, computing)


class ServerModel:
    """log p of a text's tokens, by requests to a server.

    The server also reads the prompt alone, without final blanks; the further tokens of prompt and text belong to the
    text. So a token across the border belongs to the text, as with `hf-causal`. Character offsets are no help: some
    servers count special tokens in them, others omit them.
    """

    precision = "unknown"

    def __init__(self, name: str, client: Client, model: str, template: Template | None, chat: bool) -> None:
        """
        Args:
            model: its name on the server; empty for the only one there.
        """
        self.name = self._name = name
        self.capabilities = Capabilities(source=template is not None and template.reads_source)
        self._client, self._template = client, template
        self._model, revision = served_model(client, model)
        self._way, probe = self._find_way([CHAT] if chat else [ECHO, ECHO_BEHIND_FIRST, PROMPT, GENERATE])
        log.info("%s: scores with %s, through %s", client.url, self._model, self._way.about)
        rounded = ROUNDING * round(probe.sum / ROUNDING)
        told = [name, self._model, revision, template and template.text, probe.tokens, rounded]
        self.fingerprint = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def model(self) -> str:
        return self._name

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        return in_order(self.as_scored(questions))

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their scores, as the server answers.

        Raises:
            UserError: a request failed, again and again; all that was answered has been given.
        """
        places: dict[tuple[str, str], list[int]] = {}
        for place, question in enumerate(questions):
            before = self._template.before(question) if self._template else ""
            places.setdefault((before, question.text), []).append(place)
        shown = list(dict.fromkeys(before for before, text in places if text.strip()))
        prompts = {shown[rank]: tokens for rank, tokens in self._client.in_parallel(shown, self._read_prompt)}
        asked = list(places)
        done = 0
        for rank, scores in self._client.in_parallel(asked, lambda pair: self._scores(*pair, prompts.get(pair[0], []))):
            for place in places[asked[rank]]:
                yield place, scores
                done += 1
            report(done, len(questions))

    def _read_prompt(self, before: str) -> list[Token]:
        """The tokens of the prompt before a text."""
        before = before.rstrip(" ")
        return self._ask(self._way, before, None) if before else []

    def _scores(self, before: str, text: str, prompt: Sequence[Token]) -> TokenScores:
        if not text.strip():
            return TokenScores([], np.zeros(0))
        return _behind(prompt, self._ask(self._way, before, text))

    def _ask(self, way: Way, before: str, text: str | None, trying: bool = False) -> list[Token]:
        """The server's tokens of a prompt, with or without a text behind it.

        Args:
            trying: the server may not support this kind of request.

        Raises:
            RefusedError: the server refuses the request.

            NonsenseError: the answer has an unexpected form.
        """
        asked: str | Messages = before + (text or "")
        if way is CHAT:
            asked = [{"role": "user", "content": before.strip()}]
            asked += [] if text is None else [{"role": "assistant", "content": text}]
        shown = (before if text is None else text)[:60]
        try:
            answer = self._client.post(way.path, way.body(self._model, asked), trying)
        except RefusedError as error:
            raise RefusedError(f"{error}, for {shown!r}") from None
        try:
            tokens = way.tokens(answer)
            _check(tokens)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise NonsenseError(
                f"{self._client.url}: the answer to {shown!r} is not what {way.about} gives ({reason[:100]})"
            ) from None
        return tokens

    def _find_way(self, ways: Sequence[Way]) -> tuple[Way, TokenScores]:
        """The first kind of request that this server supports, and the score of the probe.

        Raises:
            UserError: the server supports none.
        """
        before = self._template.before(PROBE) if self._template else ""
        failed = []
        for way in ways:
            self._way = way
            try:
                tokens = self._ask(way, before, PROBE.text, trying=True)
                self._check_text(tokens)
                return way, _behind(self._read_prompt(before), tokens)
            except (RefusedError, NonsenseError) as error:
                failed.append(f"{way.about}: {str(error).removeprefix(f'{self._client.url}: ')}")
        raise UserError(
            f"{self._client.url}: gives no log-probabilities of given text ({'; '.join(failed)}); "
            "servers that do are vLLM, SGLang and llama-cpp-python's"
        )

    def _check_text(self, tokens: Sequence[Token]) -> None:
        """See that the tokens spell the probe: else log-probabilities stand beside other tokens than their own.

        Raises:
            NonsenseError: they do not.
        """
        text = PROBE.text.replace(" ", "")
        spelled = "".join("".join(token.text.split()) for token in tokens)
        first = "".join(tokens[0].text.split()) if tokens else ""
        if not (spelled.endswith(text) or (not first and spelled and text.endswith(spelled))):
            raise NonsenseError(f"{self._client.url}: its tokens spell {spelled[-60:]!r}, not {PROBE.text!r}")
        if tokens[0] is OMITTED or (tokens[0].log_prob is None and not spelled.removeprefix(first).endswith(text)):
            log.warning(
                "%s: gives no score for the first token of a text; give --prompt, such as '\\n{text}'",
                self._client.url,
            )


def _behind(prompt: Sequence[Token], tokens: Sequence[Token]) -> TokenScores:
    """The scores of a text's own tokens, selected from all tokens that the server read."""
    border = 0
    while border < min(len(prompt), len(tokens)) and prompt[border].key == tokens[border].key:
        border += 1
    own = [token for token in tokens[border:] if token.log_prob is not None]
    return TokenScores([token.text for token in own], np.array([token.log_prob for token in own], dtype=np.float64))


def _check(tokens: Sequence[Token]) -> None:
    """
    Raises:
        ValueError: a value is not a log-probability.
    """
    for rank, token in enumerate(tokens):
        value = token.log_prob
        if value is None and (rank == 0 or tokens[rank - 1] is OMITTED):
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value > SLACK:
            raise ValueError(f"the log-probability of token {rank + 1} is {value}")


def served_model(client: Client, model: str) -> tuple[str, str | None]:
    """The model's name, and its revision if the server gives it.

    Raises:
        UserError: the server does not list the model, or no name is given and the server has several models.
    """
    try:
        listed = client.get("/v1/models").get("data")
    except RefusedError:
        listed = None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [str(entry.get("id")) for entry in entries]
    if not model and len(names) == 1:
        model = names[0]
    if not model:
        served = f"; it serves {', '.join(names)[:200]}" if names else ""
        raise UserError(f"{client.url}: give the model as server:{client.url}#MODEL{served}")
    if names and model not in names:
        guess = did_you_mean(model, names)
        raise UserError(f"{client.url}: serves no {model}, but {', '.join(names)[:200]}{guess}")
    revision = next((entry.get("revision") for entry in entries if str(entry.get("id")) == model), None)
    return model, None if revision is None else str(revision)
