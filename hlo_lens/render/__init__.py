"""Tables, units and one renderer for each output format."""
