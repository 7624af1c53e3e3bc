"""Versions of hlo-lens and of its JSON; pyproject.toml reads the former from here."""

__version__ = "0.1.0"

SCHEMA_VERSION = 3
"""Version of JSON reports: goes up when a key is renamed or changes its meaning."""

SNAPSHOT_VERSION = 4
"""The same of snapshots; those of other versions are refused."""
