"""Tests of hlo_lens.report.sharding."""
