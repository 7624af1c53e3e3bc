"""Tests of hlo_lens.model.snapshot."""
