"""Tests of hlo_lens.analysis.collectives."""
