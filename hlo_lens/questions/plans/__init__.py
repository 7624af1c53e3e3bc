"""Plans: what needs many compiles, or findings and compiles: fit, bisect, proofs, lint.

Begin with `fit` (changes and hardware with which a program fits; `plans` are its attempts),
`bisect` (the version or flags that made a program worse; `bisection` is the search itself) and
`lint` (findings of a program; `proof` compiles their fixes). `page` computes nothing.
"""
