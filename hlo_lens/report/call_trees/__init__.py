"""Pages of call trees."""
