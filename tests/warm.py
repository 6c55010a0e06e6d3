"""What commands import late, imported by the servers of `tests.processes` and
`tests.forking`: their forks have it from the start.
"""

from __future__ import annotations

import torch._dynamo  # optimizers of PyTorch import this compiler

from rescore.cli.main import COMMANDS
from rescore.lms import fast, own
from rescore.lms.training import loop

IMPORTED = (torch._dynamo, fast, loop, own)
USED = [
    COMMANDS[name]
    for name in ("convert", "report", "rerank", "run", "score", "train", "tune")
]
