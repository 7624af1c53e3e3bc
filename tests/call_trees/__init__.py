"""Tests of hlo_lens.call_trees."""
