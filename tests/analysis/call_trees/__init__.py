"""Tests of hlo_lens.analysis.call_trees."""
