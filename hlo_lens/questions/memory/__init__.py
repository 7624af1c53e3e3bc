"""Memory of a module: layout, statement, peak, timeline, groups and the estimate."""
