"""Text of XLA's dumps to objects of the model: grammars, and the scanners that are their shadow."""
