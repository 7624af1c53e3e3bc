"""Processes: where a fork is safe, and functions that run in a second process."""
