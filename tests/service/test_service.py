"""`rescore serve` with a real server on a loopback port: each answer is compared with
what `rescore rerank` gives.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import rescore
from rescore import (
    Hypothesis,
    NbestList,
    Rescorer,
    UserError,
    Weights,
    formats,
    pipeline,
)
from rescore.config import RunConfig
from rescore.decision import Decision
from rescore.errors import ServerError, installed_by
from rescore.formats.writing import as_json
from rescore.lms import load, record_of
from rescore.lms.base import Question, TokenScores
from rescore.nbest import Audio, Header
from rescore.options import OptionValues
from rescore.tuning.record import Tuning
from tests.conftest import ROOT, Run, assert_one_line_error, near
from tests.lms.test_ngram import ARPA
from tests.processes import lines_until, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from rescore.service import app as service

WEIGHTS = {"s2s": 0.6, "tta": 0.4}
MOST_SECONDS = 300
"""How long anything may take: a test that waits has an end."""


def demo(number: int, hypotheses: int = 10) -> list[NbestList]:
    lists = formats.read([ROOT / "data" / "test.json"])[:number]
    for nbest in lists:
        del nbest.hypotheses[hypotheses:]
    return lists


def until(condition: Callable[[], bool], wanted: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + MOST_SECONDS
    while not condition():
        assert time.monotonic() < end, f"never: {wanted}"
        time.sleep(0.01)


class Client:
    """What asks a service on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(
        self, method: str, path: str, body: Any = None
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=MOST_SECONDS
        )
        try:
            data = (
                body
                if body is None or isinstance(body, (bytes, str))
                else json.dumps(body)
            )
            connection.request(method, path, data)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        finally:
            connection.close()

    def rescore(self, body: Any) -> tuple[int, Any]:
        status, text, _ = self.ask("POST", "/rescore", body)
        return status, json.loads(text)

    def until_waiting(self, number: int) -> None:
        """Wait until a number of requests is in the queue."""

        def enough() -> bool:
            health = json.loads(self.ask("GET", "/health")[1])
            return bool(health["waiting"] >= number)

        until(enough, f"{number} requests wait")


@contextmanager
def serving(rescorer: Rescorer, **limits: Any) -> Iterator[Client]:
    """A server in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = service.server(service.application(rescorer, **limits))
    # a daemon: Python does not wait for it at its end
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(MOST_SECONDS)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def rescorer(models: dict[str, Path]) -> Rescorer:
    return Rescorer(f"tta:{models['tta']}", WEIGHTS)


@pytest.fixture(scope="module")
def client(rescorer: Rescorer) -> Iterator[Client]:
    with serving(rescorer) as client:
        yield client


def test_times_and_paths_that_cannot_be(rescorer: Rescorer, tmp_path: Path) -> None:
    """Each is answered with 400 and the reason."""
    hyp = '{"text": "a b", "score": -1, "times": [[0, 1], [1, %s]]}'
    hyps = '[{"text": "a", "score": -1}]'
    bodies = [
        f'{{"hyps": [{hyp % time}]}}'
        for time in ("1e400", "NaN", "1e308", "0", "1" + "0" * 400)
    ]
    bodies += [
        f'{{"hyps": {hyps}, "audio": {{"path": "a", "start": {time}}}}}'
        for time in ("1e400", "1e308", "-1")
    ]
    bodies += [
        f'{{"hyps": {hyps}, "audio": {json.dumps(path)}}}'
        for path in ("a\0b", "\0", "../x", "/x")
    ]
    with serving(rescorer, audio=tmp_path) as client:
        for body in bodies:
            status, answer = client.rescore(body)
            assert status == 400 and answer["error"].startswith(
                ("request", "utterance 1")
            ), (body, answer)


class Gate:
    """A language model that waits until it may score."""

    name = model = "gate"
    fingerprint, precision = "0", "float32"

    def __init__(self, lm: Any) -> None:
        self._lm, self.open, self.entered = lm, threading.Event(), threading.Event()
        self.open.set()
        self.sizes: list[int] = []

    def shut(self) -> None:
        self.open.clear()
        self.entered.clear()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        self.entered.set()
        assert self.open.wait(MOST_SECONDS)
        if any(question.text == "defect" for question in questions):
            raise RuntimeError("a defect")
        self.sizes.append(len(questions))
        return self._lm.score(questions)


@pytest.fixture
def gate(models: dict[str, Path]) -> Gate:
    return Gate(load(f"tta:{models['tta']}"))


def body_of(nbest: NbestList) -> dict[str, Any]:
    return as_json(nbest)


def without_more(answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that a file of lists has, too."""
    hyps = [
        {key: value for key, value in one.items() if key not in ("total", "rank")}
        for one in sorted(answer["hyps"], key=lambda hyp: str(hyp["text"]))
    ]
    return {
        **{key: value for key, value in answer.items() if key not in ("text", "words")},
        "hyps": hyps,
    }


