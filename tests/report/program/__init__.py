"""Tests of hlo_lens.report.program."""
