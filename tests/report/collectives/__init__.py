"""Tests of hlo_lens.report.collectives."""
