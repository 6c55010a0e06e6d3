"""Texts and references in, records of figures out: results, systems, analysis, perplexity, significance.

Records are plain; `rescore/reporting` renders them.
"""
