"""Pages of collectives and loops."""
