"""Snapshots: facts kept of a dump, their file format."""
