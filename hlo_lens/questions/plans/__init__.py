"""Plans: what needs many compiles, or findings and compiles: fit, bisect, proofs, lint.

Begin with `fit` (changes and hardware with which a program fits), `bisect` (the version or flags
that made a program worse), both with their records in `plans`, and `lint` (findings of a program,
and their fixes compiled). `page` computes nothing.
"""
