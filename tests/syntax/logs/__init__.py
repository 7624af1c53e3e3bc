"""Tests of hlo_lens.syntax.logs."""
