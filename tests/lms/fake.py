"""A completions server on this machine, with a language model of a few lines, that
answers as real servers do.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny/model"
BOS = "<s>"


def tokens_of(text: str) -> list[str]:
    """A blank belongs to the word behind it; a line's end stands alone."""
    return re.findall(r"<s>|\n| ?[^\s<]+| ", text)


def log_probs_of(tokens: list[str]) -> list[float | None]:
    """Of each token given the one before it and its place; none of the first."""
    pairs = [
        f"{rank} {tokens[rank - 1]}|{tokens[rank]}" for rank in range(1, len(tokens))
    ]
    return [None, *(-0.25 - zlib.crc32(pair.encode()) % 4000 / 1000 for pair in pairs)][
        : len(tokens)
    ]


def expected(before: str, text: str, bos: bool = True) -> float:
    """The log-probability of a text behind what stands before it."""
    tokens = [*([BOS] if bos else []), *tokens_of(before + text)]
    own = len(tokens_of(text.strip()))
    return sum(value for value in log_probs_of(tokens)[-own:] if value is not None)


class Fake:
    """What the server does, and what it was asked."""

    def __init__(self, form: str = "vllm", bos: bool = True) -> None:
        """
        Args:
            form: vllm, sglang, llama_cpp, or llama_server, which gives none of a text.
        """
        self.form, self.bos = form, bos
        self.models: list[dict[str, Any]] = [
            {"id": MODEL, "object": "model", "owned_by": "me"}
        ]
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.trouble: Callable[
            [int, str], tuple[int, dict[str, str], bytes] | str | None
        ] = lambda number, text: None
        """Given the request's number and text: another answer, or "hang up"; None for
        the usual answer.
        """
        self.change: Callable[[dict[str, Any]], Any] = lambda answer: answer
        """What is done to answers."""
        self.url = ""
        self.scored = 0
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        ways = {
            ("vllm", "/v1/completions"): self.echo,
            ("llama_cpp", "/v1/completions"): self.llama_cpp,
            ("sglang", "/v1/completions"): self.sglang,
            ("llama_server", "/v1/completions"): self.generated_alone,
        }
        way = ways.get((self.form, path))
        return (404, {"detail": "Not Found"}) if way is None else way(body)

    def read(self, text: str) -> tuple[list[str], list[float | None]]:
        tokens = [*([BOS] if self.bos else []), *tokens_of(text)]
        return tokens, log_probs_of(tokens)

    def completion(
        self, text: str, told: dict[str, Any] | None, read: int, **more: Any
    ) -> tuple[int, Any]:
        choice = {
            "index": 0,
            "text": text,
            "logprobs": told,
            "finish_reason": "length",
            **more,
        }
        usage = {
            "prompt_tokens": read,
            "completion_tokens": 1,
            "total_tokens": read + 1,
        }
        return 200, {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": MODEL,
            "choices": [choice],
            "usage": usage,
        }

    def echo(self, body: dict[str, Any]) -> tuple[int, Any]:
        """vLLM: special tokens are listed, and their letters count in the offsets."""
        if not body.get("echo"):
            return self.generated_alone(body)
        tokens, values = self.read(body["prompt"])
        names = [*tokens, " and"]
        told = {
            "text_offset": [sum(map(len, names[:rank])) for rank in range(len(names))],
            "token_logprobs": [*values, -1.5],
            "tokens": names,
            "top_logprobs": [None, *({name: -1.0} for name in names[1:])],
        }
        return self.completion(body["prompt"] + " and", told, len(tokens))

    def llama_cpp(self, body: dict[str, Any]) -> tuple[int, Any]:
        """llama-cpp-python: [BOS] is counted, but not listed; the first token behind it
        has no log-probability.
        """
        tokens, values = self.read(body["prompt"])
        names, given = [*tokens[1:], " and"], [*values[1:], -1.5]
        told = {
            "tokens": names,
            "text_offset": [0] * len(names),
            "token_logprobs": [None, *given[1:]],
        }
        return self.completion(body["prompt"] + " and", told, len(tokens))

    def sglang(self, body: dict[str, Any]) -> tuple[int, Any]:
        """SGLang: as vLLM, without offsets."""
        tokens, values = self.read(body["prompt"])
        told = {
            "text_offset": [-1] * (len(tokens) + 1),
            "tokens": [*tokens, " and"],
            "token_logprobs": [*values, -1.5],
        }
        return self.completion(body["prompt"] + " and", told, len(tokens))

    def generated_alone(self, body: dict[str, Any]) -> tuple[int, Any]:
        tokens, _ = self.read(body["prompt"])
        return self.completion(
            " and", {"tokens": [" and"], "token_logprobs": [-1.5]}, len(tokens)
        )


@contextmanager
def served(fake: Fake) -> Iterator[Fake]:
    """The server, running in a thread."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.send(
                200, {}, json.dumps({"object": "list", "data": fake.models}).encode()
            )

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with fake.lock:
                fake.asked.append(body)
                fake.headers.append(dict(self.headers))
                number = len(fake.asked)
                fake.under_way += 1
                fake.most_under_way = max(fake.most_under_way, fake.under_way)
            text = body["prompt"]
            trouble = fake.trouble(number, text)
            with fake.lock:
                fake.under_way -= 1
                fake.scored += trouble is None
            if isinstance(trouble, str):
                self.close_connection = True
                return
            if trouble is not None:
                self.send(*trouble)
                return
            status, answer = fake.answer(self.path, body)
            self.send(status, {}, json.dumps(fake.change(answer)).encode())

        def send(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *arguments: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
