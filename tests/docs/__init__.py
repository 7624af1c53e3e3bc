"""Documents are what the program does: outputs, examples, command lines, links."""
