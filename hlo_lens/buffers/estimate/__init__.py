"""XLA's buffer assignment, repeated on a scheduled text: one file per step."""
