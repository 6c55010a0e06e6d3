"""The commands of the wing are declared without PyTorch."""

from __future__ import annotations

import subprocess
import sys


def test_help_imports_no_torch() -> None:
    program = (
        "import sys\n"
        "from rescore.cli.main import cli\n"
        "for name in ('embed', 'similarity', 'probe'):\n"
        "    cli([name, '--help-all'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
