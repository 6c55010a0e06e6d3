"""Where scoring runs. `local` is this process."""

from rescore.engines.local import ColumnAdder, OnProgress, add_column, score_all, score_lists

__all__ = ["ColumnAdder", "OnProgress", "add_column", "score_all", "score_lists"]
