"""Differences between two compilations, one file per subject."""
