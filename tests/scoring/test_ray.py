"""The Ray engine: the same bytes as the local one, also where workers or nodes are
killed.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescore import formats
from rescore.columns import Column
from rescore.errors import UserError, installed_by
from rescore.lms.base import (
    DEFAULT,
    Capabilities,
    Question,
    TokenScores,
    WithNeighbours,
    without_context,
)
from rescore.lms.context import with_needed_neighbours
from rescore.mt.lexical.estimation import train
from rescore.nbest import Header
from rescore.scoring import cluster as engine
from rescore.scoring import local
from rescore.scoring.cluster import Cluster
from rescore.scoring.shards import Shards
from tests.conftest import ROOT, Run, assert_one_line_error, write_json
from tests.lms.test_ngram import ARPA
from tests.mt.test_lexical_training import pairs
from tests.processes import lines_until, running

installed = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Ray: pip install 'rescore[ray]'",
)
LISTS = ROOT / "data" / "test.json"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of three nodes on this machine: one without cores for this process, and
    two of one core each.
    """
    import ray
    from ray.cluster_utils import Cluster as Nodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # at their usual 15 workers starve beside other tests
        patch.setenv("RAY_worker_niceness", "0")
        found = Nodes(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": 100 << 20},
        )
        try:
            for _ in range(2):
                found.add_node(num_cpus=1, object_store_memory=100 << 20)
            ray.init(address=found.address, log_to_driver=False, logging_level="error")
            yield found
        finally:
            ray.shutdown()
            found.shutdown()


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "WINDOW", 200)


def without_start(done: Any) -> Any:
    """Return what a command printed, without the lines about workers: of these there
    are more where workers start slowly.
    """
    lines = []
    for line in done.stderr.splitlines(keepends=True):
        if not re.search(
            r"(with Ray|workers? ready|first worker, \d+ s)$", line.rstrip()
        ):
            lines.append(line)
    return replace(done, stderr="".join(lines))


WORKERS = ("--engine", "ray", "--workers", "2")


def check_equal_bytes(
    rescore: Run, folder: Path, lists: str, lms: Sequence[str]
) -> None:
    """Score lists in this process and by two workers."""
    here = rescore("score", lists, *lms, "-o", "local.jsonl")
    assert here.returncode == 0, here.stderr
    by_workers = rescore("score", lists, *lms, "-o", "ray.jsonl", *WORKERS)
    assert by_workers.returncode == 0, by_workers.stderr
    expected = (folder / "local.jsonl").read_bytes()
    assert (folder / "ray.jsonl").read_bytes() == expected


@installed
@pytest.mark.long
def test_equal_bytes(
    rescore: Run, nodes: Any, small_windows: None, tmp_path: Path
) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    demo = json.loads(LISTS.read_text(encoding="utf-8"))
    write_json(tmp_path / "l.json", dict(islice(demo.items(), 30)))  # four windows
    lms = ("--lm", "tta:context=1", "--lm", "ngram:lm.arpa", "--count-tokens")
    check_equal_bytes(rescore, tmp_path, "l.json", lms)
    assert not list(tmp_path.glob("*.shards"))
    ours = rescore(
        "l.json", "--lm", "tta-small", "--weight", "0.2", "--report", "a", "--best", "x"
    )
    theirs = rescore(
        "l.json",
        "--lm",
        "tta-small",
        "--weight",
        "0.2",
        "--report",
        "b",
        "--best",
        "y",
        "--engine",
        "ray",
    )
    assert theirs.returncode == 0, theirs.stderr
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    assert [line for line in ours.stdout.splitlines() if "|" in line] == [
        line for line in theirs.stdout.splitlines() if "|" in line
    ]


