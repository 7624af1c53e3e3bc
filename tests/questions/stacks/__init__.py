"""Tests of hlo_lens.questions.stacks."""
