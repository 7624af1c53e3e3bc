"""Pages about a whole dump."""
