"""Valid HLO modules for Hypothesis, built from the forms of the grammar and printed in many styles.

`modules` draws programs that mean something: operands are defined before they are used, shapes fit,
computations are called with what they take. So XLA's own parser accepts them too, printed in any of
`STYLES`. What versions of XLA that it is not print beside that is in `novelties`.
"""
