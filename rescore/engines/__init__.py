"""Where scoring runs: this process, or the workers of a Ray cluster (rescore/engines/cluster.py)."""

from rescore.engines.local import (
    ColumnAdder,
    OnProgress,
    add_column,
    score_all,
    score_lists,
    score_windows,
    windows,
)

__all__ = ["ColumnAdder", "OnProgress", "add_column", "score_all", "score_lists", "score_windows", "windows"]
