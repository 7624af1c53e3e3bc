"""Types of log messages: out of memory, warnings, values that jax prints."""
