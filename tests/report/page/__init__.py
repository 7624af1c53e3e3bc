"""Tests of hlo_lens.report.render."""
