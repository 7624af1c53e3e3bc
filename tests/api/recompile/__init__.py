"""Tests of hlo_lens.api.recompile."""
