"""Grammar files, parsers built from them, and their errors."""
