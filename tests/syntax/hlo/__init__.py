"""Tests of hlo_lens.syntax.hlo."""
