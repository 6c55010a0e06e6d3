"""Why the weights of language models are 0, and what to do."""

from __future__ import annotations

from rescore.tuning.weights import Unproven, named_weights


def why_zero(
    unproven: Unproven | None,
    metric: str,
    first_pass: float,
    source: str,
    decision: str = "best",
) -> str:
    """Why all weights are 0, and what to do.

    Args:
        metric: its name. first_pass: the metric of the first pass, in percent.
            decision: the rule that was tuned for.
    """
    alone = (
        "the first pass"
        if decision == "best"
        else f"{decision} of the first-pass scores alone"
    )
    if unproven is None:
        figures = f"no weight above 0 is better than {alone} on {source}"
        return f"the weight is 0, the LM does not help: {figures}; try another LM"
    before = first_pass if unproven.alone is None else unproven.alone
    tested = (
        f"{unproven.value:.2f} with {named_weights(unproven.weights)} (mean of samples)"
    )
    figures = f"{metric} on {source} is {before:.2f} for {alone}, {tested}"
    gain = (unproven.low + unproven.high) / 2
    if gain <= 0:
        return f"the weight is 0, the LM does not help: {figures}; try another LM"
    return (
        f"the weight is 0: {figures}; the gain of {gain:.2f} points may be chance,"
        f" because its 95 % CI (two standard errors), {unproven.low:z.2f} to"
        f" {unproven.high:.2f}, includes 0; tune on more lists"
    )
