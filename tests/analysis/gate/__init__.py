"""Tests of hlo_lens.analysis.gate."""
