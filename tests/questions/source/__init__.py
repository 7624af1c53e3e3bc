"""Tests of hlo_lens.questions.source."""
