"""Programs of dumps compiled again or simulated: with changes, to a limit, by version or flag."""
