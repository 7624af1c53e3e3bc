"""Tests of hlo_lens.api.comparison."""
