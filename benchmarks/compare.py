"""This package against other tools and against itself, on the same hypotheses with the
same weights, in one run.

    make bench                       # the demo lists
    make bench LISTS=test.json       # your own

Networks have the paper's size and random weights (benchmarks/models.py). All
comparisons are ratios of hypotheses a second, tokenising included; what is compared
runs in turn, and the fastest of several runs counts. Rows of a tool that is not
installed are left out.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ceiling
import click
import speed
import torch
import torch.utils.data  # for minicons, which uses it without importing it
from common import (
    ROOT,
    cells_of_figures,
    cpu_seconds,
    is_missing,
    seconds_per_call,
    skip,
    write_json,
)

import models
import rescore
from rescore.lms import ComputeOptions, load
from rescore.lms.config import NetworkConfig
from rescore.reports.markup import markdown
from rescore.research.speed import machine
from rescore.scoring.local import WINDOW

Score = Callable[[Sequence[str]], object]
BATCHES = (1, 8, 32, 100)
FULL = ComputeOptions(precision="float32")


@click.command()
@click.argument("nbest", nargs=-1, required=True)
@click.option("--hypotheses", default=500, show_default=True)
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    help="Runs of each; of minicons' masked model one.",
)
@click.option(
    "--size", type=click.Choice(list(models.SIZES)), default="base", show_default=True
)
@click.option(
    "--ngram",
    help="An n-gram model that KenLM reads.  [default: a small one, made here]",
)
@click.option(
    "--sentences",
    help="Text for the n-gram model to score, a sentence a line.  [default: halves of"
    " the sentences in data/sentences.txt, joined in all ways]",
)
@click.option("--only-ngram", is_flag=True, help="Leave out the networks.")
@click.option("-o", "--output", help="Write the figures as JSON.")
def main(
    nbest: tuple[str, ...],
    hypotheses: int,
    repeats: int,
    size: str,
    ngram: str | None,
    sentences: str | None,
    only_ngram: bool,
    output: str | None,
) -> None:
    """Measure all comparisons on hypotheses of NBEST lists, and print a table."""
    texts = speed.sample(rescore.read(list(nbest)), hypotheses)
    rows: dict[str, dict[str, float]] = {}

    def row(
        what: str,
        ours: float,
        theirs: float,
        unit: str = "hyp/s",
        differ: float | None = None,
    ) -> None:
        """Rates, or times where the unit is one of time."""
        ratio = theirs / ours if unit == "ms" else ours / theirs
        figures = {"ours": ours, "other": theirs, "ratio": ratio}
        if differ is not None:
            figures["scores differ by"] = differ
        rows[f"{what} ({unit})"] = figures
        shown = f"{ours:,.1f} against {theirs:,.1f} {unit}, {ratio:.2f} times"
        click.echo(f"{what}: {shown}", err=True)

    with tempfile.TemporaryDirectory() as folder:
        if not only_ngram:
            made = {
                kind: models.make(kind, size, Path(folder) / kind)
                for kind in ("tta", "bilm", "unilm")
            }
            _networks(row, made, texts, repeats)
            _at_twenty_words(row, made, texts)
            _behind_a_prompt(
                row, models.causal(size, Path(folder) / "causal"), texts, repeats
            )
        if shutil.which("query"):
            model = Path(ngram) if ngram else _small_ngram(Path(folder))
            _ngram(
                row,
                model,
                Path(folder),
                Path(sentences) if sentences else None,
                repeats,
            )
        else:
            skip("n-grams", "KenLM's query is not on PATH: make kenlm")
    about = f"{speed.described(texts)}; {size}; {machine()}"
    if output:
        write_json(Path(output), rows)
    click.echo(f"{about}\n\n{markdown(cells_of_figures(rows))}")


def _networks(
    row: Callable[..., None], made: dict[str, Path], texts: list[str], repeats: int
) -> None:
    tta, bilm, unilm = (_own(kind, made) for kind in ("tta", "bilm", "unilm"))
    measured = speed.measure(tta, texts, repeats)
    bare = min(
        ceiling.tta_seconds(tta, NetworkConfig.load(made["tta"] / "config.json"), texts)
        for _ in range(repeats)
    )
    row("T-TA, against its bare matrix products", measured.rate, len(texts) / bare)
    shorter = "fp16" if speed.device().type == "cuda" else "int8"
    for precision in ("bf16", shorter):
        rough = rescore.load(f"tta:{made['tta']}", precision=precision)
        fast, usual = _rates([rough.score, tta.score], texts, repeats)
        row(
            f"T-TA in {precision}, against float32",
            fast,
            usual,
            differ=_difference(rough.score(texts), tta.score(texts)),
        )

    plain = _once(_plain_masked_lm(made["bilm"]), texts[:100])[0]
    ours = max(_rates([bilm.score], texts, 1))
    row("biLM, against one batch of masked copies a sentence", ours, plain)
    model, tokenizer = models.twin(made["unilm"])
    model.to(speed.device())
    in_batches = [
        partial(_plain_causal, model, tokenizer, size=size) for size in BATCHES
    ]
    ours = max(_rates([unilm.score], texts, repeats))
    best = max(_rates(in_batches, texts, repeats))
    row("uniLM, against transformers in padded batches", ours, best)
    if not is_missing("minicons", "make bench installs it", "rows of minicons"):
        _against_minicons(row, made, texts, repeats, measured.rate)


def _against_minicons(
    row: Callable[..., None],
    made: dict[str, Path],
    texts: list[str],
    repeats: int,
    tta_rate: float,
) -> None:
    bilm, unilm = (_own(kind, made) for kind in ("bilm", "unilm"))
    masked = minicons("MaskedLMScorer", made["bilm"])

    # a sentence at a time: larger batches are slower
    def their_masked(some: Sequence[str]) -> list[float]:
        return _sums(
            masked.token_score(batch, PLL_metric="original") for batch in _cut(some, 1)
        )

    theirs, wanted = _once(their_masked, texts)
    row("T-TA, against minicons' masked LM", tta_rate, theirs)
    ours = max(_rates([bilm.score], texts, 1))
    row(
        "biLM, against minicons' masked LM",
        ours,
        theirs,
        differ=_difference(bilm.score(texts), wanted),
    )

    causal = minicons("IncrementalLMScorer", made["unilm"])
    best, their_best, size = 0.0, [0.0], 0
    for batch in BATCHES:

        def their_causal(some: Sequence[str], batch: int = batch) -> list[float]:
            return _sums(
                causal.token_score(one, bos_token=True, eos_token=True)
                for one in _cut(some, batch)
            )

        rate = max(_rates([their_causal], texts, repeats))
        if rate > best:
            best, their_best, size = rate, their_causal(texts), batch
    ours = max(_rates([unilm.score], texts, repeats))
    row(
        f"uniLM, against minicons' causal LM, {size} a batch",
        ours,
        best,
        differ=_difference(unilm.score(texts), their_best),
    )


def _at_twenty_words(
    row: Callable[..., None], made: dict[str, Path], texts: list[str]
) -> None:
    """As the papers measured it: a sentence of 20 words; a T-TA's pass against one
    batch of n masked copies.
    """
    tta = _own("tta", made)
    masked = load(f"bilm:{made['bilm']}", FULL).network
    words = " ".join(texts).split()
    sentences = [
        " ".join(words[start : start + 20])
        for start in range(0, min(len(words), 1200) - 20, 20)
    ]
    times: dict[str, list[float]] = {
        "alone": [],
        "together": [],
        "masked": [],
        "masked, all logits": [],
    }
    tta.score(sentences[:5])
    for text in sentences:
        times["alone"].append(_seconds(lambda text=text: tta.score([text])))
        times["masked"].append(_seconds(lambda text=text: _plain_masked(masked, text)))
        times["masked, all logits"].append(
            _seconds(lambda text=text: _plain_masked(masked, text, everywhere=True))
        )
    for _ in range(3):
        times["together"].append(
            _seconds(lambda: tta.score(sentences)) / len(sentences)
        )
    found = {name: 1000 * statistics.median(values) for name, values in times.items()}
    row(
        "20 words: T-TA in batches, against a biLM's masked copies",
        found["together"],
        found["masked"],
        "ms",
    )
    row(
        "20 words: T-TA one at a time, against a biLM's masked copies",
        found["alone"],
        found["masked"],
        "ms",
    )
    row(
        "20 words: the same, logits at every position",
        found["alone"],
        found["masked, all logits"],
        "ms",
    )


def _behind_a_prompt(
    row: Callable[..., None], folder: Path, texts: list[str], repeats: int
) -> None:
    """A causal model of transformers behind a prompt of 200 tokens."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.to(speed.device())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(" ".join(texts), add_special_tokens=False)["input_ids"]
    prompt = f"{tokenizer.decode(ids[:200])} "
    lm = rescore.load(
        f"hf-causal:{folder}", prompt=f"{prompt}{{text}}", precision="float32"
    )
    some = [text for text in texts if len(text.split()) < 100][:100]
    # the prompt takes most of the time, whichever hypothesis stands behind it
    slow = some[:20]

    @torch.inference_mode()
    def alone(these: Sequence[str]) -> list[float]:
        return [_behind(model, tokenizer, prompt, text) for text in these]

    theirs, wanted = _once(alone, slow)
    ours = max(_rates([lm.score], some, repeats))
    differ = _difference(lm.score(slow), wanted)
    row(
        "hf-causal behind 200 tokens, against one sequence a hypothesis",
        ours,
        theirs,
        differ=differ,
    )


