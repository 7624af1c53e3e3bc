"""Passes: each takes model objects and returns one typed result; none reads files or prints."""
