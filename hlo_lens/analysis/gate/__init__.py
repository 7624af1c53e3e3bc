"""Rules on the numbers of a compile, and whether it keeps them."""
