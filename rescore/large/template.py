"""The prompt of a causal model."""

from __future__ import annotations

from rescore.errors import UserError
from rescore.lms.base import Question

SOURCE, TEXT = "{src}", "{text}"


class Template:
    """What a causal model reads around a text that is scored."""

    def __init__(self, template: str) -> None:
        """
        Args:
            template: ends with {text}, and may have {src}; \\n is a new line, \\t a tab.
        """
        self.text = template.replace("\\n", "\n").replace("\\t", "\t")
        if self.text.count(TEXT) != 1 or not self.text.endswith(TEXT):
            raise UserError(f"--prompt {template!r}: expected a template that ends with {TEXT}, and may have {SOURCE}")
        self.reads_source = SOURCE in self.text

    def before(self, question: Question) -> str:
        """What is read before the text, with the source in its place."""
        source = question.pair(channel=False)[0] if self.reads_source else ""
        return self.text.removesuffix(TEXT).replace(SOURCE, source)
