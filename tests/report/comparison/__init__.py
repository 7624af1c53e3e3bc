"""Tests of hlo_lens.report.comparison."""
