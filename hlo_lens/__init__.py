"""Read what the XLA compiler dumps."""
