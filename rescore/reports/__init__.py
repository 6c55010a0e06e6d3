"""What a user reads: one module for each report, with its record, what computes it and what renders it.

Terminal, Markdown, CSV, LaTeX and PNG are `styles`; `page` is HTML.
"""
