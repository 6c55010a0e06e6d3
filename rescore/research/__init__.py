"""A wing for the experiments of papers that no rescoring needs; the core never
imports it.
"""
