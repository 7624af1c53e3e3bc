"""Tests of hlo_lens.processes."""
