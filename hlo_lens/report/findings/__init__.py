"""Pages of findings and rules."""
