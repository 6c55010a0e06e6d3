"""The version of this package; pyproject.toml reads it from here."""

VERSION = "0.3.0.dev0"
