"""Tests of hlo_lens.analysis.dumps."""
