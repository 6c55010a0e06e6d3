"""From the hypotheses of a list to new ones: what a list has in different places, combined."""

from rescore.expansion.recombine import recombine

__all__ = ["recombine"]
