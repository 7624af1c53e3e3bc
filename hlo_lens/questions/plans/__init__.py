"""Plans: what needs many compiles, or findings and compiles: fit, bisect, proofs, lint."""
