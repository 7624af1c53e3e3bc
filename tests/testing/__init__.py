"""Tests of hlo_lens.testing."""
