"""Translation models of single words (Brown et al. 1993)."""
