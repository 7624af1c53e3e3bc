"""Tests of hlo_lens.syntax.grammar."""
