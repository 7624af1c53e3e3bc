"""Changes of a program's text before optimizations, as XLA would compile it with the change."""
