"""Tests of hlo_lens.syntax.shapes."""
