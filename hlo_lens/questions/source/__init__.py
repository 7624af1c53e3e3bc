"""Lines of the user's program with what they cost: bytes at the peak, bytes sent, FLOP, findings.

Begin with `lines` (the fact `source_lines`).
"""
