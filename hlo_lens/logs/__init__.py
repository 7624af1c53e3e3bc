"""Readers of logs: out-of-memory messages, warnings, printed shardings and values."""
