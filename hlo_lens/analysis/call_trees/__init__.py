"""Sums, groups, outlines and differences of call trees, and the tree of a module."""
