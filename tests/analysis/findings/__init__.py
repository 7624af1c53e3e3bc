"""Tests of hlo_lens.analysis.findings."""
