"""Large language models: Hugging Face transformers, and servers."""