@installed
@pytest.mark.long
def test_equal_bytes_of_lexical_models(
    rescore: Run, nodes: Any, small_windows: None, tmp_path: Path
) -> None:
    """Sources travel with the lists: unknown words, emoji and 500 words among them."""
    known = pairs(80)
    for side, name in enumerate(("a.txt", "b.txt")):
        (tmp_path / name).write_text(
            "".join(f"{pair[side]}\n" for pair in known), encoding="utf-8"
        )
    train((tmp_path / "a.txt", tmp_path / "b.txt"), tmp_path / "lm", pieces=0)
    lists = {
        f"u{number}": {
            "src": (
                source
                if number % 9
                else ["?", "obama 🙂", "haus " * 500][number // 9 % 3]
            ),
            "ref": target,
            "hyp_1": {"score": -1, "text": target},
            "hyp_2": {"score": -2, "text": "🙂 " + source},
        }
        for number, (source, target) in enumerate(known)
    }
    write_json(tmp_path / "l.json", lists)
    readings = ("", ":channel", ":coverage", ":channel:coverage", ":length")
    lms = [part for reading in readings for part in ("--lm", f"lexical{reading}:lm")]
    check_equal_bytes(rescore, tmp_path, "l.json", lms)


@installed
@pytest.mark.long
def test_equal_bytes_of_models_that_listen(
    rescore: Run, nodes: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers read the recordings themselves, or get them with the lists."""
    pytest.importorskip("transformers")
    from tests.large.speech_models import build_speech, sound

    monkeypatch.setattr(local, "WINDOW", 6)
    build_speech("moonshine", tmp_path)
    lines = []
    for number in range(5):
        path = sound(tmp_path / f"u{number}.wav", seed=number)
        content = {"base64": base64.b64encode(path.read_bytes()).decode()}
        hyps = [
            {"text": text, "score": -rank}
            for rank, text in enumerate(["the cat", "the cab", "a cat"])
        ]
        lines.append(
            {
                "id": f"u{number}",
                "hyps": hyps,
                "audio": content if number % 2 else str(path),
            }
        )
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    lm = ("--lm", f"hf-speech:{tmp_path}")
    check_equal_bytes(rescore, tmp_path, "l.jsonl", lm)
    (tmp_path / "u2.wav").write_text("this is not a sound")
    broken = rescore(
        "score", "l.jsonl", *lm, "-o", "bad.jsonl", "--engine", "ray", "--workers", "2"
    )
    assert_one_line_error(
        without_start(broken), "utterance u2", "u2.wav: cannot be read as audio"
    )


def questions() -> list[list[Question]]:
    parts = local.windows_of_lists(with_needed_neighbours([], formats.read([LISTS])))
    return [
        without_context(
            hypothesis.text for placed in part for hypothesis in placed.nbest.hypotheses
        )
        for part in parts
    ]


@pytest.mark.slow
@installed
@pytest.mark.long
def test_a_killed_worker(nodes: Any, small_windows: None) -> None:
    batches = questions()
    cluster = Cluster(["tta"], DEFAULT, None, workers=2)
    stream = cluster.models[0].stream(batches)
    found = [next(stream)]
    victims = subprocess.run(
        ["pgrep", "-f", "^ray::_Holder"], capture_output=True, text=True
    ).stdout.split()
    os.kill(int(victims[-1]), signal.SIGKILL)
    found += list(stream)
    cluster.close()
    check_against_local(batches, found)


@pytest.mark.slow
@installed
@pytest.mark.long
def test_a_lost_node(nodes: Any, small_windows: None) -> None:
    batches = questions()
    cluster = Cluster(["tta"], DEFAULT, None, workers=2)
    stream = cluster.models[0].stream(batches)
    found = [next(stream)]
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
    found += list(stream)
    cluster.close()
    nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
    check_against_local(batches, found)


def check_against_local(
    batches: list[list[Question]], found: list[list[TokenScores]]
) -> None:
    from rescore.lms import load

    lm = load("tta")
    assert len(found) == len(batches)
    for batch, theirs in zip(batches, found, strict=True):
        assert [one.sum for one in lm.score(batch)] == [one.sum for one in theirs]


class Fragile:
    """A worker that one text kills, and another makes fail."""

    def __init__(self, *arguments: object) -> None:
        pass

    def load(self) -> list[engine.About]:
        return [("lm", "lm", "float32", "ab", Capabilities())]

    def score(self, rank: int, batch: list[Question]) -> list[int]:
        if Question("kill") in batch:
            os._exit(1)
        if Question("fail") in batch:
            raise UserError("does not fit")
        return [len(question.text) for question in batch]


@pytest.mark.slow
@installed
@pytest.mark.long
@pytest.mark.parametrize(
    ("poison", "told"),
    [("kill", "killed its worker 3 times"), ("fail", "does not fit")],
)
def test_poisoned_input(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, poison: str, told: str
) -> None:
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(engine, "_Holder", Fragile)
    batches = [
        without_context(texts) for texts in (["a", "bb"], ["ccc", poison], ["d"])
    ]
    cluster = Cluster(["tta"], DEFAULT, None, workers=1)
    with pytest.raises(
        UserError, match=rf"cannot score 2 texts, the first is 'ccc': {told}"
    ):
        list(cluster.models[0].stream(batches))
    cluster.close()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class LosingRay:
    """Workers that do what they have when they are asked for a result, and that lose
    all of it where they die.
    """

    class LostError(Exception):
        pass

    exceptions = SimpleNamespace(
        RayActorError=LostError, RayTaskError=ZeroDivisionError
    )

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 1}}]

    def remote(self, **needs: object) -> Any:
        return lambda cls: SimpleNamespace(remote=lambda *arguments: self.worker())

    def worker(self) -> Any:
        waiting: list[list[Question]] = []

        def score(rank: int, batch: list[Question]) -> Any:
            waiting.append(batch)

            def result() -> list[int]:
                if any(Question("kill") in one for one in waiting):
                    raise self.LostError
                waiting.remove(batch)
                return [len(question.text) for question in batch]

            return result

        loaded = Fragile().load()
        return SimpleNamespace(
            load=SimpleNamespace(remote=lambda: lambda: loaded),
            score=SimpleNamespace(remote=score),
        )

    def wait(
        self, references: list[Any], timeout: float
    ) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        return reference()

    def kill(self, handle: object) -> None:
        pass


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_done_before_is_not_blamed(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a worker dies before the result of its last task arrived, too."""
    monkeypatch.setattr(engine, "_import_ray", LosingRay)
    batches = [
        without_context(texts)
        for texts in (["a", "bb"], ["e"], ["ccc", "kill"], ["d"], ["ff"])
    ]
    cluster = Cluster(["tta"], DEFAULT, None, workers=workers)
    stream = cluster.models[0].stream(batches)
    assert [next(stream), next(stream)] == [[1, 2], [1]]
    with pytest.raises(
        UserError,
        match="cannot score 2 texts, the first is 'ccc': killed its worker 3 times",
    ):
        next(stream)


@installed
@pytest.mark.long
def test_an_error_of_the_user_in_a_worker(rescore: Run, nodes: Any) -> None:
    done = rescore("score", LISTS, "--lm", "tta:nowhere", "--engine", "ray")
    assert done.stderr.startswith("rescore: starting 2 workers with Ray\n")
    assert_one_line_error(without_start(done), "nowhere")


def test_an_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, soon; Ray itself would wait for minutes, deaf to signals."""
    monkeypatch.setattr(
        engine, "_import_ray", lambda: SimpleNamespace(is_initialized=lambda: False)
    )
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            UserError,
            match=(
                f"^--engine ray:{address}: no cluster answers .*; is its head running"
            ),
        ):
            Cluster(["tta"], DEFAULT, None, address)


def test_a_cluster_that_starts_too_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowRay:
        def is_initialized(self) -> bool:
            return False

        def init(self, **options: object) -> None:
            raise Exception("the node timed out\nduring startup")  # as Ray does

    monkeypatch.setattr(engine, "_import_ray", SlowRay)
    with pytest.raises(UserError, match=r"^--engine ray: the node timed out$"):
        Cluster(["tta"], DEFAULT, None)


def test_shards_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    windows = [[WithNeighbours(nbest)] for nbest in formats.read([LISTS])[:6]]
    output = str(tmp_path / "out.jsonl")
    first = Shards(output, {"lm": "a"})
    for window in windows[:4]:
        path = first.add(window)
        assert path is not None
        formats.write([placed.nbest for placed in window], str(path))
    del first  # which had the folder for itself
    again = Shards(output, {"lm": "a"})
    assert [again.add(window) is None for window in windows] == [True] * 4 + [False] * 2
    del again
    other = Shards(output, {"lm": "b"})
    paths = [other.add(window) for window in windows]
    assert None not in paths
    for window, path in zip(windows, paths, strict=True):
        formats.write([placed.nbest for placed in window], str(path))
    other.join()
    formats.write(
        [placed.nbest for window in windows for placed in window],
        str(tmp_path / "whole.jsonl"),
    )
    assert (tmp_path / "out.jsonl").read_bytes() == (
        tmp_path / "whole.jsonl"
    ).read_bytes()
    assert not Path(f"{output}.shards").exists()


def test_shards_of_other_questions_are_made_again(tmp_path: Path) -> None:
    nbest = formats.read([LISTS])[0]
    origin = Column("tta", "ab", "sum", "float32")
    asked = [
        WithNeighbours(nbest, ("before",), ("after",)),
        WithNeighbours(nbest, ("other",), ("after",)),
        WithNeighbours(nbest, ("before",), ()),
        WithNeighbours(nbest, ("before", "after"), ()),
        WithNeighbours(
            replace(nbest, header=Header(records={"x": origin})),
            ("before",),
            ("after",),
        ),
    ]
    shards = Shards(str(tmp_path / "out.jsonl"), {"lm": "model"})
    first = shards.add(asked[:1])
    assert first is not None
    formats.write([nbest], str(first))
    del shards  # which had the folder for itself
    again = [
        Shards(str(tmp_path / "out.jsonl"), {"lm": "model"}).add([placed])
        for placed in asked
    ]
    assert again[0] is None
    assert len({first, *again[1:]} - {None}) == len(asked)


def test_other_files_beside_shards_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "out.jsonl.shards"
    (folder / "folder").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder / "000000-aaaaaaaaaaaa.jsonl").write_text("of an earlier run")
    shards = Shards(str(tmp_path / "out.jsonl"), {"lm": "model"})
    window = [WithNeighbours(nbest) for nbest in formats.read([LISTS])[:2]]
    path = shards.add(window)
    assert path is not None
    formats.write([placed.nbest for placed in window], str(path))
    shards.join()
    assert (tmp_path / "out.jsonl").is_file()
    assert sorted(one.name for one in folder.iterdir()) == ["folder", "notes.txt"]
    assert (
        "the folder is kept, because it contains files other than shards" in caplog.text
    )


def test_without_the_extra(rescore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = rescore("score", LISTS, "--lm", "tta", "--engine", "ray")
    assert_one_line_error(done, "--engine ray needs Ray", installed_by("ray"))
    assert_one_line_error(
        rescore("score", LISTS, "--lm", "tta", "--engine", "spark"),
        "neither local nor ray[:ADDRESS]",
    )
    assert_one_line_error(
        rescore("score", LISTS, "--lm", "tta", "--workers", "2"),
        "--workers needs --engine ray",
    )


def test_help_imports_no_ray() -> None:
    code = (
        "import sys; sys.argv = ['rescore', 'score', '--help']\nfrom rescore.cli.main"
        " import main\n"
    )
    code += (
        "try:\n    main()\nexcept SystemExit:\n    assert 'ray' not in sys.modules and"
        " 'torch' not in sys.modules\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True).returncode
        == 0
    )


def test_lines_that_cannot_be_read(rescore: Run, tmp_path: Path) -> None:
    good = '{"id": "u%d", "hyps": [{"text": "a", "score": -1}]}\n'
    (tmp_path / "l.jsonl").write_text(good % 1 + '{"id": "u2", "hyps": [\n' + good % 3)
    assert_one_line_error(
        rescore("score", "l.jsonl", "--lm", "tta"), "l.jsonl: line 2, column"
    )


def test_many_files(rescore: Run, tmp_path: Path) -> None:
    """A folder of JSON Lines is one stream."""
    (tmp_path / "parts").mkdir()
    for number in (1, 2):
        line = f'{{"id": "u{number}", "hyps": [{{"text": "a", "score": -1}}]}}\n'
        (tmp_path / f"parts/part-{number}.jsonl").write_text(line)
    whole = rescore("convert", "parts/part-1.jsonl", "parts/part-2.jsonl").stdout
    assert whole.count("\n") == 2
    assert rescore("convert", "parts").stdout == whole


class SilentRay(LosingRay):
    """Workers of which some load their models, and that answer no question. Waiting
    takes no time: a clock goes on.
    """

    def __init__(self, loads: bool) -> None:
        self.loads = loads
        self.clock = 0.0

    def is_initialized(self) -> bool:
        return False

    def init(self, **settings: object) -> None:
        """Replace the handlers, as Ray does."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def wait(
        self, references: list[Any], timeout: float
    ) -> tuple[list[Any], list[Any]]:
        self.clock += timeout
        return ([], references) if not self.loads else super().wait(references, timeout)

    def shutdown(self) -> None:
        pass


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> SilentRay:
    ray = SilentRay(loads=True)
    monkeypatch.setattr(engine, "_import_ray", lambda: ray)
    monkeypatch.setattr(engine.time, "monotonic", lambda: ray.clock)
    return ray


def test_workers_that_do_not_start(
    silent: SilentRay, caplog: pytest.LogCaptureFixture
) -> None:
    """Lines say what is waited for, and one line ends it."""
    caplog.set_level(logging.INFO, "rescore")
    silent.loads = False
    with pytest.raises(UserError, match=r"^--engine ray: no worker could be started"):
        Cluster(["tta"], DEFAULT, None, workers=2)
    assert caplog.messages[0] == "starting 2 workers with Ray"
    assert caplog.messages[1].startswith("--engine ray: waiting for the first worker")


def test_workers_that_do_not_answer(
    silent: SilentRay, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rescore")
    cluster = Cluster(["tta"], DEFAULT, None, workers=1)
    assert caplog.messages == ["starting 1 worker with Ray", "1 of 1 worker ready"]
    silent.loads = False
    silent_scores = cluster.models[0].stream([without_context(["a"])])
    with pytest.raises(UserError, match=r"^--engine ray: .*no worker answered within"):
        next(silent_scores)
    assert "waiting for the scores of 1 text" in caplog.text


def test_all_workers_are_ready_once(
    silent: SilentRay, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rescore")
    cluster = Cluster(["tta"], DEFAULT, None, workers=3)
    batches = [without_context([text]) for text in "abcdef"]
    assert len(list(cluster.models[0].stream(batches))) == 6
    ready = [line for line in caplog.messages if line.endswith("ready")]
    assert ready == ["1 of 3 workers ready", "3 of 3 workers ready"]


def test_ray_keeps_the_handlers_of_signals(silent: SilentRay) -> None:
    """Else Ray prints the stack of the process at SIGTERM."""
    before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    ours = [lambda *arguments: None, lambda *arguments: None]
    try:
        signal.signal(signal.SIGINT, ours[0])
        signal.signal(signal.SIGTERM, ours[1])
        Cluster(["tta"], DEFAULT, None, workers=1)
        assert signal.getsignal(signal.SIGINT) is ours[0]
        assert signal.getsignal(signal.SIGTERM) is ours[1]
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


@installed
@pytest.mark.long
def test_workers_have_the_priority_of_the_command(rescore: Run) -> None:
    """By default Ray's workers run at nice 15, and a busy machine hardly runs them."""
    code = (
        "import os, ray\n"
        "from rescore.scoring.cluster import Cluster\n"
        "from rescore.lms.base import DEFAULT\n"
        "cluster = Cluster(['tta-small'], DEFAULT, None, workers=1)\n"
        "nice = ray.remote(num_cpus=0)(lambda: os.nice(0))\n"
        "assert ray.get(nice.remote()) == os.nice(0)\n"
        "cluster.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-400:]


@installed
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_one_line(number: int, tmp_path: Path) -> None:
    line = f"score {LISTS} --lm tta-small --engine ray --workers 1 -o {tmp_path / 'o'}"
    # a shell starts processes in the background with SIGINT ignored
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from rescore.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, *line.split()]
    with running(command, stderr=subprocess.PIPE) as process:
        wanted = "rescore: starting 1 worker with Ray\n"
        assert lines_until(wanted, process, process.stderr) == [wanted]
        process.send_signal(number)
        _, rest = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert rest.splitlines()[-1] == "rescore: interrupted"
    assert len(rest.splitlines()) <= 2, rest
