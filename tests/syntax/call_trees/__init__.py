"""Tests of hlo_lens.syntax.call_trees."""
