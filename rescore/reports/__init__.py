"""What a user reads: one module for each report, with its record, what computes it and what renders it.

Terminal, Markdown, CSV and LaTeX are `styles`; `page` is HTML.
"""
