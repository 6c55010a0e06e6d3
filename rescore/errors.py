"""The one error that is the user's to mend."""

from __future__ import annotations


class UserError(Exception):
    """Bad usage or bad input, reported in one line: what was found, where, and what to do.

    The command line prints it on stderr and exits with status 2; a Python caller can catch it. Nothing else is
    ever caught: any other exception is a defect of this package.
    """
