"""The choice of `rerank` over HTTP."""