@pytest.mark.parametrize(
    "decide",
    [
        [],
        ["--decide", "mbr", "--scale", "0.5"],
        ["--decide", "rover", "--scale", "0.5"],
    ],
)
def test_answers_are_those_of_rerank(
    rescore: Run, models: dict[str, Path], tmp_path: Path, decide: list[str]
) -> None:
    lists = demo(8)
    formats.write(lists, "lists.jsonl")
    weights = Weights(WEIGHTS)
    weights.save(tmp_path / "w.json")
    lm = f"tta:{models['tta']}"
    assert (
        rescore("score", "lists.jsonl", "--lm", lm, "-o", "scored.jsonl").returncode
        == 0
    )
    done = rescore(
        "rerank",
        "scored.jsonl",
        "--weights",
        "w.json",
        "-o",
        "r.jsonl",
        "--best",
        "best",
        *decide,
    )
    assert done.returncode == 0, done.stderr
    assert (
        rescore(
            "confidence",
            "scored.jsonl",
            "--weights",
            "w.json",
            "-o",
            "c.jsonl",
            *decide,
        ).returncode
        == 0
    )
    best = dict(
        line.split(" ", 1) for line in (tmp_path / "best").read_text().splitlines()
    )
    ranked = near((tmp_path / "r.jsonl").read_text())
    # their origins are in the weights of the service
    assert all(one.pop("columns") for one in ranked)
    for one in ranked:  # a file ranks by the combined score, the choice first
        one["hyps"].sort(key=lambda hyp: str(hyp["text"]))
        for hyp in one["hyps"]:
            hyp["score"] = hyp["scores"].pop("s2s")
            hyp.pop("rank", None)
    words = near((tmp_path / "c.jsonl").read_text())
    config = RunConfig(decide=decide[1], scale=0.5) if decide else None
    with serving(Rescorer(lm, tmp_path / "w.json", config)) as client:
        status, answers = client.rescore([body_of(nbest) for nbest in lists])
        assert status == 200
        single = [client.rescore(body_of(nbest)) for nbest in lists]
    assert {one["id"]: one["text"] for one in answers} == best
    assert [without_more(one) for one in answers] == ranked
    assert [(200, one["text"]) for one in answers] == [
        (status, one["text"]) for status, one in single
    ]
    for answer, expected in zip(answers, words, strict=True):
        found = [
            (one["word"], one["uncalibrated_confidence"]) for one in answer["words"]
        ]
        assert found == [
            (one["word"], pytest.approx(one["confidence"].expected, abs=2e-4))
            for one in expected["words"]
        ]
        totals = [one["total"] for one in answer["hyps"]]
        assert totals == sorted(totals, reverse=True)


def test_confidences_are_calibrated_on_dev_lists(
    rescorer: Rescorer, models: dict[str, Path]
) -> None:
    dev = rescorer.score([demo(12)])[0]
    with serving(Rescorer(f"tta:{models['tta']}", WEIGHTS, dev=dev)) as client:
        _, answer = client.rescore(body_of(demo(1)[0]))
        assert all("confidence" in word for word in answer["words"])
        assert json.loads(client.ask("GET", "/health")[1])["calibrated"]


def test_health_has_the_choice_as_weights_files_have_it(
    client: Client, rescorer: Rescorer, tmp_path: Path
) -> None:
    choice = json.loads(client.ask("GET", "/health")[1])["choice"]
    (tmp_path / "w.json").write_text(json.dumps(choice), encoding="utf-8")
    assert Weights.load(tmp_path / "w.json") == rescorer.weights


def test_health_has_the_decision_that_was_asked_for(models: dict[str, Path]) -> None:
    config = RunConfig(decide="mbr", scale=0.5)
    lm = load(f"tta:{models['tta']}")
    asked = Rescorer(lm, Weights(WEIGHTS), config)
    assert asked.weights.decision.name == "mbr"
    assert asked.weights.as_record["decision"]["scale"] == 0.5


