"""Collectives of a program: operations, bytes on the wire, overlap, loops and causes.

Begin with `operations` (which instructions are one collective) and `collective` (its record, and
the fact `collectives`). `transfer` has bytes and overlap of one, `origin` its source lines,
`loop_levels` groups and the loops around them, `explanation` the reason for one, from the divided
dimensions that `operand_shardings` follows in the text from before optimizations.
"""
