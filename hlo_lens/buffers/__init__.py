"""Buffer assignments, their values, live ranges and memory usage reports."""
