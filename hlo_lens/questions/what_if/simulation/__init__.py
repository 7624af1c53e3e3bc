"""Changes of a compiled program answered from its own text, without compiling again."""
