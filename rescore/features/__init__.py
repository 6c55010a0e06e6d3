"""What may have a weight beside the first pass: each feature is a part of the table
`rescore.parts.FEATURES`.
"""

from rescore.features.base import (
    Feature,
    Reason,
    Situation,
    WeightedColumn,
    WeightKind,
    all_features,
)
from rescore.features.counted import TextCount

__all__ = [
    "Feature",
    "Reason",
    "Situation",
    "TextCount",
    "WeightKind",
    "WeightedColumn",
    "all_features",
]
