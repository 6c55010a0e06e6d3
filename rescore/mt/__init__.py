"""Translation: models that read the source, COMET and quality estimation."""
