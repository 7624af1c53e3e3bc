"""Findings: what a compiled program wastes, what the fix saves, and the rules that find it."""
