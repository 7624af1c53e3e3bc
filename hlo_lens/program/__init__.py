"""Facts about one program: summary, entry values, FLOP, trip counts, source places.

Begin with `value_flow`, the one table of how a value goes on, which all walkers of values use, and
with `summary`, which has the HLO text of a module and the table of its instructions.
"""
