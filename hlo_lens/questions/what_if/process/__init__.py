"""Compiling a dump's program again, in a process of its own, for any target, without hardware.

Only `worker` imports jax; it runs in a chosen Python interpreter and imports nothing else of
hlo_lens.
"""
