"""Modules, shapes, buffers, logs and snapshots as typed values; parses no text itself."""