def _behind(model: Any, tokenizer: Any, prompt: str, text: str) -> float:
    """log p of a text behind a prompt, as transformers gives it."""
    shown = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    ids = [
        tokenizer.bos_token_id,
        *tokenizer(prompt + text, add_special_tokens=False)["input_ids"],
    ]
    tokens = torch.tensor(ids, device=speed.device())
    log_probs = model(input_ids=tokens[None]).logits[0, :-1].log_softmax(-1)
    return log_probs.gather(-1, tokens[1:, None])[shown:].sum().item()


def _ngram(
    row: Callable[..., None],
    model: Path,
    folder: Path,
    sentences: Path | None,
    repeats: int,
) -> None:
    """The same sentences: `rescore`'s scorer in this process, KenLM's `query` in a
    process of its own.
    """
    lm = rescore.load(f"ngram:{model}")
    text = sentences or _joined_halves(folder / "sentences.txt")
    many = text.read_text(encoding="utf-8").splitlines()
    windows = _cut(many, WINDOW)

    def sums() -> object:
        return [[score.sum for score in lm.score(window)] for window in windows]

    def words() -> object:
        return [[score.log_probs for score in lm.score(window)] for window in windows]

    comparisons = {
        "sums, against KenLM's query": ([], sums),
        "sums, against query -v sentence": (["-v", "sentence"], sums),
        "scores of words, against query -v word": (["-v", "word"], words),
    }
    for what, (options, ours) in comparisons.items():
        query = partial(_query, [*options, str(model)], text, folder / "out")
        our_seconds = []
        their_seconds = []
        for _ in range(repeats):
            our_seconds.append(seconds_per_call(ours, cpu_seconds))
            their_seconds.append(seconds_per_call(query, cpu_seconds))
        row(
            f"n-gram, {what}",
            len(many) / min(our_seconds),
            len(many) / min(their_seconds),
        )


