"""What commands import late, imported by the servers of `tests.processes` and
`tests.forking`: their forks have it from the start.
"""

from __future__ import annotations

import torch

from rescore.cli.main import COMMANDS
from rescore.lms import checkpoint, fast, own
from rescore.lms.config import NetworkConfig
from rescore.lms.training import loop

IMPORTED = (fast, loop, own)
USED = [
    COMMANDS[name]
    for name in ("convert", "report", "rerank", "run", "score", "train", "tune")
]
# the first network without memory makes torch import a compiler
with torch.device("meta"):
    checkpoint.build(NetworkConfig("tta", 300, 1, 16, 2, 16))
