"""Tests of hlo_lens.load."""
