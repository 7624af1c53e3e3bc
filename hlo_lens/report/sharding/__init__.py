"""Pages of shardings."""
