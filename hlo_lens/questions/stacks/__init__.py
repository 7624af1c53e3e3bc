"""The Python call stacks of a module as a tree with bytes or instructions; ``hlo-lens tree``."""
