"""Texts of logs: out-of-memory messages, warnings, values that jax prints."""
