"""Tests of hlo_lens.analysis.comparison."""
