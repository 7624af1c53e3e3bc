"""Tests of hlo_lens.report.call_trees."""
