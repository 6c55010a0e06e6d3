"""What each precision of a T-TA costs on CPUs of several kinds.

    python benchmarks/precision.py test.json --lm tta

The script switches off instructions of the CPU, so one machine shows what older
machines do. The figures are hypotheses a second of processor time, with one thread; a
CPU without an instruction cannot show the rows that need it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import speed
import torch
from common import cells_of_figures, cpu_seconds, write_json

import rescore
from rescore.lms import without_context
from rescore.lms.devices import cpu_multiplies_bfloat16
from rescore.reports.markup import markdown
from rescore.research.speed import machine

PRECISIONS = ("float32", "bf16", "int8")
KINDS = {
    "all that this CPU has": {},
    "AVX-512 without bfloat16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
"""Kinds of CPUs, and the environment with which PyTorch computes as on them."""


@click.command()
@click.argument("nbest")
@click.option("--lm", default="tta", show_default=True)
@click.option("--hypotheses", default=1000, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--only-here", is_flag=True, help="Print the rates of this process.")
@click.option("-o", "--output", type=Path, help="Write the figures as JSON.")
def main(
    nbest: str,
    lm: str,
    hypotheses: int,
    repeats: int,
    only_here: bool,
    output: Path | None,
) -> None:
    """Measure each precision on hypotheses of NBEST lists, and print a table."""
    if only_here:
        click.echo(json.dumps(_rates(nbest, lm, hypotheses, repeats)))
        return
    rows: dict[str, dict[str, float]] = {}
    for kind, environment in KINDS.items():
        arguments = [*sys.argv, "--only-here"]
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            check=True,
        )
        rates = json.loads(done.stdout)
        rows[kind] = rates
        for name in PRECISIONS[1:]:
            rows[kind][f"{name} / float32"] = rates[name] / rates["float32"]
    known = {True: "has", False: "lacks", None: "may have"}
    click.echo(
        f"{machine()}; the CPU {known[cpu_multiplies_bfloat16()]} instructions"
        f" for products of bfloat16\n\n{markdown(cells_of_figures(rows))}"
    )
    if output:
        write_json(output, rows)


def _rates(nbest: str, lm: str, hypotheses: int, repeats: int) -> dict[str, float]:
    """The hypotheses a second of processor time for each precision; the fastest of
    several runs counts.
    """
    torch.set_num_threads(1)
    questions = without_context(speed.sample(rescore.read(nbest), hypotheses))
    seconds: dict[str, list[float]] = {}
    models = {name: rescore.load(lm, precision=name) for name in PRECISIONS}
    for model in models.values():
        model.score(questions[:100])
    for _ in range(repeats):
        for name, model in models.items():
            began = cpu_seconds()
            model.score(questions)
            seconds.setdefault(name, []).append(cpu_seconds() - began)
    return {name: len(questions) / min(runs) for name, runs in seconds.items()}


if __name__ == "__main__":
    main()
