"""Tests of questions.diff.matching."""
