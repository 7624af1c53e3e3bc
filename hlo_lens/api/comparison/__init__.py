"""Two compiles compared, and compiles judged by rules."""
