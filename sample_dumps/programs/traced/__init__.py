"""A small program on distributed tensors in plain Python, to be traced; no framework needed."""
