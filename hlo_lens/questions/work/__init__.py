"""Work: what each device computes, an equal share of it, and what devices compute alike.

Begin with `work`. Which devices hold the same value is `program/device_values.py`.
"""
