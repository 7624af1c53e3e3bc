"""Comparison of two programs: labels and edges, fingerprints, pairs, edits, groups of edits."""
