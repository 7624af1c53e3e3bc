"""Tests of hlo_lens.analysis.memory."""
