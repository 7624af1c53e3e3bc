"""Comparisons with XLA itself, where jaxlib is installed."""
