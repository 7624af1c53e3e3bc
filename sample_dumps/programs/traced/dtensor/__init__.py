"""Distributed tensors in plain Python, of the shape that PyTorch's DTensor gave such libraries."""
