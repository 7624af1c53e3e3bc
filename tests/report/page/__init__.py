"""Tests of hlo_lens.report.page."""
