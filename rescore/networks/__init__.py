"""One file a network (definition and fast pass), the blocks they share, checkpoints, and the tokenizer."""
