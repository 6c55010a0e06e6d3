"""Many results in one table: as ESPnet's RESULTS.md has it, or a row a method and a column a set as in the papers."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.errors import UserError
from rescore.evaluation.results import Results
from rescore.parts import STYLES

LAYOUTS = ("espnet", "paper")


def render(results: Sequence[Results], layout: str, style: str) -> str:
    """The table; where the style has room for text, the signature of each row below it.

    Raises:
        UserError: the results do not fit the layout.
    """
    table = STYLES[style](espnet(results) if layout == "espnet" else paper(results))
    signatures = [(_name(one), one.signature) for one in results]
    if style == "text":
        return "\n".join([table, "", *(f"{name}: {signature}" for name, signature in signatures)])
    if style == "markdown":
        return "\n".join([table, "", *(f"- {name}: `{signature}`" for name, signature in signatures)])
    return table


def espnet(results: Sequence[Results]) -> list[list[str]]:
    """A row an output, in percent of the reference words; the first pass of each set once, above what reranked it.

    Raises:
        UserError: a result is no WER or CER.
    """
    rows = [["dataset", "Snt", "Wrd", "Corr", "Sub", "Del", "Ins", "Err", "S.Err"]]
    seen = set()
    for one in results:
        if one.metric not in ("WER", "CER"):
            raise UserError(
                f"{_name(one)}: {one.metric} has no substitutions, deletions, insertions; use --layout paper"
            )
        first = (one.dataset, one.first_pass, one.ref_words)
        if first not in seen:
            seen.add(first)
            rows.append(_error_row(one, "first_pass", f"{one.dataset}, first pass"))
        rows.append(_error_row(one, "reranked", _name(one)))
    return rows


def _error_row(results: Results, which: str, name: str) -> list[str]:
    counts = results.counts[which]
    units = counts["ref_words"] if "ref_words" in counts else counts["ref_characters"]
    sub, dele, ins = (counts[kind] for kind in ("substitutions", "deletions", "insertions"))
    shares = [units - sub - dele, sub, dele, ins, sub + dele + ins]
    wrong = 100 * results.wrong_utterances[which] / results.utterances
    return [
        name,
        f"{results.utterances}",
        f"{units}",
        *(f"{100 * share / units:.1f}" for share in shares),
        f"{wrong:.1f}",
    ]


def paper(results: Sequence[Results]) -> list[list[str]]:
    """A row a method, a column a set; first pass and oracle on top.

    Raises:
        UserError: results of one set disagree about its first pass, or one method comes twice for a set.
    """
    sets = list(dict.fromkeys(_column(one) for one in results))
    methods = list(dict.fromkeys(str(one.system) for one in results))
    table: dict[tuple[str, str], float | None] = {}
    for one in results:
        column = _column(one)
        for method, value in (("first pass", one.first_pass), ("oracle", one.oracle), (str(one.system), one.reranked)):
            known = table.setdefault((method, column), value)
            if known != value:
                raise UserError(
                    f"{column}: {method} is {known:.2f} in one file and {value:.2f} in another; name them apart"
                )
    rows = [["method", *sets]]
    for method in ("first pass", "oracle", *methods):
        cells = (table.get((method, column)) for column in sets)
        rows.append([method, *("" if value is None else f"{value:.2f}" for value in cells)])
    return rows


def _name(results: Results) -> str:
    return f"{results.dataset}, {results.system}"


def _column(results: Results) -> str:
    return f"{results.dataset} {results.metric}"