def _query(arguments: list[str], text: Path, out: Path) -> None:
    """Run KenLM's `query` over a text."""
    with open(text) as source, open(out, "w") as sink:
        subprocess.run(
            ["query", *arguments],
            stdin=source,
            stdout=sink,
            stderr=subprocess.DEVNULL,
            check=True,
        )


def _joined_halves(path: Path) -> Path:
    """Write sentences that are all different: each first half of a sentence of
    data/sentences.txt with each second half.
    """
    text = (ROOT / "data" / "sentences.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.splitlines()]
    with open(path, "w", encoding="utf-8") as file:
        for first in sentences:
            for second in sentences:
                words = first[: len(first) // 2] + second[len(second) // 2 :]
                file.write(" ".join(words) + "\n")
    return path


def _small_ngram(folder: Path) -> Path:
    corpus = ROOT / "data" / "sentences.txt"
    options = [
        "-o",
        "3",
        "--discount_fallback",
        "--text",
        str(corpus),
        "--arpa",
        str(folder / "lm.arpa"),
    ]
    subprocess.run(["lmplz", *options], check=True, capture_output=True)
    subprocess.run(
        ["build_binary", folder / "lm.arpa", folder / "lm.binary"],
        check=True,
        capture_output=True,
    )
    return folder / "lm.binary"


def minicons(kind: str, folder: Path) -> Any:
    """minicons' scorer of a network's twin."""
    from minicons import scorer

    model, tokenizer = models.twin(folder)
    # which transformers 5 no longer has
    tokenizer.batch_encode_plus = tokenizer.__call__
    return getattr(scorer, kind)(model, speed.device().type, tokenizer=tokenizer)


def _plain_masked_lm(folder: Path) -> Callable[[Sequence[str]], list[float]]:
    """A scorer of texts by `_plain_masked`."""
    network = load(f"bilm:{folder}", FULL).network

    def score(texts: Sequence[str]) -> list[float]:
        return [_plain_masked(network, text) for text in texts]

    return score


@torch.inference_mode()
def _plain_masked(network: Any, text: str, everywhere: bool = False) -> float:
    """The definition of a biLM's score as one batch.

    Args:
        network: the biLM, an `OwnNetwork` (rescore/lms/own.py).
        everywhere: compute the logits of all positions, as transformers does.
    """
    device = speed.device()
    tokens = network.encode_texts([text])[0].ids
    ids = torch.tensor(tokens, device=device)
    number = torch.arange(len(ids), device=device)
    framed = torch.tensor([[*network.before, *tokens, *network.after]], device=device)
    copies = framed.repeat(len(ids), 1)
    copies[number, number + 1] = network.mask
    lengths = torch.full((len(ids),), copies.shape[1], device=device)
    hidden = network.network(copies, lengths)
    embeddings = network.network.token_embedding.weight
    logits = (
        (hidden @ embeddings.T)[number, number + 1]
        if everywhere
        else hidden[number, number + 1] @ embeddings.T
    )
    return logits.log_softmax(-1)[number, ids].sum().item()


@torch.inference_mode()
def _plain_causal(
    model: Any, tokenizer: Any, texts: Sequence[str], *, size: int
) -> None:
    """What a script would do: pad a batch, take the log-softmax, pick the targets."""
    for some in _cut(texts, size):
        framed = [f"[BOS] {text} [EOS]" for text in some]
        batch = tokenizer(
            framed, padding=True, return_tensors="pt", add_special_tokens=False
        ).to(speed.device())
        logits = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).logits
        logits[:, :-1].log_softmax(-1).gather(-1, batch["input_ids"][:, 1:, None])


def _rates(scorers: Sequence[Score], texts: list[str], repeats: int) -> list[float]:
    """Texts a second of each, run in turn; the fastest of the repeats."""
    for score in scorers:
        score(texts[:20])
    seconds = [
        [_seconds(lambda score=score: score(texts)) for score in scorers]
        for _ in range(repeats)
    ]
    return [len(texts) / min(column) for column in zip(*seconds, strict=True)]


def _once(
    score: Callable[[Sequence[str]], list[float]], texts: list[str]
) -> tuple[float, list[float]]:
    score(texts[:10])
    began = time.perf_counter()
    found = score(texts)
    _finish()
    return len(texts) / (time.perf_counter() - began), found


def _own(kind: str, made: dict[str, Path]) -> Any:
    """Our scorer of a network, in float32 as the others' scorers."""
    return rescore.load(f"{kind}:{made[kind]}", precision="float32")


def _finish() -> None:
    """Wait until the GPU has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    _finish()
    return time.perf_counter() - began


def _cut(texts: Sequence[str], size: int) -> list[list[str]]:
    return [list(texts[start : start + size]) for start in range(0, len(texts), size)]


def _sums(batches: Any) -> list[float]:
    return [
        sum(value for _, value in sentence) for batch in batches for sentence in batch
    ]


def _difference(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The largest of any sentence's score."""
    pairs = zip(
        *([getattr(found, "sum", found) for found in side] for side in (one, other)),
        strict=True,
    )
    return max(abs(a - b) for a, b in pairs)


if __name__ == "__main__":
    sys.exit(main())
