"""Tests of hlo_lens.model.shapes."""
