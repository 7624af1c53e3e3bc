"""Pages of diffs and of verdicts on rules."""
