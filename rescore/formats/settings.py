"""Options of several formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rescore.options import Declared, option


@dataclass(frozen=True, kw_only=True)
class ListSize(Declared):
    size: int | None = option(
        None,
        "Hypotheses per list, if the file does not mark the end of a list (NeMo beams, OpenNMT). For lattices: number "
        "of different texts to read, 100 by default.",
        "--nbest-size",
        low=1,
    )


@dataclass(frozen=True, kw_only=True)
class AcousticScale(Declared):
    acoustic_scale: float | None = option(
        None,
        "First-pass score of Kaldi lists, SRILM lists and lattices: A times the acoustic score, plus the LM score.  "
        "[default: 1/12 for Kaldi, 1/8 for SRILM; lattices: acscale in the file, else 1]",
        metavar="A",
        low=0,
        high=1e6,
    )


def _role(text: str) -> tuple[str, str]:
    role, equals, key = text.partition("=")
    if not (role and equals and key.lstrip("-")):
        raise ValueError(f"{text!r} is not ROLE=KEY, such as text=hyp")
    return role, key


@dataclass(frozen=True, kw_only=True)
class Fields(Declared):
    fields: Mapping[str, str] = option(
        {},
        "JSON, CSV, TSV: the key or column KEY holds the ROLE: text, score, id, ref, src, or a new column of scores. "
        "Example: text=hyp. With score=-KEY lower values are better.",
        "--field",
        metavar="ROLE=KEY",
        parse=_role,
        read=dict,
    )
