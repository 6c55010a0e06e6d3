"""`python -m rescore`."""

from rescore.cli.start import main

main()
