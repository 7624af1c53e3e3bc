"""Passes on log messages: out of memory, printed shardings, warnings."""
