"""Rules: one file each, with its code, its description and its function."""
