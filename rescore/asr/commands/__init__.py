"""Commands for lists of recognisers."""
