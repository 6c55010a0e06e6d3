"""What a user reads: one module for each report, with its record, what computes it and
what renders it.

Tables are text (`rescore.styles`), Markdown, CSV and LaTeX (`markup`); `page` is HTML.
"""
