"""Tests of hlo_lens.model.buffers."""
