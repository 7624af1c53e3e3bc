"""Tests of hlo_lens.analysis.sharding."""
