"""Why the weights of language models are 0, and what to do."""

from __future__ import annotations

from rescore.tuning.weights import Unproven, named_weights


def why_zero(unproven: Unproven | None, first_pass: float, source: str, decision: str = "best") -> str:
    """Why all weights are 0, and what to do.

    Args:
        first_pass: the metric of the first pass, in percent. decision: the rule that was tuned for.
    """
    alone = "the first pass" if decision == "best" else f"{decision} of the first-pass scores alone"
    if unproven is None:
        return f"the LM does not help: no weight above 0 is better than {alone} on {source}"
    before = first_pass if unproven.alone is None else unproven.alone
    return (
        f"the weight is 0: {named_weights(unproven.weights)} changes {alone} on {source} from {before:.2f} to "
        f"{unproven.value:.2f}, and the 95 % CI of the change, {unproven.low:.2f} to {unproven.high:.2f} points (two "
        "standard errors), includes 0, so it may be chance; tune on more lists"
    )