def test_lists_need_neither_ids_nor_scores(client: Client, rescorer: Rescorer) -> None:
    texts = ["the old clock sticked", "the old clock ticked"]
    status, answer = client.rescore({"hyps": [{"text": text} for text in texts]})
    assert status == 200 and answer["id"] == "1"
    assert answer["text"] == rescorer.choose(texts).text
    assert sorted(one["score"] for one in answer["hyps"]) == pytest.approx(
        [-0.6931, 0], abs=1e-4
    )
    assert client.rescore([]) == (200, [])


def test_an_impossible_hypothesis_has_no_number(client: Client) -> None:
    body = '{"hyps": [{"text": "a", "score": -Infinity}, {"text": "b", "score": -1}]}'
    status, text, _ = client.ask("POST", "/rescore", body)
    answer = json.loads(
        text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    assert status == 200 and answer["text"] == "b"
    assert answer["hyps"][1]["score"] is None and answer["hyps"][1]["total"] is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"hyps": [', "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"3", "expected an object"),
        (b'["a"]', "list 1: expected an object"),
        (b'{"id": "u"}', "hyps"),
        (b'{"u": {"ref": "a", "hyp_1": {"score": 1}}}', "a line of native JSON Lines"),
        (b'{"hyps": []}', "no hypotheses"),
        (b'{"hyps": [{"score": 1}]}', "text"),
        (
            b'{"hyps": [{"text": "a", "score": "x"}]}',
            "hyps[0].score: expected a number, found a text",
        ),
        (b'{"hyps": [{"text": "a", "score": NaN}]}', "nan"),
        (
            (
                b'[{"hyps": [{"text": "a", "score": 1}]}, {"hyps": [{"text": "a",'
                b' "score": 1}, {"text": "b"}]}]'
            ),
            "list 2",
        ),
        (b"[" * 100_000, "nested"),
        (b'{"hyps": [{"text": "\\ud800"}]}', "surrogate"),
        (b'{"\\ud800": 1, "\\ud800": 2}', "is duplicated"),
    ],
)
def test_bad_input_is_one_line(
    client: Client, body: bytes, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets it, and the log has it."""
    status, answer = client.rescore(body)
    assert status == 400 and list(answer) == ["error"]
    assert message in answer["error"] and "\n" not in answer["error"]
    assert f"answered 400: {answer['error'][: service.LOGGED]}" in caplog.messages


def test_tuned_weights_of_a_column_without_a_record_are_refused_at_the_start(
    gate: Gate,
) -> None:
    """No model gives the column, and a request cannot know that it has to bring it."""
    given = Weights({"s2s": 0.5, "gate": 0.4, "tokens": 0.1, "more": 0.1})
    assert Rescorer(gate, given).weights is given
    for name, message in (
        ("tokens", "no model counts tokens"),
        ("more", "models give gate; give --lm NAME as well"),
    ):
        tuned = replace(
            given, weights={"s2s": 1.0, name: 0.1}, tuning=Tuning(metric="wer")
        )
        with pytest.raises(
            UserError, match=f"the weights need the column {name}; {message}"
        ):
            Rescorer(gate, tuned)
    forced = Rescorer(
        gate, tuned, RunConfig(force_weights=True)
    )  # a column of the user
    lacking = {"hyps": [{"text": "a", "score": -1}]}
    brought = {"hyps": [{"text": "a", "score": -1, "scores": {"more": 1}}]}
    with serving(forced) as client:
        assert client.rescore(brought)[0] == 200
        status, answer = client.rescore(lacking)
    assert status == 400 and "no score 'more'" in answer["error"]


def test_a_bad_request_harms_no_other_one_of_its_batch(gate: Gate) -> None:
    rescorer = Rescorer(gate, {"s2s": 0.5, "gate": 0.5, "more": 0.1})
    good = {"hyps": [{"text": "a", "score": -1, "scores": {"more": 1}}]}
    bodies = [
        good,
        {"hyps": [{"text": "a", "score": -1}]},
        {"hyps": [{"text": "defect", "scores": {"s2s": 1}}]},
        good,
    ]
    with serving(rescorer) as client, ThreadPoolExecutor(8) as threads:
        gate.shut()
        first = threads.submit(client.rescore, good)
        assert gate.entered.wait(MOST_SECONDS)  # it is scored alone
        rest = [threads.submit(client.rescore, body) for body in bodies]
        client.until_waiting(4)
        gate.open.set()
        answers = [one.result() for one in (first, *rest)]
    assert [status for status, _ in answers] == [200, 200, 400, 500, 200]
    assert (
        "no score 'more'" in answers[2][1]["error"]
        and "defect" in answers[3][1]["error"]
    )


def test_requests_that_wait_are_scored_together(gate: Gate) -> None:
    lists = demo(6)
    with (
        serving(Rescorer(gate, {"s2s": 0.5, "gate": 0.5})) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        gate.shut()
        answers = [threads.submit(client.rescore, body_of(lists[0]))]
        assert gate.entered.wait(MOST_SECONDS)  # it is scored alone
        answers += [
            threads.submit(client.rescore, body_of(nbest)) for nbest in lists[1:]
        ]
        client.until_waiting(5)
        gate.sizes.clear()
        gate.open.set()
        assert [one.result()[1]["id"] for one in answers] == [
            nbest.id for nbest in lists
        ]
        assert len(gate.sizes) == 2


def test_many_clients_get_their_own_answers(client: Client, rescorer: Rescorer) -> None:
    lists = demo(20, 5)
    expected = {choice.nbest.id: choice.text for choice in rescorer.choose_all(lists)}

    def ask(number: int) -> None:
        for place in range(number, number + 10):
            nbest = lists[place % len(lists)]
            status, answer = client.rescore(body_of(nbest))
            assert (status, answer["id"], answer["text"]) == (
                200,
                nbest.id,
                expected[nbest.id],
            )

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(ask, range(10)))


def test_too_many_requests_are_told_to_wait(gate: Gate) -> None:
    body = body_of(demo(1)[0])
    with (
        serving(Rescorer(gate, {"s2s": 0.5, "gate": 0.5}), waiting=2) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        gate.shut()
        answers = [threads.submit(client.rescore, body)]
        assert gate.entered.wait(MOST_SECONDS)  # it is scored alone
        answers += [threads.submit(client.rescore, body) for _ in range(2)]
        client.until_waiting(2)
        status, _, headers = client.ask("POST", "/rescore", body)
        assert status == 503 and headers["Retry-After"] == "1"
        gate.open.set()
        assert [one.result()[0] for one in answers] == [200] * 3


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused(rescorer: Rescorer, chunked: bool) -> None:
    data = b" " * 300_000
    with serving(rescorer, body=10_000) as client:
        connection = http.client.HTTPConnection(
            "127.0.0.1", client.port, timeout=MOST_SECONDS
        )
        connection.request(
            "POST",
            "/rescore",
            iter([data]) if chunked else data,
            encode_chunked=chunked,
            headers={"Transfer-Encoding": "chunked"} if chunked else {},
        )
        response = connection.getresponse()
        assert (
            response.status == 413
            and "10,000 bytes" in json.loads(response.read())["error"]
        )
        connection.close()
        assert client.rescore(body_of(demo(1)[0]))[0] == 200


def test_clients_that_go_away_harm_nobody(gate: Gate) -> None:
    data = json.dumps(body_of(demo(1)[0])).encode()
    head = "POST /rescore HTTP/1.1\r\nHost: a\r\n"
    head += f"Content-Length: {len(data)}\r\n\r\n"
    whole = head.encode() + data
    with serving(Rescorer(gate, {"s2s": 0.5, "gate": 0.5})) as client:
        gate.shut()
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(whole)
            assert gate.entered.wait(MOST_SECONDS)  # it is scored
        for part in (whole[: len(head) + 20], whole[:30]):
            with socket.create_connection(("127.0.0.1", client.port)) as connection:
                connection.sendall(part)
                client.until_waiting(0)  # the server goes on
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(whole)
            client.until_waiting(1)
        gate.open.set()
        assert client.rescore(data)[0] == 200
        assert json.loads(client.ask("GET", "/health")[1])["waiting"] == 0


@contextmanager
def process(
    lm: str,
    folder: Path,
    *options: str,
    program: Sequence[str] = ("-m", "rescore"),
) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """The command as a process of its own."""
    command = [
        sys.executable,
        *program,
        "serve",
        "--weights",
        "w.json",
        "--port",
        "0",
        *options,
    ]
    command += ["--lm", lm] * bool(lm)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with running(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE
    ) as started:
        lines = lines_until("listening", started, started.stderr)
        yield started, Client(int(lines[-1].rpartition(":")[2]))


GATED = """
import time
from pathlib import Path

from rescore.cli.start import main
from rescore.rescorer import Rescorer
from rescore.service import app

app.GRACE = 600
decide = Rescorer.decide


def wait_and_decide(self, lists):
    Path("entered").touch()
    while not Path("open").exists():
        time.sleep(0.01)
    return decide(self, lists)


Rescorer.decide = wait_and_decide
main()
"""
"""The command; no request is answered before the file `open` is there, and a slow
machine has time to answer all that wait.
"""


def is_refused(client: Client) -> bool:
    """Return whether a new connection is refused."""
    try:
        client.ask("GET", "/health")
    except ConnectionError:
        return True
    return False


def test_nothing_is_lost_when_it_is_stopped(
    models: dict[str, Path], rescorer: Rescorer, tmp_path: Path
) -> None:
    """SIGTERM while requests wait: each of them gets its answer, new connections are
    refused, exit status 0.
    """
    Weights(WEIGHTS).save(tmp_path / "w.json")
    lists = demo(40)
    expected = [(200, rescorer.choose(nbest).text) for nbest in lists]
    with (
        process(f"tta:{models['tta']}", tmp_path, program=("-c", GATED)) as (
            service_process,
            client,
        ),
        ThreadPoolExecutor(len(lists)) as threads,
    ):
        asked = [threads.submit(client.rescore, body_of(lists[0]))]
        until((tmp_path / "entered").exists, "the first request is answered alone")
        for nbest in lists[1:]:
            asked.append(threads.submit(client.rescore, body_of(nbest)))
        client.until_waiting(len(lists) - 1)
        service_process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(client), "new connections are refused")
        (tmp_path / "open").touch()
        answers = [one.result() for one in asked]
        assert service_process.wait(MOST_SECONDS) == 0
    assert [(status, answer["text"]) for status, answer in answers] == expected


def test_without_a_model(tmp_path: Path) -> None:
    """Minimum Bayes risk of first-pass scores."""
    Weights({"s2s": 1.0}, decision=Decision("mbr", 1.0)).save(tmp_path / "w.json")
    texts = ("a b c d", "x y z", "x y")
    hyps = [{"text": text, "score": -1 - rank / 9} for rank, text in enumerate(texts)]
    with process("", tmp_path) as (_, client):
        status, answer = client.rescore({"hyps": hyps})
        assert status == 200 and answer["text"] in texts[1:], "two hypotheses agree"


def test_the_configuration_of_nginx_in_the_docs(client: Client, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("needs nginx")
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    (site,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = site.replace("listen 80;", f"listen 127.0.0.1:{port};").replace(
        "127.0.0.1:8000", f"127.0.0.1:{client.port}"
    )
    paths = [
        f"{way}_temp_path {tmp_path};"
        for way in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    ]
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
        f"http {{ access_log off; {' '.join(paths)}\n{site} }}\n"
    )
    with subprocess.Popen([nginx, "-c", str(tmp_path / "nginx.conf")]) as proxy:
        try:

            def listens() -> bool:
                assert proxy.poll() is None, (tmp_path / "log").read_text()
                return (tmp_path / "pid").exists()

            until(listens, "nginx listens")
            nbest = body_of(demo(1)[0])
            assert Client(port).rescore(nbest) == client.rescore(nbest)
        finally:
            proxy.terminate()


@pytest.fixture
def ngram(tmp_path: Path) -> str:
    """A model that starts at once, and its weights in w.json."""
    Weights({"s2s": 0.6, "ngram": 0.4}).save(tmp_path / "w.json")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    return f"ngram:{tmp_path / 'lm.arpa'}"


def test_a_host_that_is_no_name(rescore: Run) -> None:
    assert_one_line_error(
        rescore("serve", "--lm", "tta", "--host", "a..b"),
        "--host a..b",
        "cannot listen there",
    )


def test_a_port_that_is_taken(
    rescore: Run, models: dict[str, Path], client: Client
) -> None:
    done = rescore("serve", "--lm", f"tta:{models['tta']}", "--port", str(client.port))
    # the service in this process may say that it listens, too
    last = done.stderr.splitlines()[-1]
    assert (
        done.returncode == 2
        and f"--port {client.port}" in last
        and "cannot listen" in last
    )


def test_weights_must_fit_the_models(models: dict[str, Path], tmp_path: Path) -> None:
    lm = f"tta:{models['tta']}"
    scored = Rescorer(lm, WEIGHTS).score([demo(2)])[0]
    weights = Weights(
        {"s2s": 0.5, "bilm": 0.5},
        tuning=Tuning(columns={"bilm": scored[0].header.records["tta"]}),
    )
    # the same model under another name
    assert Rescorer(lm, weights).lms[0].name == "bilm"
    column = replace(scored[0].header.records["tta"], fingerprint="0")
    other = replace(
        weights,
        tuning=Tuning(columns={"bilm": column}),
    )
    with pytest.raises(
        UserError,
        match="need the column bilm; models give tta; give --lm tta:PATH as well",
    ):
        Rescorer(lm, other)
    with pytest.raises(UserError, match="--respell"):
        Rescorer(lm, {"s2s": 1, "edits": -1})
    with pytest.raises(UserError, match="no dev lists"):
        Rescorer(
            lm, WEIGHTS, RunConfig(expanding=OptionValues(respell=5, channel="dev"))
        )
    assert Rescorer(lm, 0.4).weights.weights == pytest.approx(WEIGHTS)
    mean = Rescorer(lm, {"s2s": 0.5, "tta": 0.5}, RunConfig(lm_norm="mean"))
    assert mean.choose(["a b", "a"]).nbest.header.records["tta"].norm == "mean"


def test_tokens_that_the_weights_were_tuned_with_are_counted(ngram: str) -> None:
    """Not only those of pseudo-log-likelihoods."""
    plan = RunConfig(lms=(ngram,), weights=(0.4,), token_bonus=0.1)
    outcome = pipeline.run(demo(3), plan)
    tuning = outcome.weights.tuning
    records = dict(outcome.lists[0].header.records)
    weights = replace(outcome.weights, tuning=replace(tuning, columns=records))
    assert weights.weights["tokens"] == 0.1
    assert [
        choice.text for choice in Rescorer(ngram, weights).choose_all(demo(3))
    ] == outcome.texts
    other = {
        **records,
        "tokens": replace(records["tokens"], fingerprint="0" * 64),
    }
    with pytest.raises(UserError, match="no model counts tokens"):
        Rescorer(ngram, replace(weights, tuning=replace(tuning, columns=other)))


def test_metrics_are_built_once(
    monkeypatch: pytest.MonkeyPatch, client: Client, rescorer: Rescorer
) -> None:
    rescorer.choose(demo(1)[0])
    calls: list[object] = []
    monkeypatch.setattr(
        "rescore.plan.choose_metric", lambda *arguments: calls.append(arguments)
    )
    assert client.rescore(body_of(demo(1)[0]))[0] == 200 and not calls


def test_several_models_of_one_kind(models: dict[str, Path], tmp_path: Path) -> None:
    places = [
        shutil.copytree(models["tta"], tmp_path / name) for name in ("one", "two")
    ]
    specs = [f"tta:{place}" for place in places]
    lists = demo(2)
    for norm in ("sum", "mean"):
        outcome = pipeline.run(
            lists, RunConfig(lms=tuple(specs), weights=(0.2, 0.2), lm_norm=norm)
        )
        assert list(outcome.weights.weights) == ["s2s", "tta", "tta.two"]
        for lms in (specs, outcome.lms):  # by name, or as `serve` has loaded them
            assert [
                one.text for one in Rescorer(lms, outcome.weights).choose_all(lists)
            ] == outcome.texts


@pytest.mark.parametrize("order", [1, -1])
def test_weights_keep_the_names_of_their_columns(tmp_path: Path, order: int) -> None:
    """Also names that a former version gave to two models of one kind."""
    columns = {}
    lms = []
    for place, name in (("news", "ngram"), ("talks", "ngram.talks")):
        path = tmp_path / f"{place}.arpa"
        path.write_text(ARPA.replace("-0.5", "-0.6") if lms else ARPA)
        lms.append(f"ngram:{path}")
        columns[name] = record_of(load(lms[-1]), "sum")
    assert len({column.fingerprint for column in columns.values()}) == 2
    values = {"s2s": 0.6, "ngram": 0.3, "ngram.talks": 0.1}
    weights = Weights(values, tuning=Tuning(columns=columns))
    rescorer = Rescorer(lms[::order], weights)
    found = {lm.name: lm.fingerprint for lm in rescorer.lms}
    assert found == {name: column.fingerprint for name, column in columns.items()}


def test_weights_of_another_model_are_refused_at_the_start(
    models: dict[str, Path],
) -> None:
    lm = f"tta:{models['tta']}"
    scored = Rescorer(lm, WEIGHTS).score([demo(2)])[0]
    other = replace(scored[0].header.records["tta"], fingerprint="0" * 64)
    weights = Weights(WEIGHTS, tuning=Tuning(columns={"tta": other}))
    with pytest.raises(UserError, match="column tta comes from"):
        Rescorer(lm, weights)
    forced = Rescorer(lm, weights, RunConfig(force_weights=True))
    assert (
        forced.choose(demo(1)[0]).text == Rescorer(lm, WEIGHTS).choose(demo(1)[0]).text
    )
    dev = [replace(nbest, header=Header(records={"tta": other})) for nbest in scored]
    tuning = Tuning(columns=dict(scored[0].header.records))
    with pytest.raises(UserError, match="column tta comes from"):
        Rescorer(lm, Weights(WEIGHTS, tuning=tuning), dev=dev)


def test_words_are_the_same_where_the_metric_says_so() -> None:
    lists = [
        NbestList(
            "u",
            [
                Hypothesis(text, {"s2s": -1.0})
                for text in ("The cat", "the cat", "a cat")
            ],
        )
    ]
    rescorer = Rescorer((), {"s2s": 1.0})
    found = rescorer.confidences(rescorer.choose(lists[0]))
    assert found == rescore.confidence(lists, {"s2s": 1.0})[0]
    assert found[0].confidence == pytest.approx(2 / 3)


TRAITS: dict[str, dict[str, Any]] = {
    "words": {},
    "an empty source": {"source": ""},
    "a source": {"source": "die alte Uhr"},
    "of a translator": {"header": Header(translates=True)},
}
"""What says whether lists are translations, for which BLEU is the default metric."""


def test_requests_have_the_metric_of_their_lists() -> None:
    config = RunConfig(decide="mbr", scale=1.0)
    weights = Weights({"s2s": 1.0})
    rescorer = Rescorer((), weights, config)
    chosen = {}
    for name, traits in TRAITS.items():
        lists = [replace(nbest, **traits) for nbest in demo(100)]
        outcome = pipeline.apply(lists, weights, config)
        assert [one.text for one in rescorer.choose_all(lists)] == outcome.texts, name
        chosen[name] = outcome.texts
    assert chosen["words"] == chosen["an empty source"] != chosen["a source"]
    assert chosen["a source"] == chosen["of a translator"]


Look = Callable[[str, int], str]


@pytest.fixture
def look(client: Client, tmp_path: Path) -> Look:
    """What a browser makes of the page, opened with a list, in a window so many pixels
    wide.
    """
    browser = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        None,
    )
    if browser is None:
        pytest.skip("needs chromium")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]
    options += [
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ]

    def shown(text: str, width: int) -> str:
        done = subprocess.run(
            [
                browser,
                *options,
                f"--window-size={width},900",
                f"--user-data-dir={tmp_path / 'profile'}",
                f"http://127.0.0.1:{client.port}/#list={quote(text)}",
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)

    return shown


def test_page_in_a_browser(look: Look, rescorer: Rescorer) -> None:
    shown = look("-4\tthe old clock sticked\n-4.5\tthe old clock <b>ticked</b>\n", 390)
    assert (
        "<td>the old clock sticked</td>" in shown
        and "<td>the old clock &lt;b&gt;ticked&lt;/b&gt;</td>" in shown
    )
    scores = [{"s2s": -4.0}, {"s2s": -4.5}]
    texts = ["the old clock sticked", "the old clock <b>ticked</b>"]
    choice = rescorer.choose(
        NbestList(
            "list", [Hypothesis(*pair) for pair in zip(texts, scores, strict=True)]
        )
    )
    assert (
        re.findall(r'class="number">(-[\d.]+)</td>', shown)[0]
        == f"{choice.totals[0]:.2f}"
    )
    assert (
        shown.count('class="word"') == 4 and 'title="uncalibrated confidence ' in shown
    )
    assert (
        '<p class="error">request: no hypotheses; give each list one or more</p>'
        in look('{"hyps": []}', 390)
    )
    assert re.search(
        r'class="number">0.00</td><td class="number">-[\d.]+</td>',
        look("the clock\nthe cluck", 390),
    )


def test_page_needs_nothing_else(client: Client) -> None:
    status, text, headers = client.ask("GET", "/")
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://", text)


def test_the_extra_is_named_where_it_is_missing(
    rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "rescore.service.app")
    monkeypatch.delattr("rescore.service.app")
    assert_one_line_error(
        rescore("serve", "--lm", "tta"), "needs uvicorn", installed_by("serve")
    )


def test_answers_are_sent_without_delay() -> None:
    """asyncio sets TCP_NODELAY on the connections of a listening socket only if this
    names its protocol.
    """
    from rescore.service.command import _bound

    with _bound("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_recordings(tmp_path: Path) -> None:
    """As base64 or as a path in the allowed folder; a bad recording is the fault of its
    own request.
    """
    pytest.importorskip("transformers")
    from tests.large.speech_models import build_speech, sound

    wav, model = tmp_path / "wav", build_speech("moonshine", tmp_path)
    wav.mkdir()
    path = sound(wav / "a.wav", seed=1)
    sound(tmp_path / "secret.wav", seed=2)
    (wav / "text.wav").write_text("this is not a sound")
    texts = {"the cat": -1.0, "a cab": -1.5}
    hypotheses = [Hypothesis(text, {"s2s": score}) for text, score in texts.items()]
    (expected,) = rescore.score(
        [NbestList("u", hypotheses, audio=Audio(str(path)))], f"hf-speech:{model}"
    )
    hyps = [{"text": text, "score": score} for text, score in texts.items()]
    content = {"base64": base64.b64encode(path.read_bytes()).decode()}
    listening = Rescorer(f"hf-speech:{model}", {"s2s": 0.5, "hf-speech": 0.5})

    def entry(audio: Any) -> dict[str, Any]:
        return {"id": "u", "hyps": hyps, "audio": audio}

    with serving(listening, audio=wav, body=100_000) as client:
        for audio in content, "a.wav", {"path": "a.wav", "start": 0, "end": 9}:
            status, answer = client.rescore(entry(audio))
            assert status == 200 and "audio" not in answer
            scores = [hyp["scores"]["hf-speech"] for hyp in answer["hyps"]]
            assert sorted(scores) == pytest.approx(
                sorted(expected.column("hf-speech")), abs=1e-4
            )
        refused = {
            "../secret.wav": "is outside the folder",
            str(tmp_path / "secret.wav"): "is outside the folder",
            "text.wav": "cannot be read as audio",
            "none.wav": "no such file",
        }
        asked = [*refused, "a.wav", {"base64": "AAAA"}, {"base64": "?"}]
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = dict(
                zip(
                    map(str, asked),
                    pool.map(lambda audio: client.rescore(entry(audio)), asked),
                    strict=True,
                )
            )
        assert answers.pop("a.wav")[0] == 200
        assert {status for status, _ in answers.values()} == {400}
        for audio, message in refused.items():
            assert (
                message in answers[audio][1]["error"]
                and "utterance u" in answers[audio][1]["error"]
            )
        assert "no recording" in client.rescore({"id": "u", "hyps": hyps})[1]["error"]
        long = {
            "base64": (
                base64.b64encode(
                    sound(tmp_path / "long.wav", 3.0).read_bytes()
                ).decode()
            )
        }
        status, answer = client.rescore(entry(long))
        assert status == 413 and "more than 100,000 bytes" in answer["error"]
    with serving(listening) as client:
        assert client.rescore(entry(content))[0] == 200
        assert (
            "paths of recordings are not allowed"
            in client.rescore(entry("a.wav"))[1]["error"]
        )


def test_a_wrong_path_gets_the_paths(client: Client) -> None:
    for method, path, code in (("GET", "/rescore", 405), ("POST", "/v1/rerank", 404)):
        status, text, _ = client.ask(method, path)
        wanted = (
            f"{method} {path}: the service answers POST /rescore, GET /health and GET /"
        )
        assert status == code and json.loads(text) == {"error": wanted}


def test_the_shipped_model_of_a_column_is_named(gate: Gate) -> None:
    small = load("tta-small")
    column = replace(rescore.score(demo(1), small)[0].header.records["tta-small"])
    tuned = Weights(
        {"s2s": 0.5, "tta": 0.5},
        tuning=Tuning(metric="wer", columns={"tta": column}),
    )
    with pytest.raises(
        UserError,
        match="need the column tta; models give gate; give --lm tta-small as well",
    ):
        Rescorer(gate, tuned)
    assert Rescorer(small, tuned).lms[0].name == "tta"


def test_a_model_server_that_is_away_is_not_the_client_s_fault(
    client: Client, rescorer: Rescorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer quotes no option of the command line."""

    def away(*_: Any) -> Any:
        raise ServerError("http://llm: no answer", "run it again with --cache DIR")

    monkeypatch.setattr(rescorer, "score", away)
    status, answer = client.rescore(b'{"hyps": [{"text": "a"}]}')
    assert status == 503 and "--" not in answer["error"]
    assert answer["error"] == "http://llm: no answer; send the request again later"
