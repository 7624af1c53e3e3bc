"""Facts joined from logs: out-of-memory messages, printed shardings, warnings."""
