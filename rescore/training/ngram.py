"""`rescore train --lm ngram` as a function: KenLM's own programs, given normalised text."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rescore.errors import UserError
from rescore.files import replacing, write_text
from rescore.formats.source import read_lines
from rescore.networks.tokenizer import Tokenizer, word_tokenizer
from rescore.training import lexicon

GET_KENLM = (
    "pip download --no-deps --no-binary kenlm kenlm==0.3.0 && tar xzf kenlm-0.3.0.tar.gz && "
    "cmake -S kenlm-0.3.0 -B kenlm-build && cmake --build kenlm-build --target lmplz build_binary query && "
    'export PATH="$PWD/kenlm-build/bin:$PATH"'
)


@dataclass(frozen=True, slots=True)
class NgramRecipe:
    """What decides the model.

    `prune` has lmplz's thresholds: n-grams of order 1, 2, ... that were seen so often or less are left out, the last
    one holds for all higher orders. `unit` is `word` or `subword`. `memory` is lmplz's -S. `fallback` lets lmplz assume
    discounts where the text is too small to estimate them.
    """

    order: int = 5
    prune: tuple[int, ...] = ()
    unit: str = "word"
    memory: str = "50%"
    fallback: bool = False
    keep_arpa: bool = False


def train(
    text: Path,
    out: Path,
    recipe: NgramRecipe,
    *,
    tokenizer: Path | None = None,
    normalisation: str = "english",
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Estimate an n-gram model (modified Kneser-Ney, Heafield et al. 2013) and write its folder.

    Args:
        tokenizer: a tokenizer.json whose normalisation, and for subwords whose vocabulary, is used.

    Raises:
        UserError: KenLM's programs are absent, or fail.
    """
    lmplz, build_binary = find_tool("lmplz"), find_tool("build_binary")
    if recipe.unit == "subword" and tokenizer is None:
        raise UserError("--unit subword needs the --tokenizer that makes them")
    found = Tokenizer.load(tokenizer) if tokenizer else word_tokenizer(normalisation)
    out.mkdir(parents=True, exist_ok=True)
    cut = found.words if recipe.unit == "word" else found.pieces
    with tempfile.TemporaryDirectory(dir=out) as folder, replacing(out / "lm.binary") as binary:
        arpa = Path(folder) / "lm.arpa"
        command = [lmplz, "-o", str(recipe.order), "-S", recipe.memory, "-T", folder, "--arpa", str(arpa)]
        if recipe.prune:
            command += ["--prune", *map(str, recipe.prune)]
        if recipe.fallback:
            command += ["--discount_fallback"]
        report(f"lmplz: {recipe.order}-grams of {recipe.unit}s in {text}")
        sentences = _run_with_input(command, (" ".join(units) for units in _units(text, cut)))
        report("build_binary")
        _run_with_input([build_binary, "-T", folder, str(arpa), str(binary)], [])
        counts = _ngram_counts(arpa)
        if recipe.keep_arpa:
            arpa.replace(out / "lm.arpa")
    found.save(out / "tokenizer.json")
    lexicon.write(text, found, out)
    write_text(out / "README.md", _card(recipe, sentences, counts))


def find_tool(name: str) -> str:
    """One of KenLM's programs, on PATH or beside the Python that runs.

    Raises:
        UserError: it is not there; says how to get it.
    """
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise UserError(f"{name} is not on PATH; with a C++ compiler, cmake and Boost this gets it: {GET_KENLM}")
    return found


def _units(text: Path, cut: Callable[[Sequence[str]], list[list[str]]]) -> Iterator[list[str]]:
    lines = read_lines(text)
    while chunk := list(islice(lines, 10_000)):
        yield from (units for units in cut(chunk) if units)


def _run_with_input(command: Sequence[str], lines: Iterable[str]) -> int:
    """Run a program on lines of text; returns how many there were."""
    number = 0
    with tempfile.TemporaryFile() as messages:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=messages, text=True, encoding="utf-8"
        ) as process:
            assert process.stdin is not None
            try:
                for line in lines:
                    process.stdin.write(line + "\n")
                    number += 1
                process.stdin.close()
            except BrokenPipeError:  # it ended early; its exit status and last words say why
                pass
            except BaseException:
                process.kill()
                raise
        messages.seek(0)
        said = [line.strip() for line in messages.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if process.returncode:
        raise UserError(f"{Path(command[0]).name} failed: {_reason(said)}")
    if not number and Path(command[0]).name == "lmplz":
        raise UserError("no text to train on")
    return number


def _reason(said: list[str]) -> str:
    """The line that explains the failure, of all that KenLM prints."""
    if any("discount_fallback" in line for line in said):
        return "the text is too small to estimate Kneser-Ney discounts from; give --discount-fallback, or more text"
    return said[-1][:300] if said else "it said nothing"


def _ngram_counts(arpa: Path) -> list[int]:
    """The number of n-grams of each order, from an ARPA file's head."""
    counts = []
    with open(arpa, encoding="utf-8") as file:
        for line in file:
            if line.startswith("ngram "):
                counts.append(int(line.partition("=")[2]))
            elif line.startswith("\\1-grams"):
                break
    return counts


def _card(recipe: NgramRecipe, sentences: int, counts: Sequence[int]) -> str:
    return f"""---
kind: ngram
order: {recipe.order}
unit: {recipe.unit}
recommended_weight: 0.3
---

# ngram

| | |
| --- | --- |
| model | {recipe.order}-gram of {recipe.unit}s, modified Kneser-Ney, by KenLM |
| pruned | {" ".join(map(str, recipe.prune)) or "not at all"} |
| training data | {sentences:,} sentences |
| n-grams | {", ".join(f"{count:,}" for count in counts)} |
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""
