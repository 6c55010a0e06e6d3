"""Where scoring runs: this process, or the workers of a Ray cluster (rescore/engines/cluster.py)."""

from rescore.engines.local import OnProgress, OnScores, add_columns, score_windows, windows

__all__ = ["OnProgress", "OnScores", "add_columns", "score_windows", "windows"]
