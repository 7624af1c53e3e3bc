"""Tests of hlo_lens.report.memory."""
