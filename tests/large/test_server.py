"""Models behind a server: what is asked, what counts, and what happens when the server
does not do as it should.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rescore as package
from rescore.errors import UserError
from rescore.large.server import Client
from rescore.lms import (
    ComputeOptions,
    LanguageModel,
    Question,
    TokenScores,
    without_context,
)
from rescore.lms import load as load_model
from rescore.lms.cache import Cached
from tests.conftest import SENTENCES, Run, assert_one_line_error, some_lists
from tests.lms.fake import MODEL, Fake, expected, served

TEXTS = SENTENCES[:8]
Start = Callable[..., Fake]
pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers that end with the test."""
    running: list[Any] = []

    def begin(form: str = "vllm", bos: bool = True) -> Fake:
        context = served(Fake(form, bos))
        running.append(context)
        return context.__enter__()

    yield begin
    for context in running:
        context.__exit__(None, None, None)


def load(fake: Fake, prompt: str | None = None, options: str = "") -> LanguageModel:
    return load_model(
        f"server:{options}{fake.url}#{MODEL}", ComputeOptions(prompt=prompt)
    )


def sums(scores: list[TokenScores]) -> list[float]:
    return [one.sum for one in scores]


@pytest.mark.parametrize("form", ["vllm", "sglang", "llama_cpp"])
def test_each_server(form: str, start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lm = load(start(form), "He said: {text}")
    found = lm.score(without_context(TEXTS))
    assert sums(found) == pytest.approx([expected("He said: ", text) for text in TEXTS])
    assert "".join(found[0].tokens).strip() == TEXTS[0]
    assert f"scores with {MODEL}\n" in caplog.text


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("form", ["vllm", "sglang"])
def test_a_text_alone(
    form: str, bos: bool, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Without [BOS], the first token has nothing before it and is not scored, as with
    hf-causal.
    """
    found = load(start(form, bos)).score(without_context(TEXTS))
    assert sums(found) == pytest.approx([expected("", text, bos) for text in TEXTS])
    assert [len(one.tokens) for one in found] == [
        len(text.split()) - (not bos) for text in TEXTS
    ]
    assert ("gives no score for the first token of a text" in caplog.text) == (not bos)


def test_without_a_prompt_llama_cpp_python_says_nothing_of_the_first_token(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    found = load(start("llama_cpp")).score(without_context(TEXTS))
    assert [len(one.tokens) for one in found] == [
        len(text.split()) - 1 for text in TEXTS
    ]
    assert "give --prompt" in caplog.text


def test_the_source_is_shown(start: Start) -> None:
    fake = start()
    lm = load(fake, "German: {src}\\nEnglish: {text}")
    questions = [
        Question(text, source)
        for source in ("das haus", "ja")
        for text in ("the house", "yes", "")
    ]
    before = len(fake.asked)
    wanted = [
        expected(f"German: {one.source}\nEnglish: ", one.text) if one.text else 0.0
        for one in questions
    ]
    assert sums(lm.score(questions)) == pytest.approx(wanted)
    # a source is read alone once; an empty text is not sent
    assert len(fake.asked) - before == 2 + 4
    with pytest.raises(UserError, match="give lists with sources"):
        lm.score(without_context(["yes"]))


def test_a_token_across_the_border_belongs_to_the_text(start: Start) -> None:
    found = load(start(), "He said:{text}").score(without_context(["yes and no"]))
    assert found[0].tokens == [" said:yes", " and", " no"]


def test_a_server_without_log_probabilities_of_a_text(start: Start) -> None:
    with pytest.raises(
        UserError, match=r"gives no log-probabilities of .* vLLM, SGLang and"
    ) as error:
        load(start("llama_server"))
    assert "\n" not in str(error.value)


def test_equal_texts_are_asked_once_in_parallel_up_to_a_bound(start: Start) -> None:
    fake = start()
    lm = load(fake, options="parallel=3:")
    before = len(fake.asked)
    three = threading.Barrier(3)

    def wait(number: int, text: str) -> None:
        if number <= before + 3:
            three.wait(300)

    fake.trouble = wait
    lm.score(without_context([*TEXTS, *TEXTS]))
    assert len(fake.asked) - before == len(TEXTS) and fake.most_under_way == 3
    assert lm.name == "server"


def test_fingerprints(start: Start) -> None:
    """Of the model's name and the prompt; not of the address or of how it is asked."""
    one, two = start(), start("sglang")
    assert (
        load(one).fingerprint
        == load(two).fingerprint
        == load(one, options="parallel=2:").fingerprint
    )
    different = {
        load(one).fingerprint,
        load(one, "{text}").fingerprint,
        load(one, "a {text}").fingerprint,
    }
    different.add(load_model(f"server:{one.url}#other").fingerprint)
    assert len(different) == 4


def test_names_of_models(start: Start) -> None:
    fake = start()
    assert load_model(f"server:{fake.url}/v1/").fingerprint == load(fake).fingerprint
    fake.models.append({"id": "other"})
    with pytest.raises(
        UserError,
        match=r"give the model as server:.*#MODEL; it serves tiny/model, other",
    ):
        load_model(f"server:{fake.url}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("server", "give the model as server:URL#MODEL"),
        ("server:localhost:8000#m", "is no address"),
        ("server:ftp://localhost#m", "is no address"),
        ("server:http://host:99999#m", "is no address"),
        ("server:http://a..b#m", "no answer"),
        ("server:http://[::1]:1#m", "no answer"),
        ("server:http://me:secret@localhost:1#m", "must have no user, password"),
        ("server:http://localhost:1?key=secret#m", "must have no user, password"),
        ("server:parallel=0:http://localhost:1#m", "expected a number from 1 to 99"),
        (
            "server:http://127.0.0.1:1#m",
            "no answer .*; is the server running at this address",
        ),
    ],
)
def test_wrong_addresses(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load_model(spec)
    assert "secret" not in str(error.value) and "\n" not in str(error.value)


def test_the_key_is_sent_and_never_told(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    fake = start()
    plain = load(fake).fingerprint
    assert "Authorization" not in fake.headers[-1]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("RESCORE_API_KEY", "sk-secret")
    lm = load(fake)
    assert (
        fake.headers[-1]["Authorization"] == "Bearer sk-secret"
        and lm.fingerprint == plain
    )
    fake.trouble = lambda number, text: (
        401,
        {},
        b'{"error": {"message": "no such key: sk-secret"}}',
    )
    with pytest.raises(
        UserError,
        match=r"answers 401 Unauthorized \(.*no such key: \*\*\*.*\); set the key",
    ) as error:
        lm.score(without_context(TEXTS))
    assert "sk-secret" not in str(error.value) + caplog.text + repr(lm) + repr(vars(lm))
    monkeypatch.setenv("RESCORE_API_KEY", "sk-sec ret\n")
    with pytest.raises(
        UserError, match="RESCORE_API_KEY: contains characters"
    ) as error:
        load(fake)
    assert "sk-sec" not in str(error.value)


def test_the_key_goes_unencrypted_with_a_warning_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Client("http://example.org", "key")
    assert "the key is sent unencrypted" in caplog.text
    caplog.clear()
    Client("https://example.org", "key")
    Client("http://localhost:1", "key")
    assert not caplog.text


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_for_a_while(status: int, start: Start) -> None:
    fake = start()
    lm = load(fake)
    begun = len(fake.asked)
    fake.trouble = lambda number, text: (
        (status, {}, b"later") if number <= begun + 6 else None
    )
    assert sums(lm.score(without_context(TEXTS))) == pytest.approx(
        [expected("", text) for text in TEXTS]
    )


def test_connections_that_break_for_a_while(start: Start) -> None:
    fake = start()
    lm = load(fake)
    begun = len(fake.asked)
    fake.trouble = lambda number, text: "hang up" if number <= begun + 2 else None
    assert sums(lm.score(without_context(TEXTS))) == pytest.approx(
        [expected("", text) for text in TEXTS]
    )


def test_retry_after(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", waits.append)
    fake = start()
    lm = load(fake)
    begun = len(fake.asked)
    fake.trouble = lambda number, text: (
        (429, {"Retry-After": "17"}, b"") if number == begun + 1 else None
    )
    lm.score(without_context(["yes"]))
    assert 17 in waits


def test_a_server_that_stays_busy(start: Start) -> None:
    fake = start()
    lm = load(fake)
    fake.trouble = lambda number, text: (503, {}, b"later")
    with pytest.raises(
        UserError,
        match=(r"answers 503 Service Unavailable \(later\), 7 times; run it again"),
    ):
        lm.score(without_context(["yes"]))


def test_a_slow_server(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescore.large.server.TIMEOUT", 0.1)
    answers = threading.Event()

    def wait(number: int, text: str) -> None:
        answers.wait(300)

    fake = start()
    fake.trouble = wait
    try:
        with pytest.raises(UserError, match=r"no answer \(.*timed out.*run it again"):
            Client(fake.url, None).request("POST", "/v1/completions", {"prompt": "a"})
    finally:
        answers.set()


def usual(answer: Any) -> Any:
    return answer["choices"][0]["logprobs"]


def with_value(value: Any) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        usual(answer)["token_logprobs"][2] = value
        return answer

    return change


def one_less(answer: Any) -> Any:
    usual(answer)["tokens"].pop()
    return answer


def one_row_less(answer: Any) -> Any:
    usual(answer)["token_logprobs"].pop(1)
    return one_less(answer)


def others(answer: Any) -> Any:
    answer["usage"]["prompt_tokens"] += 5
    return answer


def with_usage(value: Any) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        answer["usage"]["prompt_tokens"] = value
        return answer

    return change


def truncated(answer: Any) -> Any:
    for values in (usual(answer)["tokens"], usual(answer)["token_logprobs"]):
        del values[1]
    answer["usage"]["prompt_tokens"] -= 1
    return answer


def another(answer: Any) -> Any:
    usual(answer)["tokens"][1] = "x"
    return answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value(None), "the log-probability of token 3 is None"),
        (with_value(float("nan")), "the log-probability of token 3 is nan"),
        (with_value(0.5), r"the log-probability of token 3 is 0\.5"),
        (
            with_value("-1"),
            r"choices\[0\]\.logprobs\.token_logprobs\[2\]: expected a number",
        ),
        (with_value(True), r"token_logprobs\[2\]: expected a number"),
        (with_value(float("-inf")), "the log-probability of token 3 is -inf"),
        (with_value(-(10**400)), "gives no log-probabilities of"),
        (with_usage(float("inf")), "usage.prompt_tokens: expected a whole number"),
        (truncated, "its tokens spell 's?clockticked', not 'theclockticked'"),
        (another, "its tokens spell 's?xclockticked', not 'theclockticked'"),
        (one_less, "4 tokens with 5 log-probabilities"),
        (one_row_less, "its tokens spell"),
        (others, "5 tokens for 9 read and 1 new"),
        (lambda answer: {}, "required field choices"),
        (lambda answer: {"choices": []}, "choices: expected an array of length >= 1"),
        (
            lambda answer: {**answer, "choices": [{"logprobs": None}]},
            "gives no log-probabilities of",
        ),
        (lambda answer: {**answer, "usage": 3}, "gives no log-probabilities of"),
        (lambda answer: [1], "which is no JSON object"),
    ],
)
def test_nonsense(change: Callable[[Any], Any], message: str, start: Start) -> None:
    fake = start()
    lm = load(fake)
    fake.change = change
    with pytest.raises(UserError, match=message) as error:
        lm.score(without_context(["the clock ticked"]))
    assert (
        str(error.value).startswith(fake.url)
        and "\n" not in str(error.value)
        and len(str(error.value)) < 400
    )


@pytest.mark.parametrize(
    "data", [b"<html>\n", b"", b"\xff", b"[" * 100_000, b'{"choices": ']
)
def test_an_answer_that_is_no_json(data: bytes, start: Start) -> None:
    fake = start()
    lm = load(fake)
    fake.trouble = lambda number, text: (200, {}, data)
    with pytest.raises(UserError, match="which is no JSON object") as error:
        lm.score(without_context(["yes"]))
    assert "\n" not in str(error.value)


def test_a_refusal_names_the_text(start: Start) -> None:
    fake = start()
    lm = load(fake)
    fake.trouble = lambda number, text: (
        400,
        {},
        b'{"error": {"message": "maximum context length\\nis 10"}}',
    )
    with pytest.raises(
        UserError,
        match=(
            r"answers 400 Bad Request \(.*maximum context length.*; the text was 'the"
            r" clock'"
        ),
    ):
        lm.score(without_context(["the clock"]))
    fake.trouble = lambda number, text: (307, {"Location": "http://elsewhere"}, b"")
    with pytest.raises(UserError, match="answers 307 Temporary Redirect"):
        lm.score(without_context(["the clock"]))


def test_what_was_scored_before_the_server_died_is_kept(
    start: Start, tmp_path: Path
) -> None:
    fake = start()
    cached = Cached(load_model(f"server:lower:{fake.url}"), tmp_path / "cache")
    begun = len(fake.asked)
    kept: list[str] = []
    again: list[str] = []
    fake.trouble = lambda number, text: (
        "hang up" if number > begun + 40 else kept.append(text)
    )  # type: ignore[func-returns-value]
    texts = [f"{text} {number}" for number in range(20) for text in TEXTS]
    with pytest.raises(
        UserError,
        match=r"no answer .* is the server running at this address\? Then run it again",
    ):
        cached.score(without_context(texts))
    with sqlite3.connect(cached.path) as database:
        assert database.execute("SELECT COUNT(*) FROM scores").fetchone() == (40,)
    fake.trouble = lambda number, text: again.append(text)  # type: ignore[func-returns-value]
    assert sums(cached.score(without_context(texts))) == pytest.approx(
        [expected("", text) for text in texts]
    )
    assert len(kept) == 40 and {*again} == {*texts} - {*kept}


def test_an_interrupt_ends_soon_and_keeps_what_was_scored(
    start: Start, tmp_path: Path
) -> None:
    fake = start()
    cached = Cached(load(fake), tmp_path)
    begun = len(fake.asked)
    answers = threading.Event()

    def wait(number: int, text: str) -> None:
        if number > begun + 4:
            answers.wait(300)

    fake.trouble = wait
    with pytest.raises(KeyboardInterrupt):
        for rank, _ in enumerate(cached.as_scored(without_context(TEXTS))):
            if rank == 3:
                raise KeyboardInterrupt
    assert fake.under_way  # their answers were not waited for
    answers.set()
    with sqlite3.connect(cached.path) as database:
        assert database.execute("SELECT COUNT(*) FROM scores").fetchone() == (4,)


def test_on_the_command_line(start: Start, rescore: Run, tmp_path: Path) -> None:
    fake = start()
    spec = f"server:{fake.url}#{MODEL}"
    lists, dev = some_lists(tmp_path, "test", 4), some_lists(tmp_path, "dev", 4)
    ran = rescore(
        lists, "--lm", spec, "--dev", dev, "--cache", "kept", "--report", "r.json"
    )
    assert ran.returncode == 0, ran.stderr
    report = (tmp_path / "r.json").read_text(encoding="utf-8")
    assert f"lm:server=server@{load(fake).fingerprint[:12]},sum,unknown" in report
    asked = len(fake.asked)
    again = rescore(lists, "--lm", spec, "--dev", dev, "--cache", "kept")
    # the probe
    assert (
        again.stdout.splitlines()[:3] == ran.stdout.splitlines()[:3]
        and len(fake.asked) == asked + 1
    )
    scored = rescore(
        "score",
        lists,
        "--lm",
        spec,
        "--lm",
        f"server:upper:{fake.url}",
        "--prompt",
        "So: {text}",
    )
    assert scored.returncode == 0, scored.stderr
    first = next(
        one for one in map(json.loads, scored.stdout.splitlines()) if "hyps" in one
    )["hyps"][0]
    assert first["scores"]["server"] == pytest.approx(
        expected("So: ", first["text"]), abs=1e-4
    )
    assert first["scores"]["server:upper"] == pytest.approx(
        expected("So: ", first["text"].upper()), abs=1e-4
    )
    compared = rescore(
        "compare", lists, "--dev", dev, "--lm", spec, "--lm", f"server:upper:{fake.url}"
    )
    assert compared.returncode == 0 and "server + server:upper" in compared.stdout, (
        compared.stderr
    )
    assert_one_line_error(rescore(lists, "--lm", spec), "no recommended_weight")
    fake.trouble = lambda number, text: (400, {}, b"")
    assert_one_line_error(
        rescore("score", lists, "--lm", spec),
        "answers 400 Bad Request",
        "the text was 'The old clock",
    )


def test_in_python(start: Start, tmp_path: Path) -> None:
    fake = start()
    lm = package.load(f"server:{fake.url}#{MODEL}", prompt="So: {text}", cache=tmp_path)
    assert lm.score(["yes"])[0].sum == pytest.approx(expected("So: ", "yes"))


@pytest.mark.long
def test_by_ray(
    start: Start, rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    fake = start()
    lists = some_lists(tmp_path, "test", 3)
    local = rescore("score", lists, "--lm", f"server:{fake.url}")
    spread = rescore(
        "score",
        lists,
        "--lm",
        f"server:{fake.url}",
        "--engine",
        "ray",
        "--workers",
        "1",
    )
    assert spread.returncode == 0 and spread.stdout == local.stdout, spread.stderr


def test_an_answer_that_breaks_is_asked_for_again() -> None:
    """Also where the connection breaks within a body."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                with server.accept()[0] as connection:
                    connection.recv(1 << 16)
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
                    )

    threading.Thread(target=serve, daemon=True).start()
    client = Client(f"http://127.0.0.1:{server.getsockname()[1]}", None)
    with pytest.raises(UserError, match="no answer"):
        client.request("POST", "/v1/completions", {})
    server.close()


def test_paths_that_are_not_ascii() -> None:
    with pytest.raises(UserError, match="no answer"):
        load_model("server:http://127.0.0.1:1/\u00fcber#m")


def test_a_key_is_masked_wherever_it_is_repeated(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESCORE_API_KEY", "987654321")
    fake = start()
    lm = load(fake)
    fake.change = with_value(987654321)
    with pytest.raises(UserError, match=r"is \*\*\*") as error:
        lm.score(without_context(["the clock ticked"]))
    assert "987654321" not in str(error.value)
    fake.models = [{"id": "m-987654321"}, {"id": "m"}]
    with pytest.raises(UserError, match="it serves") as error:
        load_model(f"server:{fake.url}")
    assert "987654321" not in str(error.value)
