"""Pages of diffs, gate verdicts and snapshots."""
