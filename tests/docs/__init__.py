"""Documents agree with the program: outputs, examples, command lines, links."""
