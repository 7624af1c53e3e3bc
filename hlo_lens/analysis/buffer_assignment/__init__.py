"""What XLA's buffer assignment does, done again from a scheduled text: one file per step."""
