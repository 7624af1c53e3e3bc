"""Facts about one program: summary, entry values, FLOP, trip counts, source places."""
