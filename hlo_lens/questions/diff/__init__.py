"""Differences of two compilations in memory, collectives and shardings; snapshots."""
