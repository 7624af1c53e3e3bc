"""Tests of hlo_lens.analysis.program."""
