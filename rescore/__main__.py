"""`python -m rescore`, which torchrun needs."""

from rescore.cli.start import main

main()
