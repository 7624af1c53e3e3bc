"""Readers of buffer assignments, live ranges and memory usage reports."""
