"""`python -m rescore`, which torchrun needs."""

from rescore.cli.main import main

main()
