"""Records in, text out: terminal, Markdown, CSV, LaTeX, HTML, JUnit, plots. Nothing is computed here."""
