"""Grammar files, parsers and line patterns made from them, and their errors."""
