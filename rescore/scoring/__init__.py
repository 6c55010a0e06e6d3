"""Where scoring runs: this process, or the workers of a Ray cluster
(rescore/scoring/cluster.py).
"""

from rescore.scoring.local import (
    OnProgress,
    OnScores,
    add_columns,
    score_windows,
    windows_of_lists,
)

__all__ = ["OnProgress", "OnScores", "add_columns", "score_windows", "windows_of_lists"]
