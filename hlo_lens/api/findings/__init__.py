"""Findings of programs, with the user's settings, baselines and proofs."""
