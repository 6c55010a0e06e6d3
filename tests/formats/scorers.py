"""Alignment files as other scorers write them, made of pairs of texts: the layouts of
SpeechBrain's `dataio/wer.py`, icefall's `utils.py`, WeNet's `compute-wer.py`, Kaldi's
`wer_per_utt_details.pl` and sclite's `PATH_print`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rescore.metrics.alignment import align

Pair = tuple[str | None, str | None]
Texts = tuple[str, str]
"""The reference and the hypothesis of an utterance."""
Utterances = dict[str, Texts]

MADE: Utterances = {
    "u-1": ("hello big world", "hollow world"),
    "u-2": ("", "um"),
    "u-3": ("nobody hears this", ""),
    "u-4": ("grüsse aus köln", "grusse aus köln am rhein"),
    "u-5": ("今 天 天 气 很 好", "今 天 天 气 好 啊"),
    "u-6": ("a->b (laughter) *", "a->b (laughter) x"),
    "u-7": ("same words ; here", "same words ; here"),
    "u-8": ("", ""),
}


def aligned(texts: Texts) -> list[Pair]:
    return list(align(texts[0].split(), texts[1].split()))


def kind(pair: Pair) -> str:
    if pair[0] is None:
        return "I"
    if pair[1] is None:
        return "D"
    return "C" if pair[0] == pair[1] else "S"


def counted(pairs: Sequence[Pair]) -> Counter[str]:
    """The numbers of correct words, substitutions, insertions and deletions."""
    return Counter(map(kind, pairs))


def columns(pairs: Sequence[Pair], gap: str) -> list[tuple[str, str, str]]:
    """Reference, edit and hypothesis, as wide as the widest."""
    found = []
    for pair in pairs:
        cells = (pair[0] or gap, kind(pair), pair[1] or gap)
        width = max(map(len, cells))
        found.append(tuple(cell.center(width) for cell in cells))
    return found


def speechbrain(utterances: Iterable[tuple[str, Texts]]) -> str:
    lines = ["%WER 50.00 [ 1 / 2, 0 ins, 0 del, 1 sub ]", "=" * 80, "ALIGNMENTS", ""]
    lines += ["Format:", "<utterance-id>, WER DETAILS"]
    lines += ["<eps> ; reference  ; on", "  I   ;     S      ; =", "and ; hyp ; on"]
    for name, texts in utterances:
        pairs = aligned(texts)
        of = counted(pairs)
        words = len(texts[0].split())
        errors = of["S"] + of["I"] + of["D"]
        lines.append("=" * 80)
        lines.append(
            f"{name}, %WER 1.00 [ {errors} / {words}, {of['I']} ins, {of['D']} del,"
            f" {of['S']} sub ]"
        )
        for row in range(3):
            cells = [
                one[row].replace("C", "=") if row == 1 else one[row]
                for one in columns(pairs, "<eps>")
            ]
            lines.append(" ; ".join(cells))
    return "\n".join([*lines, ""])


def icefall(utterances: Iterable[tuple[str, Texts]]) -> str:
    lines = ["%WER = 50.00", "Errors: 1 insertions", "", ""]
    lines.append("PER-UTT DETAILS: corr or (ref->hyp)  ")
    for name, texts in utterances:
        said = []
        before: list[list[str]] = []
        for pair in [*aligned(texts), ("", "")]:
            if kind(pair) != "C":
                before.append([pair[0] or "*", pair[1] or "*"])
                continue
            if before:  # errors in a row are joined
                sides = [
                    " ".join(w for w in side if w != "*") or "*"
                    for side in zip(*before, strict=True)
                ]
                said.append(f"({sides[0]}->{sides[1]})")
            before = []
            said.append(pair[0] or "")
        lines.append(f"{name}:\t" + " ".join(said).strip())
    lines += ["", "SUBSTITUTIONS: count ref -> hyp", "1   a -> b", ""]
    return "\n".join(lines)


def wenet(utterances: Iterable[tuple[str, Texts]]) -> str:
    lines = []
    for name, texts in utterances:
        pairs = aligned(texts)
        of = counted(pairs)
        lines += ["", f"utt: {name}"]
        lines.append(
            f"WER: 1.00 % N={len(texts[0].split())} C={of['C']} S={of['S']}"
            f" D={of['D']} I={of['I']}"
        )
        for start in range(0, len(pairs), 4):
            part = columns(pairs[start : start + 4], "")
            for label, row in (("lab", 0), ("rec", 2)):
                cells = [one[row].strip().ljust(len(one[row])) for one in part]
                lines.append(f"{label}: " + "".join(f"{cell} " for cell in cells))
            lines.append("")
    lines += ["=" * 75, "", "Overall -> 50.00 % N=2 C=1 S=1 D=0 I=0", "=" * 75, ""]
    return "\n".join(lines)


def kaldi(utterances: Iterable[tuple[str, Texts]]) -> str:
    lines = []
    for name, texts in utterances:
        pairs = aligned(texts)
        of = counted(pairs)
        found = columns(pairs, "'***'")
        for label, row in (("ref", 0), ("hyp", 2), ("op ", 1)):
            lines.append(f"{name} {label}  " + "  ".join(one[row] for one in found))
        lines.append(f"{name} #csid {of['C']} {of['S']} {of['I']} {of['D']}")
    return "\n".join([*lines, ""])


def sclite(utterances: Iterable[tuple[str, Texts]]) -> str:
    lines = ["", "", "\t\tDUMP OF SYSTEM ALIGNMENT STRUCTURE", ""]
    lines += ["System name:   hyp.trn", "", "Speakers: ", "    0:  u", ""]
    lines.append("Speaker sentences   0:  u   #utts: 7")
    for name, texts in utterances:
        pairs = aligned(texts)
        of = counted(pairs)
        lines.append(f"id: ({name})")
        lines.append(f"Scores: (#C #S #D #I) {of['C']} {of['S']} {of['D']} {of['I']}")
        for start in range(0, max(len(pairs), 1), 4):
            rows: list[list[str]] = [[], [], []]
            for pair in pairs[start : start + 4]:
                cells = [pair[0] or "", pair[1] or "", kind(pair).replace("C", "")]
                if kind(pair) != "C":
                    cells = [cell.upper() for cell in cells]
                width = max(map(len, cells))
                for place, cell in enumerate(cells[:2]):
                    cells[place] = cell or "*" * max(width, 3)
                width = max(map(len, cells))
                for row, cell in zip(rows, cells, strict=True):
                    row.append(cell.ljust(width))
            mark = ">> " if start else ""
            for label, row in zip(("REF: ", "HYP: ", "Eval:"), rows, strict=True):
                lines.append(f"{mark}{label} " + " ".join(row) + " ")
        lines.append("")
    return "\n".join([*lines, ""])


WRITERS: dict[str, Callable[[Iterable[tuple[str, Texts]]], str]] = {
    "speechbrain-wer": speechbrain,
    "icefall-errs": icefall,
    "wenet-wer": wenet,
    "kaldi-per-utt": kaldi,
    "sclite": sclite,
}
