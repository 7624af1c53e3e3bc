"""Shardings of parameters, outputs and intermediate values, and what they cost."""
