"""Pages of logs: out of memory, warnings, printed shardings."""
