"""Rules on the figures of a compile, and their verdicts."""
