"""What may have a weight beside the first pass: each feature is a part of the table
`rescore.parts.FEATURES`.
"""

from rescore.features.base import (
    Bounds,
    Feature,
    Reason,
    Situation,
    Weighed,
    all_features,
)

__all__ = ["Bounds", "Feature", "Reason", "Situation", "Weighed", "all_features"]
