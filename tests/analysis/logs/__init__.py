"""Tests of hlo_lens.analysis.logs."""
