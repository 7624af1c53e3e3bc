"""Tests of hlo_lens.syntax.buffers."""
