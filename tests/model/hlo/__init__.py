"""Tests of hlo_lens.model.hlo."""
